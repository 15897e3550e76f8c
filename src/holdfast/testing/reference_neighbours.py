"""Simple, slow pod affinity, preferred spread and image scores, from the objects alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.labels import (
    EVERYTHING,
    LabelRequirement,
    Selector,
    conjunction,
    from_labels,
    from_selector,
)
from holdfast.api.node import Node
from holdfast.api.node_selection import required_nodes
from holdfast.api.pod import Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from holdfast.api.tolerations import find_untolerated
from holdfast.api.workloads import Namespace, Service

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Placed = list[tuple[Pod, Node]]


@dataclass(frozen=True)
class Surroundings:
    """All nodes, the pods on them, namespaces and workloads."""

    nodes: list[Node]
    placed: Placed
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    workloads: tuple[Any, ...] = ()

    @classmethod
    def of(cls, nodes: Iterable[Node], pods: Iterable[Pod], others: Iterable[Any]) -> Surroundings:
        """Return the nodes with their pods; pods of unknown nodes are left out."""
        by_name = {node.name: node for node in nodes}
        placed = [(p, by_name[p.spec.node_name]) for p in pods if p.spec.node_name in by_name]
        others = tuple(others)
        names = {o.name: o.metadata.labels for o in others if isinstance(o, Namespace)}
        return cls(list(by_name.values()), placed, names, others)

    def means(self, term: PodAffinityTerm, holder: Pod, other: Pod) -> bool:
        """Return whether a term of ``holder`` matches ``other``."""
        spaces = set(term.namespaces)
        if not spaces and term.namespace_selector is None:
            spaces = {holder.namespace}
        labels = self.namespaces.get(other.namespace, {})
        chosen = from_selector(term.namespace_selector).matches(labels)
        if not chosen and other.namespace not in spaces:
            return False
        return from_selector(term.label_selector).matches(other.metadata.labels)


def _required(side: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return side.required_during_scheduling_ignored_during_execution if side else ()


def _sides(pod: Pod) -> tuple[PodAffinity | None, PodAffinity | None]:
    affinity = pod.spec.affinity
    return (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None)


def _same_domain(one: Node, other: Node, key: str) -> bool:
    here, there = one.metadata.labels.get(key), other.metadata.labels.get(key)
    return here is not None and here == there


def neighbours_object(pod: Pod, node: Node, around: Surroundings) -> bool:
    """Return whether a required term of the pod, or of another one, rejects the node."""
    near, far = map(_required, _sides(pod))
    if near and not _satisfies_term(pod, node, near, around):
        return True
    for other, there in around.placed:
        if any(
            _same_domain(node, there, t.topology_key) and around.means(t, pod, other) for t in far
        ):
            return True
        theirs = _required(_sides(other)[1])
        if any(
            _same_domain(node, there, t.topology_key) and around.means(t, other, pod)
            for t in theirs
        ):
            return True
    return False


def _satisfies_term(
    pod: Pod, node: Node, near: tuple[PodAffinityTerm, ...], around: Surroundings
) -> bool:
    if any(term.topology_key not in node.metadata.labels for term in near):
        return False
    company = [
        there
        for other, there in around.placed
        if all(around.means(term, pod, other) for term in near)
    ]
    if all(any(_same_domain(node, there, t.topology_key) for there in company) for t in near):
        return True
    counted = any(t.topology_key in there.metadata.labels for t in near for there in company)
    return not counted and all(around.means(term, pod, pod) for term in near)


def neighbour_scores(pod: Pod, nodes: list[Node], around: Surroundings) -> dict[str, int]:
    """Return normalized InterPodAffinity scores."""
    raw = {
        node.name: sum(
            weight
            for other, there in around.placed
            for weight, key in _preferences(pod, other, around)
            if _same_domain(node, there, key)
        )
        for node in nodes
    }
    low, high = min(raw.values()), max(raw.values())
    if low == high:
        return dict.fromkeys(raw, 0)
    return {name: int(100 * ((score - low) / (high - low))) for name, score in raw.items()}


def _preferences(pod: Pod, other: Pod, around: Surroundings) -> Iterator[tuple[int, str]]:
    for holder, subject in ((pod, other), (other, pod)):
        for sign, side in zip((1, -1), _sides(holder), strict=True):
            if side is None:
                continue
            for wish in side.preferred_during_scheduling_ignored_during_execution:
                term = wish.pod_affinity_term
                if around.means(term, holder, subject):
                    yield sign * wish.weight, term.topology_key
    for term in _required(_sides(other)[0]):
        if around.means(term, other, pod):
            yield 1, term.topology_key


def _default_selector(pod: Pod, around: Surroundings) -> Selector:
    labels: dict[str, str] = {}
    requirements: list[LabelRequirement] = []
    for one in around.workloads:
        if one.metadata.namespace != pod.namespace:
            continue
        if isinstance(one, Service):
            if one.spec.selector is not None and from_labels(one.spec.selector).matches(
                pod.metadata.labels
            ):
                labels |= one.spec.selector
        elif any(
            o.controller and (o.kind, o.name) == (one.kind, one.name)
            for o in pod.metadata.owner_references
        ):
            requirements += from_selector(one.spec.selector).requirements or ()
    return conjunction((*(from_labels(labels).requirements or ()), *requirements))


def spread_scores(pod: Pod, nodes: list[Node], around: Surroundings) -> dict[str, int]:
    """Return normalized scores of preferred spread, by the pod's or default constraints."""
    own = pod.spec.topology_spread_constraints
    soft = [c for c in own if c.when_unsatisfiable == "ScheduleAnyway"]
    selectors = [from_selector(c.label_selector) for c in soft]
    if not own:
        selector = _default_selector(pod, around)
        if selector != EVERYTHING:
            soft = [TopologySpreadConstraint(3, HOST), TopologySpreadConstraint(5, ZONE)]
            selectors = [selector, selector]
    if not soft:
        return {node.name: 0 for node in nodes}
    keys = {c.topology_key for c in soft} if own else set()
    ranked = [n for n in nodes if keys <= n.metadata.labels.keys()]
    raw = dict.fromkeys((n.name for n in ranked), 0.0)
    for constraint, selector in zip(soft, selectors, strict=True):
        key = constraint.topology_key
        values = {n.name if key == HOST else n.metadata.labels.get(key, "") for n in ranked}
        for node in ranked:
            if key in node.metadata.labels:
                count = _count_domain(pod, node, (constraint, selector), keys, around)
                raw[node.name] += count * math.log(len(values) + 2) + (constraint.max_skew - 1)
    whole = {name: math.floor(score + 0.5) for name, score in raw.items()}
    return {node.name: 0 for node in nodes} | _reversed(whole)


