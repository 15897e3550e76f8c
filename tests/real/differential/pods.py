"""Random pods: requests, tolerations, node selection and ports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.testing import a_pod
from real.differential.dice import Dice, Raw
from real.differential.nodes import RACK, REGION, ZONE, ZONES

NAMESPACES = ("default", "default", "default", "other", "third")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CPU = (None, None, "0", "1m", "50m", "100m", "250m", "0.5", "1", "1500m", "2", "3")
MEMORY = (None, None, "0", "64Mi", "128Mi", "200Mi", "1Gi", "1G", "1.5Gi", "3Gi", "128974848")
IMAGE_NAMES = (
    "registry.k8s.io/pause:3.10", "docker.io/library/big:1", "busybox", "busybox:latest",
    "registry.example.com:5000/team/app", "registry.example.com:5000/team/app:v2",
    "example.com/tiny:1", "example.com/nowhere:1", "docker.io/library/big@sha256:" + "a" * 64,
)  # fmt: skip


def a_random_pod(
    dice: Dice,
    name: str,
    *,
    node: str | None = None,
    namespace: str = "",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Raw:
    """Return a pod with a small request, labels and a priority."""
    made = a_pod(
        name, namespace=namespace or dice.choice(NAMESPACES), node=node,
        cpu=dice.choice(CPU), memory=dice.choice(MEMORY), image=dice.choice(IMAGE_NAMES),
        labels=some_labels(dice) if labels is None else labels,
        priority=dice.pick(0, 0, 0, 5, 10, 100, -5), **spec,
    )  # fmt: skip
    made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    if node is not None:
        # The times differ: the scheduler sorts by them, and equal times have no order.
        stamp = f"2026-01-0{dice.randint(1, 9)}T{dice.randint(10, 23)}:{dice.randint(10, 59)}:"
        digits = int("".join(c for c in name if c.isdigit()) or 0) % 60
        made["status"] = {"phase": "Running", "startTime": f"{stamp}{digits:02}Z"}
    return made


def some_labels(dice: Dice) -> dict[str, str]:
    """Return labels from a small set, so that selectors match some pods."""
    labels = {"app": dice.pick("a", "b", "c")}
    if dice.chance(0.5):
        labels["tier"] = dice.pick("front", "back")
    if dice.chance(0.4):
        labels["version"] = dice.pick("1", "2")
    return {} if dice.chance(0.05) else labels


def placed_pods(
    dice: Dice, nodes: Sequence[Raw], most: int, *, odd: bool = True, **fields: Any
) -> list[Raw]:
    """Return pods on the nodes; with ``odd``, also terminating, finished and misplaced pods."""
    made = []
    for i in range(dice.randint(0, most)):
        node = dice.choice(nodes)["metadata"]["name"] if nodes else "unknown"
        if odd and dice.chance(0.03):
            node = "unknown"
        pod = a_random_pod(dice, f"p{i}", node=node, **fields)
        if odd:
            grow_odd(dice, pod)
        made.append(pod)
    return made


def grow_odd(dice: Dice, pod: Raw) -> None:
    """Make a placed pod terminating, finished or one of another scheduler."""
    if dice.chance(0.06):
        pod["metadata"]["deletionTimestamp"] = "2026-01-10T00:00:00Z"
        pod["metadata"]["deletionGracePeriodSeconds"] = 30
    if dice.chance(0.03):
        pod["status"]["phase"] = dice.pick("Succeeded", "Failed")
    if dice.chance(0.03):
        pod["spec"]["schedulerName"] = "another"


def nominate(dice: Dice, pod: Raw, nodes: Sequence[Raw]) -> Raw:
    """Nominate a pending pod to a node."""
    name = dice.choice(nodes)["metadata"]["name"] if nodes and dice.chance(0.95) else "unknown"
    pod.setdefault("status", {})["nominatedNodeName"] = name
    return pod


# --- requests


def grow_resources(dice: Dice, pod: Raw) -> None:
    """Add containers, sidecars, overhead, other resources and pod-level resources."""
    spec = pod["spec"]
    if dice.chance(0.3):
        spec["containers"].append(_container(dice, "second"))
    if dice.chance(0.35):
        spec["initContainers"] = [
            _container(dice, f"init-{i}") | dice.maybe(0.4, restartPolicy="Always")
            for i in range(dice.randint(1, 3))
        ]
    if dice.chance(0.15):
        spec["overhead"] = {"cpu": "100m", **dice.maybe(0.5, memory="32Mi")}
    if dice.chance(0.25):
        grow_pod_level(dice, spec)
    if dice.chance(0.3):
        _ask(spec["containers"][0], "example.com/gpu", dice.pick("0", "1", "2"))
    if dice.chance(0.1):
        _ask(spec["containers"][-1], "example.com/nic", "1")
    if dice.chance(0.05):
        _ask(spec["containers"][0], "deviceclass.resource.kubernetes.io/gpu", "1")
    if dice.chance(0.1):
        _ask(spec["containers"][0], "hugepages-2Mi", dice.pick("2Mi", "64Mi"))
        spec["containers"][0]["resources"]["requests"].setdefault("cpu", "10m")
    if dice.chance(0.15):
        requests = spec["containers"][0]["resources"].setdefault("requests", {})
        requests["ephemeral-storage"] = dice.pick("1Gi", "30Gi", "0")


def _container(dice: Dice, name: str) -> Raw:
    requests = {"cpu": dice.choice(CPU), "memory": dice.choice(MEMORY)}
    requests = {k: v for k, v in requests.items() if v is not None}
    resources: Raw = {"requests": requests} if requests else {}
    if dice.chance(0.2):
        # Without a request, the request is the limit.
        resources["limits"] = dice.pick({"cpu": "4"}, {"memory": "4Gi"}, {"cpu": "4000m"})
    return {"name": name, "image": dice.choice(IMAGE_NAMES), "resources": resources}


def _ask(container: Raw, resource: str, amount: str) -> None:
    """Request a resource that cannot be overcommitted: the limit equals the request."""
    resources = container.setdefault("resources", {})
    resources.setdefault("limits", {})[resource] = amount
    resources.setdefault("requests", {})[resource] = amount


def grow_pod_level(dice: Dice, spec: Raw) -> None:
    """Add pod-level resources that are sufficient for the containers."""
    resources: Raw = {"requests": dice.pick({"cpu": "12"}, {"memory": "14Gi"},
                                            {"cpu": "12", "memory": "14Gi"}, {})}  # fmt: skip
    if dice.chance(0.4):
        resources["limits"] = dice.pick({"cpu": "20"}, {"cpu": "20", "memory": "20Gi"})
    if resources["requests"] or resources.get("limits"):
        spec["resources"] = resources


def grow_resize(dice: Dice, pod: Raw) -> None:
    """Resize a placed pod: the resources in its status differ from its spec."""
    status = []
    for container in pod["spec"]["containers"]:
        amounts = {"cpu": dice.pick("100m", "1", "2"), "memory": dice.pick("64Mi", "2Gi")}
        one: Raw = {
            "name": container["name"], "ready": True, "restartCount": 0, "image": "x",
            "imageID": "x",
        }  # fmt: skip
        if dice.chance(0.8):
            one["allocatedResources"] = dict(amounts)
        if dice.chance(0.8):
            one["resources"] = {"requests": dict(amounts)}
        status.append(one)
    pod["status"]["containerStatuses"] = status
    if dice.chance(0.5):
        reason = dice.pick("Infeasible", "Deferred")
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        pod["status"]["conditions"] = [condition]


# --- node selection


def grow_demands(dice: Dice, pod: Raw) -> None:
    """Add tolerations, node selection, host ports and features."""
    spec = pod["spec"]
    if dice.chance(0.35):
        spec["tolerations"] = some_tolerations(dice)
    if dice.chance(0.15):
        spec["nodeSelector"] = dice.pick(
            {ZONE: ZONES[0]}, {"disk": "ssd"}, {ZONE: ZONES[1], RACK: "r1"}
        )
    if dice.chance(0.35):
        spec.setdefault("affinity", {})["nodeAffinity"] = some_node_affinity(dice)
    if dice.chance(0.25):
        grow_ports(dice, pod)
    if dice.chance(0.1):
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
        spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    if dice.chance(0.06):
        spec["hostNetwork"] = True
        for port in (p for c in spec["containers"] for p in c.get("ports", ())):
            port["containerPort"] = port.get("hostPort", 80)


def some_tolerations(dice: Dice) -> list[Raw]:
    """Return tolerations of some of the taints."""
    known = (
        {"key": "dedicated", "operator": "Exists"},
        {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "web"},
        {"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"},
        {"key": "old", "value": "no"},
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"key": "gen", "operator": "Equal", "value": "5"},
    )
    return [dict(t) for t in dice.some(known, 3)]


def some_node_affinity(dice: Dice) -> Raw:
    """Return required and preferred node affinity."""
    made: Raw = {}
    if dice.chance(0.6):
        terms = [_node_term(dice) for _ in range(dice.pick(1, 1, 2))]
        made[REQUIRED] = {"nodeSelectorTerms": terms}
    if dice.chance(0.6):
        made[PREFERRED] = [
            {"weight": dice.pick(1, 7, 20, 100), "preference": _node_term(dice, names=False)}
            for _ in range(dice.randint(1, 3))
        ]
        if dice.chance(0.04):
            # A server accepts this; the scheduler cannot parse it and fails at Score.
            odd = {"key": "size", "operator": "Gt", "values": ["-5"]}
            made[PREFERRED].append({"weight": 3, "preference": {"matchExpressions": [odd]}})
    return made


def _node_term(dice: Dice, *, names: bool = True) -> Raw:
    if names and dice.chance(0.2):
        operator = dice.pick("In", "In", "NotIn")
        values = [dice.pick("n0", "n1", "n2", "missing")]
        term: Raw = {
            "matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]
        }
        return term | dice.maybe(0.3, matchExpressions=[_requirement(dice)])
    return {"matchExpressions": [_requirement(dice) for _ in range(dice.pick(1, 1, 2))]}


def _requirement(dice: Dice) -> Raw:
    key = dice.pick(ZONE, ZONE, REGION, RACK, "size", "disk", "nowhere")
    operator = dice.pick("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": "size", "operator": operator, "values": [dice.pick("1", "4", "10")]}
    values = {ZONE: ZONES, REGION: ["east", "west"], RACK: ["r1", "r2"], "size": ["5", "big"],
              "disk": ["ssd", ""], "nowhere": ["x"]}[key]  # fmt: skip
    return {"key": key, "operator": operator, "values": dice.some(list(values), 2) or ["odd"]}


def grow_ports(dice: Dice, pod: Raw) -> None:
    """Add host ports."""
    ports = []
    for i in range(dice.randint(1, 2)):
        port: Raw = {
            "hostPort": dice.pick(80, 80, 443), "containerPort": 8000 + i,
            "protocol": dice.pick("TCP", "TCP", "UDP", "SCTP"),
        }  # fmt: skip
        ports.append(port | dice.maybe(0.5, hostIP=dice.pick("0.0.0.0", "10.0.0.1", "10.0.0.2")))
    distinct = {(p["hostPort"], p["protocol"], p.get("hostIP")): p for p in ports}
    pod["spec"]["containers"][0]["ports"] = list(distinct.values())


def part_ports(objects: Sequence[Raw]) -> None:
    """Remove host ports that another pod of the node uses, as no kubelet runs such pods."""
    taken: set[tuple[Any, ...]] = set()
    for pod in objects:
        node = pod.get("spec", {}).get("nodeName") if pod["kind"] == "Pod" else None
        for container in pod["spec"]["containers"] if node else ():
            keys = [(node, p["hostPort"], p["protocol"]) for p in container.get("ports", ())]
            if len({*keys}) < len(keys) or taken & {*keys}:
                del container["ports"]
            else:
                taken |= {*keys}
