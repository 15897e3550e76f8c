"""Random pod affinity, spread constraints, workloads, namespaces and budgets."""

from __future__ import annotations

from holdfast.testing import a_namespace, a_replica_set
from real.differential.dice import Dice, Raw
from real.differential.nodes import HOST, RACK, REGION, ZONE
from real.differential.pods import PREFERRED, REQUIRED

_KEYS = (ZONE, ZONE, HOST, HOST, RACK, REGION, "nowhere")


def grow_pod_affinity(dice: Dice, pod: Raw, likelihood: float = 0.4) -> None:
    """Add required and preferred pod affinity and anti-affinity."""
    affinity = pod["spec"].get("affinity", {})
    for side in ("podAffinity", "podAntiAffinity"):
        made: Raw = {}
        if dice.chance(likelihood):
            made[REQUIRED] = [a_term(dice) for _ in range(dice.pick(1, 1, 2))]
        if dice.chance(likelihood):
            made[PREFERRED] = [
                {"weight": dice.pick(1, 20, 57, 100), "podAffinityTerm": a_term(dice)}
                for _ in range(dice.randint(1, 2))
            ]
        if made:
            affinity[side] = made
    if affinity:
        pod["spec"]["affinity"] = affinity


def a_term(dice: Dice) -> Raw:
    """Return one affinity term."""
    term: Raw = {"topologyKey": dice.choice(_KEYS)}
    if dice.chance(0.92):
        term["labelSelector"] = a_selector(dice)
        if dice.chance(0.08):
            term[dice.pick("matchLabelKeys", "mismatchLabelKeys")] = ["release"]
    if dice.chance(0.2):
        term["namespaces"] = dice.some(("default", "other", "third"), 2)
    if dice.chance(0.2):
        term["namespaceSelector"] = dice.pick(
            {}, {"matchLabels": {"team": "x"}}, {"matchLabels": {"team": "y"}},
            {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
            {"matchLabels": {"kubernetes.io/metadata.name": "other"}},
        )  # fmt: skip
    return term


def a_selector(dice: Dice) -> Raw:
    """Return a selector that matches some pods, all or none."""
    return dice.pick(
        {"matchLabels": {"app": dice.pick("a", "b", "c")}},
        {"matchLabels": {"app": dice.pick("a", "b", "c")}},
        {"matchLabels": {"app": "a", "tier": "front"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
        {},
    )


def grow_spread(dice: Dice, pod: Raw, *, soft: float = 0.5) -> None:
    """Add spread constraints, at most one for each key and ``whenUnsatisfiable``."""
    found = {}
    for _ in range(dice.randint(1, 3)):
        made = _constraint(dice, "ScheduleAnyway" if dice.chance(soft) else "DoNotSchedule")
        found[made["topologyKey"], made["whenUnsatisfiable"]] = made
    pod["spec"]["topologySpreadConstraints"] = list(found.values())


def _constraint(dice: Dice, when: str) -> Raw:
    made: Raw = {
        "maxSkew": dice.pick(1, 1, 2, 5), "topologyKey": dice.choice(_KEYS),
        "whenUnsatisfiable": when,
    }  # fmt: skip
    if dice.chance(0.93):
        made["labelSelector"] = a_selector(dice)
        if dice.chance(0.2):
            made["matchLabelKeys"] = dice.pick(["version"], ["version", "absent"])
    if when == "DoNotSchedule":
        made |= dice.maybe(0.3, minDomains=dice.randint(1, 5))
    made |= dice.maybe(0.3, nodeAffinityPolicy=dice.pick("Honor", "Ignore"))
    return made | dice.maybe(0.3, nodeTaintsPolicy=dice.pick("Honor", "Ignore"))


def some_namespaces(dice: Dice) -> list[Raw]:
    """Return namespaces with team labels; some are missing."""
    made = []
    for name in ("default", "other", "third"):
        if dice.chance(0.85):
            labels = {"kubernetes.io/metadata.name": name}
            if dice.chance(0.7):
                labels["team"] = dice.pick("x", "y")
            made.append(a_namespace(name, labels=labels))
    return made


def some_workloads(dice: Dice) -> list[Raw]:
    """Return Services and controllers that select pods by app."""
    made = []
    for app in "abc":
        for namespace in ("default", "other"):
            meta = {"name": app, "namespace": namespace, "uid": f"{namespace}-{app}"}
            if dice.chance(0.4):
                selector = {"app": app} | dice.maybe(0.3, tier="front")
                spec = {"selector": selector, "ports": [{"port": 80}]}
                made.append(_object("v1", "Service", meta, spec))
            if dice.chance(0.4):
                made.append(a_replica_set(app, namespace=namespace))
            if dice.chance(0.2):
                template = {"metadata": {"labels": {"app": app}}, "spec": _template()}
                spec = {"selector": {"matchLabels": {"app": app}}, "template": template,
                        "serviceName": app}  # fmt: skip
                made.append(_object("apps/v1", "StatefulSet", dict(meta), spec))
            if dice.chance(0.2):
                template = {"metadata": {"labels": {"app": app}}, "spec": _template()}
                spec = {"selector": {"app": app}, "template": template}
                made.append(_object("v1", "ReplicationController", dict(meta), spec))
    return made


def own(dice: Dice, pod: Raw) -> None:
    """Set the controller of a pod, which may not exist."""
    group, kind = dice.pick(
        ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController"),
        ("batch/v1", "Job"),
    )  # fmt: skip
    name = dice.pick("a", "b", "c", "gone")
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": group, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    ]


def some_budgets(dice: Dice) -> list[Raw]:
    """Return disruption budgets, some of them without allowed disruptions."""
    made = []
    for i in range(dice.randint(0, 3)):
        namespace = dice.pick("default", "default", "other")
        spec: Raw = {"minAvailable": 1}
        if dice.chance(0.9):
            spec["selector"] = a_selector(dice)
        budget = _object("policy/v1", "PodDisruptionBudget",
                         {"name": f"b{i}", "namespace": namespace}, spec)  # fmt: skip
        budget["status"] = {
            "disruptionsAllowed": dice.randint(0, 2), "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1,
        }  # fmt: skip
        if dice.chance(0.2):
            budget["status"]["disruptedPods"] = {"p1": "2026-01-10T00:00:00Z"}
        made.append(budget)
    return made


def _template() -> Raw:
    return {"containers": [{"name": "main", "image": "busybox"}]}


def _object(version: str, kind: str, meta: Raw, spec: Raw) -> Raw:
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
