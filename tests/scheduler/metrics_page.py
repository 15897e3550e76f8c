"""The metrics page of a scheduler, parsed."""

from prometheus_client.parser import text_string_to_metric_families


class Page:
    """The metrics of a scheduler, parsed as Prometheus parses them."""

    def __init__(self, text):
        self.families = {f.name: f for f in text_string_to_metric_families(text)}

    def __getitem__(self, name):
        return self.families[f"scheduler_{name}"]

    def value(self, name, suffix="", **labels):
        family = self[name.removesuffix("_total")]
        found = [
            s.value for s in family.samples
            if s.name == f"scheduler_{name}{suffix}" and labels.items() <= s.labels.items()
        ]  # fmt: skip
        return sum(found)
