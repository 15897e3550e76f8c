"""Families of random snapshots: each covers some plugins, ``mixed`` covers all.

The name of a family and a number determine a case completely.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from real.differential import devices, neighbours, storage
from real.differential.device_themes import device_themes
from real.differential.dice import Dice, Raw, identified
from real.differential.extended_resources import extended_resources
from real.differential.nodes import some_nodes
from real.differential.pods import (
    a_random_pod,
    grow_demands,
    grow_ports,
    grow_resize,
    grow_resources,
    nominate,
    part_ports,
    placed_pods,
)
from real.differential.profiles import a_configuration


@dataclass(frozen=True, eq=False)
class Case:
    """A snapshot and the pod to schedule."""

    family: str
    seed: int
    objects: list[Raw]
    pod: str
    config: Raw | None = None

    @property
    def line(self) -> bytes:
        """The case as one line of input for both schedulers."""
        asked = {"objects": self.objects, "pod": self.pod, "preempt": True}
        if self.config is not None:
            asked["config"] = self.config
        return json.dumps(asked).encode()

    @property
    def our_line(self) -> bytes:
        """The case without what Holdfast adds: kube-scheduler evicts no pods for devices."""
        asked = json.loads(self.line)
        config = asked.setdefault(
            "config",
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"schedulerName": "default-scheduler"}],
            },
        )
        for profile in config["profiles"]:
            arguments = {"name": "DynamicResources", "args": {"preemptDevices": False}}
            profile["pluginConfig"] = [*profile.get("pluginConfig", ()), arguments]
        return json.dumps(asked).encode()

    @property
    def size(self) -> int:
        return len(self.line)

    def having(self, objects: list[Raw]) -> Case:
        """Return the case with other objects."""
        return replace(self, objects=objects)


Family = Callable[[Dice], tuple[list[Raw], Raw]]
"""Generates all other objects, and the pod to schedule."""


def make_case(family: str, seed: int) -> Case:
    """Generate the case of that number."""
    dice = Dice(f"{family}-{seed}")
    objects, pod = FAMILIES[family](dice)
    meta = pod["metadata"]
    part_ports(objects)
    every = [identified(raw) for raw in (*objects, pod)]
    config = a_configuration(dice) if family == "profiles" else None
    return Case(family, seed, every, f"{meta['namespace']}/{meta['name']}", config)


def resources(dice: Dice) -> tuple[list[Raw], Raw]:
    """Capacity of nodes and requests of pods, in all forms."""
    nodes = some_nodes(dice)
    pods = placed_pods(dice, nodes, 25)
    for pod in pods:
        grow_resources(dice, pod)
        if dice.chance(0.2):
            grow_resize(dice, pod)
    pod = a_random_pod(dice, "x")
    grow_resources(dice, pod)
    return [*nodes, *pods], pod


def demands(dice: Dice) -> tuple[list[Raw], Raw]:
    """Taints, node selection, ports, images and features."""
    nodes = some_nodes(dice, roomy=dice.chance(0.6))
    pods = placed_pods(dice, nodes, 15)
    for pod in pods:
        if dice.chance(0.5):
            grow_ports(dice, pod)
    pod = a_random_pod(dice, "x")
    grow_demands(dice, pod)
    if dice.chance(0.3):
        grow_resources(dice, pod)
    return [*nodes, *pods], pod


def spreading(dice: Dice) -> tuple[list[Raw], Raw]:
    """Topology spread constraints, of the pod or by default for its workload."""
    many = dice.chance(0.02)
    nodes = some_nodes(dice, most=130 if many else 12, roomy=dice.chance(0.8))
    pods = placed_pods(dice, nodes, 200 if many else 30)
    pod = a_random_pod(dice, "x")
    extra: list[Raw] = []
    if dice.chance(0.7):
        neighbours.grow_spread(dice, pod)
    else:
        extra = neighbours.some_workloads(dice)
    if dice.chance(0.5):
        neighbours.own(dice, pod)
    if dice.chance(0.5):
        grow_demands(dice, pod)
    return [*nodes, *pods, *extra], pod


def affinity(dice: Dice) -> tuple[list[Raw], Raw]:
    """Pod affinity and anti-affinity."""
    nodes = some_nodes(dice, most=12, roomy=dice.chance(0.8))
    pods = placed_pods(dice, nodes, 25)
    for pod in pods:
        if dice.chance(0.4):
            neighbours.grow_pod_affinity(dice, pod, 0.4)
    pod = a_random_pod(dice, "x")
    if dice.chance(0.85):
        neighbours.grow_pod_affinity(dice, pod, 0.4)
    if dice.chance(0.3):
        grow_demands(dice, pod)
    return [*nodes, *pods, *neighbours.some_namespaces(dice)], pod


def volumes(dice: Dice) -> tuple[list[Raw], Raw]:
    """Claims, volumes, their topology and limits."""
    nodes = some_nodes(dice, plain=dice.chance(0.7), roomy=dice.chance(0.8))
    pods = placed_pods(dice, nodes, 12, namespace="default")
    for pod in pods:
        if dice.chance(0.6):
            storage.grow_volumes(dice, pod)
    pod = a_random_pod(dice, "x", namespace="default")
    storage.grow_volumes(dice, pod, 3)
    every = [identified(p) for p in (*pods, pod)]
    extra = storage.some_storage(dice, nodes) + storage.ephemeral_claims(dice, every)
    return [*nodes, *pods, *extra], pod


def claims(dice: Dice) -> tuple[list[Raw], Raw]:
    """Devices and resource claims."""
    return _with_devices(dice, safe=True)


def selectors(dice: Dice) -> tuple[list[Raw], Raw]:
    """Resource claims whose selectors may fail on a device without the attribute."""
    return _with_devices(dice, safe=False)


def _with_devices(dice: Dice, *, safe: bool) -> tuple[list[Raw], Raw]:
    nodes = some_nodes(dice, most=6, plain=dice.chance(0.8), roomy=dice.chance(0.8))
    slices = devices.some_slices(dice, nodes)
    pods = placed_pods(dice, nodes, 6, namespace="default", odd=False)
    made: list[Raw] = []
    taken: set[Any] = set()
    constrained = not devices.are_shared(slices)
    for i in range(dice.randint(0, 4)):
        claim = devices.a_random_claim(dice, f"busy{i}", "default", constrained=constrained)
        users = [identified(p) for p in dice.some(pods, 1)]
        devices.allocate(dice, claim, slices, taken, users)
        for user in users:
            devices.use_claims(dice, user, [f"busy{i}"])
        made.append(claim)
    pod = identified(a_random_pod(dice, "x", namespace="default"))
    names = [f"mine{i}" for i in range(dice.pick(0, 1, 1, 1, 2))]
    for name in names:
        claim = devices.a_random_claim(dice, name, "default", safe=safe, constrained=constrained)
        if dice.chance(0.5):
            devices.owned_by(claim, pod)
        if dice.chance(0.12):
            devices.allocate(dice, claim, slices, taken, [pod] if dice.chance(0.5) else [])
        if dice.chance(0.97):
            made.append(claim)
    if made and dice.chance(0.15):
        names.append("busy0")
    if names:
        devices.use_claims(dice, pod, names)
    if dice.chance(0.5):
        grow_resources(dice, pod)
    if dice.chance(0.1):
        grow_demands(dice, pod)
    if dice.chance(0.05):
        nominate(dice, pod, nodes)
    if dice.chance(0.04):
        made.append(devices.a_leftover(pod))
    return [*nodes, *pods, *slices, *devices.some_classes(dice), *made], pod


def preemption(dice: Dice) -> tuple[list[Raw], Raw]:
    """A full cluster and a pod that may preempt."""
    nodes = some_nodes(dice, most=7, plain=dice.chance(0.6))
    pods = placed_pods(dice, nodes, 35)
    for pod in pods:
        if dice.chance(0.2):
            grow_ports(dice, pod)
        if dice.chance(0.15):
            neighbours.grow_pod_affinity(dice, pod, 0.2)
        if dice.chance(0.1):
            grow_resources(dice, pod)
        if "deletionTimestamp" in pod["metadata"] and dice.chance(0.5):
            reason = "PreemptionByScheduler"
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
            pod["status"]["conditions"] = [condition]
    pod = a_random_pod(dice, "x")
    spec = pod["spec"]
    spec["priority"] = dice.pick(0, 7, 50, 1000)
    spec["containers"][0]["resources"]["requests"] = {"cpu": dice.pick("1", "2", "3500m")}
    spec |= dice.maybe(0.08, preemptionPolicy="Never")
    if dice.chance(0.3):
        grow_demands(dice, pod)
    if dice.chance(0.2):
        neighbours.grow_spread(dice, pod, soft=0.2)
    if dice.chance(0.2):
        neighbours.grow_pod_affinity(dice, pod, 0.3)
    if dice.chance(0.2):
        nominate(dice, pod, nodes)
    extra = neighbours.some_budgets(dice) + _waiting(dice, nodes)
    if dice.chance(0.15):
        for one in (*pods, pod):
            if dice.chance(0.3):
                storage.grow_volumes(dice, one, 1)
        every = [identified(p) for p in (*pods, pod)]
        extra += storage.some_storage(dice, nodes) + storage.ephemeral_claims(dice, every)
    return [*nodes, *pods, *extra], pod


def _waiting(dice: Dice, nodes: list[Raw]) -> list[Raw]:
    """Pending pods, some of them nominated to a node."""
    made = []
    for i in range(dice.pick(0, 0, 1, 2, 3)):
        pod = a_random_pod(dice, f"w{i}")
        if dice.chance(0.8):
            nominate(dice, pod, nodes)
        if dice.chance(0.3):
            neighbours.grow_pod_affinity(dice, pod, 0.3)
        if dice.chance(0.1):
            pod["spec"]["schedulerName"] = "another"
        made.append(pod)
    return made


def profiles(dice: Dice) -> tuple[list[Raw], Raw]:
    """Strategies, weights and arguments other than the default ones."""
    nodes = some_nodes(dice, roomy=dice.chance(0.4))
    pods = placed_pods(dice, nodes, 20)
    pod = a_random_pod(dice, "x")
    for one in (*pods, pod):
        for grow, likelihood in _GROWTH:
            if dice.chance(likelihood * (2 if one is pod else 0.5)):
                grow(dice, one)
    if dice.chance(0.5):
        neighbours.own(dice, pod)
    extra = neighbours.some_namespaces(dice) + neighbours.some_workloads(dice)
    if dice.chance(0.2):
        extra += devices.some_classes(dice) + devices.some_slices(dice, nodes)
    return [*nodes, *pods, *extra], pod


def mixed(dice: Dice) -> tuple[list[Raw], Raw]:
    """Everything at once."""
    nodes = some_nodes(dice, least=0, most=14, roomy=dice.chance(0.6))
    pods = placed_pods(dice, nodes, 30)
    pod = a_random_pod(dice, "x")
    for one in (*pods, pod):
        for grow, likelihood in _GROWTH:
            if dice.chance(likelihood * (2 if one is pod else 1)):
                grow(dice, one)
        if dice.chance(0.2):
            neighbours.own(dice, one)
    if dice.chance(0.1):
        nominate(dice, pod, nodes)
    if dice.chance(0.04):
        pod["spec"]["schedulingGates"] = [{"name": "wait"}]
    extra = [*neighbours.some_namespaces(dice), *neighbours.some_workloads(dice),
             *neighbours.some_budgets(dice), *_waiting(dice, nodes)]  # fmt: skip
    if dice.chance(0.5):
        for one in (*pods, pod):
            if dice.chance(0.2):
                storage.grow_volumes(dice, one)
        every = [identified(p) for p in (*pods, pod)]
        extra += storage.some_storage(dice, nodes) + storage.ephemeral_claims(dice, every)
    if dice.chance(0.3):
        extra += devices.some_classes(dice) + devices.some_slices(dice, nodes)
    return [*nodes, *pods, *extra], pod


_GROWTH: tuple[tuple[Callable[[Dice, Raw], None], float], ...] = (
    (grow_resources, 0.2),
    (grow_demands, 0.3),
    (neighbours.grow_pod_affinity, 0.15),
    (neighbours.grow_spread, 0.15),
)

FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (resources, demands, spreading, affinity, volumes, claims, selectors,
                   device_themes, extended_resources, preemption, profiles, mixed)
}  # fmt: skip
