"""Random snapshots with extended resources that device classes serve, or device plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.testing import a_claim, a_device, a_device_class, a_slice
from real.differential import devices
from real.differential.devices import GPU, NIC
from real.differential.dice import Dice, Raw, identified
from real.differential.nodes import some_nodes
from real.differential.pods import a_random_pod, placed_pods

EXPLICIT = ("example.com/gpu", "example.com/nic")
IMPLICIT = "deviceclass.resource.kubernetes.io/"
AMOUNTS = ("0", "1", "1", "1", "2", "2", "3", "5", "40")


def extended_resources(dice: Dice) -> tuple[list[Raw], Raw]:
    """Extended resources by explicit and implicit name, on nodes of both kinds."""
    classes = _classes(dice)
    names = (*EXPLICIT, *_implicit_names(classes))
    nodes = some_nodes(dice, most=5, plain=dice.chance(0.9), roomy=dice.chance(0.9))
    for node in nodes:
        _grow_device_plugins(dice, node)
    slices = _slices(dice, nodes)
    pods = placed_pods(dice, nodes, 6, namespace="default", odd=False)
    made: list[Raw] = []
    taken: set[Any] = set()
    for i, pod in enumerate(pods):
        if dice.chance(0.5):
            _grow_requests(dice, pod, names)
        if dice.chance(0.3):
            made.append(_special_claim(dice, identified(pod), i, slices, taken))
    pod = identified(a_random_pod(dice, "x", namespace="default"))
    _grow_requests(dice, pod, names)
    if dice.chance(0.25):
        made.append(devices.a_random_claim(dice, "mine0", "default", constrained=False))
        devices.use_claims(dice, pod, ["mine0"])
    if dice.chance(0.04):
        made.append(devices.a_leftover(pod))
    return [*nodes, *pods, *slices, *classes, *made], pod


def _grow_device_plugins(dice: Dice, node: Raw) -> None:
    """Let device plugins of a node serve a class by its implicit name."""
    if dice.chance(0.15):
        amount = dice.pick("0", "1", "3")
        for part in ("capacity", "allocatable"):
            node["status"][part][f"{IMPLICIT}{dice.pick('gpu', 'nic')}"] = amount


def _slices(dice: Dice, nodes: list[Raw]) -> list[Raw]:
    made = []
    for node in nodes:
        name = node["metadata"]["name"]
        for driver, likelihood in ((GPU, 0.7), (NIC, 0.5)):
            if dice.chance(likelihood):
                one = [_device(dice, f"d{i}") for i in range(dice.randint(1, 4))]
                made.append(a_slice(f"{name}-{driver[:3]}", driver=driver, node=name, devices=one))
    if dice.chance(0.2):
        one = [_device(dice, f"f{i}") for i in range(dice.randint(1, 3))]
        made.append(
            a_slice("fabric", driver=GPU, node=None, pool="fabric", devices=one, all_nodes=True)
        )
    return made


def _device(dice: Dice, name: str) -> Raw:
    made = a_device(name, attributes={"model": dice.pick("a", "b")}, capacity={"memory": "8Gi"})
    if dice.chance(0.1):
        made["taints"] = [{"key": "broken", "effect": dice.pick("NoSchedule", "None"),
                           "timeAdded": "2026-01-01T00:00:00Z"}]  # fmt: skip
    if dice.chance(0.1):
        made["allowMultipleAllocations"] = True
    return made


def _classes(dice: Dice) -> list[Raw]:
    made = []
    for i, (name, rule) in enumerate(
        (("gpu", f'device.driver == "{GPU}"'), ("nic", f'device.driver == "{NIC}"'),
         ("any", "true"), ("model-a", f'device.attributes["{GPU}"].model == "a"'))
    ):  # fmt: skip
        if dice.chance(0.9):
            one = a_device_class(name, selectors=[rule] if name != "model-a" else [made_safe(rule)])
            if dice.chance(0.6):
                one["spec"]["extendedResourceName"] = dice.choice(EXPLICIT)
            # Equal times are compared too: then the names decide.
            one["metadata"]["creationTimestamp"] = f"2026-01-0{dice.randint(1, 3)}T00:00:00Z"
            one["metadata"]["uid"] = f"class-{i}"
            made.append(one)
    return made


def made_safe(rule: str) -> str:
    """Return a selector that is false for a device without the attributes."""
    return f'"{GPU}" in device.attributes && {rule}'


def _implicit_names(classes: list[Raw]) -> list[str]:
    """Return implicit names, but not of classes with the same explicit name as another.

    kube-scheduler forgets the implicit name of a class that comes after one which is preferred.
    """
    explicit = [one["spec"].get("extendedResourceName") for one in classes]
    unique = [
        one["metadata"]["name"]
        for one, name in zip(classes, explicit, strict=True)
        if name is None or explicit.count(name) == 1
    ]
    return [f"{IMPLICIT}{name}" for name in (*unique, "gone")]


def _grow_requests(dice: Dice, pod: Raw, names: Sequence[str]) -> None:
    """Let containers, init containers and sidecars request devices."""
    spec = pod["spec"]
    for i in range(dice.pick(0, 0, 1, 2)):
        spec["containers"].append({"name": f"more{i}", "image": "busybox"})
    for i in range(dice.pick(0, 0, 1, 2, 3)):
        one: Raw = {"name": f"init{i}", "image": "busybox"}
        spec.setdefault("initContainers", []).append(one | dice.maybe(0.4, restartPolicy="Always"))
    few = dice.some(names, 2) or [names[0]]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        if dice.chance(0.6):
            amounts = {name: dice.choice(AMOUNTS) for name in dice.some(few, 2)}
            resources = container.setdefault("resources", {})
            for part in ("requests", "limits"):
                resources[part] = resources.get(part, {}) | amounts


def _special_claim(dice: Dice, pod: Raw, number: int, slices: list[Raw], taken: set[Any]) -> Raw:
    """Return the claim that a scheduler created for a placed pod."""
    claim = devices.a_leftover(pod)
    name = f"{pod['metadata']['name']}-extended-resources-{number}"
    claim["metadata"] |= {"name": name, "uid": name}
    requests = a_claim("x", requests=[{"name": "container-0-request-0", "exactly": {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}])  # fmt: skip
    claim["spec"] = requests["spec"]
    local = [s for s in slices if s["spec"].get("nodeName") == pod["spec"]["nodeName"]]
    devices.allocate(dice, claim, local, taken, [pod])
    return claim
