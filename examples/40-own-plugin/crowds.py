"""An example plugin: spread the pods of an app, and reject nodes in racks under repair."""

from holdfast.plugin import PerNodePlugin


class AvoidCrowds(PerNodePlugin):
    name = "AvoidCrowds"

    def fits(self, pod, node):
        if node.labels.get("rack") in self.args.get("closedRacks", ()):
            return "node(s) were in a rack under repair"
        return None

    def score(self, pod, node):
        app = pod.metadata.labels.get("app")
        same = sum(other.metadata.labels.get("app") == app for other in node.pods)
        return max(0, 100 - 10 * same)
