"""A simple, slow scheduler for comparison: one node at a time, from the objects alone.

It shares with the real scheduler only the code that reads single values (quantities, selectors,
taints). It has no columns and no caches, and computes nothing incrementally. A difference between
the two is a defect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.api.labels import EVERYTHING, from_selector
from holdfast.api.node import Node
from holdfast.api.node_selection import preferred_nodes, required_nodes
from holdfast.api.pod import Pod, TopologySpreadConstraint
from holdfast.api.quantity import milli, units
from holdfast.api.requests import PodResourcesOptions, pod_request
from holdfast.api.tolerations import PREFER_NO_SCHEDULE, find_untolerated, tolerated
from holdfast.scheduling.plugins.node_unschedulable import CORDON
from holdfast.state.columns.ports import ANY_ADDRESS, HostPort, ports_conflict
from holdfast.testing.reference_neighbours import (
    Surroundings,
    image_scores,
    neighbour_scores,
    neighbours_object,
    spread_scores,
)


@dataclass
class ReferenceNode:
    """One node and the pods on it."""

    node: Node
    pods: list[Pod] = field(default_factory=list)

    @property
    def has(self) -> Mapping[str, int]:
        """The allocatable resources of the node."""
        amounts = self.node.status.allocatable.items()
        return {n: milli(a) if n == "cpu" else units(a) for n, a in amounts}

    def used(self, name: str) -> int:
        """Return the sum of its pods' requests for a resource."""
        return sum(pod_request(pod).amounts.get(name, 0) for pod in self.pods)

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.metadata.labels


def places(nodes: Iterable[Node], pods: Iterable[Pod]) -> dict[str, ReferenceNode]:
    """Return the nodes with their pods; pods of unknown nodes are left out."""
    by_name = {node.name: ReferenceNode(node) for node in nodes}
    for pod in pods:
        if pod.spec.node_name in by_name and not pod.finished:
            by_name[pod.spec.node_name].pods.append(pod)
    return by_name


def first_objection(
    pod: Pod, place: ReferenceNode, everywhere: Mapping[str, ReferenceNode], around: Surroundings
) -> str:
    """Return the name of the first default plugin that rejects the node, or ""."""
    node, tolerations = place.node, pod.spec.tolerations
    if node.spec.unschedulable and not tolerated(tolerations, CORDON):
        return "NodeUnschedulable"
    if find_untolerated(node.spec.taints, tolerations) is not None:
        return "TaintToleration"
    if not required_nodes(pod).matches(place.labels, node.name):
        return "NodeAffinity"
    if any(ports_conflict(_ports(pod), _ports(other)) for other in place.pods):
        return "NodePorts"
    if not _fits(pod, place):
        return "NodeResourcesFit"
    if not _spreads(pod, place, everywhere):
        return "PodTopologySpread"
    return "InterPodAffinity" if neighbours_object(pod, node, around) else ""


def totals(pod: Pod, feasible: Mapping[str, ReferenceNode], around: Surroundings) -> dict[str, int]:
    """Return the weighted sums of the default scores of the feasible nodes."""
    taints = {name: _unwanted(pod, place) for name, place in feasible.items()}
    wishes = {
        name: preferred_nodes(pod).score(place.labels, name) for name, place in feasible.items()
    }
    worst, best = max(taints.values(), default=0), max(wishes.values(), default=0)
    nodes = [place.node for place in feasible.values()]
    spread, near = spread_scores(pod, nodes, around), neighbour_scores(pod, nodes, around)
    images = image_scores(pod, nodes, around)
    sums = {}
    for name, place in feasible.items():
        total = 3 * (100 - 100 * taints[name] // worst if worst else 100)
        total += 2 * (100 * wishes[name] // best if best else 0)
        total += 2 * spread[name] + 2 * near[name] + images[name]
        sums[name] = total + _least_allocated(pod, place) + _balanced(pod, place)
    return sums


def _ports(pod: Pod) -> list[HostPort]:
    return [
        (port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    ]


def _fits(pod: Pod, place: ReferenceNode) -> bool:
    if len(place.pods) + 1 > place.has.get("pods", 0):
        return False
    return all(
        amount <= place.has.get(name, 0) - place.used(name)
        for name, amount in pod_request(pod).amounts.items()
        if amount
    )


def _spreads(pod: Pod, place: ReferenceNode, everywhere: Mapping[str, ReferenceNode]) -> bool:
    hard = [
        c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"
    ]
    return all(_keeps(pod, c, hard, place, everywhere) for c in hard)


def _keeps(
    pod: Pod,
    constraint: TopologySpreadConstraint,
    hard: Sequence[TopologySpreadConstraint],
    place: ReferenceNode,
    everywhere: Mapping[str, ReferenceNode],
) -> bool:
    key = constraint.topology_key
    if key not in place.labels:
        return False
    selector = from_selector(constraint.label_selector)
    counts: dict[str, int] = {}
    for other in everywhere.values():
        if any(c.topology_key not in other.labels for c in hard):
            continue
        if (constraint.node_affinity_policy or "Honor") == "Honor" and not required_nodes(
            pod
        ).matches(other.labels, other.node.name):
            continue
        if constraint.node_taints_policy == "Honor" and find_untolerated(
            other.node.spec.taints, pod.spec.tolerations
        ):
            continue
        counts.setdefault(other.labels[key], 0)
        counts[other.labels[key]] += sum(
            selector != EVERYTHING
            and p.namespace == pod.namespace
            and not p.terminating
            and selector.matches(p.metadata.labels)
            for p in other.pods
        )
    enough = len(counts) >= (constraint.min_domains or 1)
    lowest = min(counts.values(), default=0) if enough else 0
    here = counts.get(place.labels[key], 0) + selector.matches(pod.metadata.labels)
    return here - lowest <= constraint.max_skew


def _unwanted(pod: Pod, place: ReferenceNode) -> int:
    preferring = [t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE)]
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerated(preferring, taint)
        for taint in place.node.spec.taints
    )


def _least_allocated(pod: Pod, place: ReferenceNode) -> int:
    asked = pod_request(pod, PodResourcesOptions(pod_level=False))
    standing = [pod_request(other) for other in place.pods]
    scores = []
    for name, ask, used in (
        ("cpu", asked.nonzero_millicores, sum(p.nonzero_millicores for p in standing)),
        ("memory", asked.nonzero_bytes, sum(p.nonzero_bytes for p in standing)),
    ):
        has = place.has.get(name, 0)
        if has:
            scores.append(max(has - used - ask, 0) * 100 // has)
    return sum(scores) // len(scores) if scores else 0


def _balanced(pod: Pod, place: ReferenceNode) -> int:
    asked = pod_request(pod).amounts
    if not asked.get("cpu") and not asked.get("memory"):
        return 0
    before, after = [], []
    for name in ("cpu", "memory"):
        has, used = place.has.get(name, 0), place.used(name)
        if has:
            before.append(min(used / has, 1.0))
            after.append(min((used + asked.get(name, 0)) / has, 1.0))
    return 50 + (50 + _evenness(after) - _evenness(before)) // 2


def _evenness(shares: list[float]) -> int:
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return int((1 - deviation) * 100)