def _reversed(whole: Mapping[str, int]) -> dict[str, int]:
    low, high = min(whole.values(), default=0), max(whole.values(), default=0)
    return {n: 100 * (high + low - s) // high if high else 100 for n, s in whole.items()}


def _count_domain(
    pod: Pod, node: Node, wanted: tuple[TopologySpreadConstraint, Selector], keys: set[str],
    around: Surroundings,
) -> int:  # fmt: skip
    constraint, selector = wanted
    key = constraint.topology_key
    return sum(
        selector != EVERYTHING
        and other.namespace == pod.namespace
        and not other.terminating
        and selector.matches(other.metadata.labels)
        for other, there in around.placed
        if (there is node if key == HOST else _same_domain(node, there, key))
        and (key == HOST or _eligible(pod, there, constraint, keys))
    )


def _eligible(pod: Pod, node: Node, constraint: TopologySpreadConstraint, keys: set[str]) -> bool:
    labels = node.metadata.labels
    if not keys <= labels.keys():
        return False
    honor = (constraint.node_affinity_policy or "Honor") == "Honor"
    if honor and not required_nodes(pod).matches(labels, node.name):
        return False
    taints = constraint.node_taints_policy == "Honor"
    return not (taints and find_untolerated(node.spec.taints, pod.spec.tolerations))


def image_scores(pod: Pod, nodes: list[Node], around: Surroundings) -> dict[str, int]:
    """Return ImageLocality scores; images must have tags."""
    used = [c.image for c in (*pod.spec.init_containers, *pod.spec.containers)]
    scores = {}
    for node in nodes:
        total = 0
        for image in node.status.images:
            count = sum(any(i.names == image.names for i in n.status.images) for n in around.nodes)
            times = sum(used.count(name) for name in image.names)
            total += times * int(image.size_bytes * (count / len(around.nodes)))
        least, most = 23 << 20, (1000 << 20) * len(used)
        scores[node.name] = 100 * (min(max(total, least), most) - least) // (most - least)
    return scores
