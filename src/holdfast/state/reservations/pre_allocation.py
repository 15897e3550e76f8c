"""Pre-allocation: choose the running pods on a node whose resources a reservation takes over.

A reservation with ``preAllocation`` may be placed where its resources are not free yet. It chooses
running pods there; while they run, max(reservation, pods) is held on the node, and what they leave
belongs to the reservation. Where no pod is suitable it is placed nevertheless and waits for
resources to become free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.api import reservation_names as names
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.names import parse_integer
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.state.columns.interner import PODS, ResourceNames
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo, sum_of
from holdfast.state.columns.request_fit import short_of
from holdfast.state.reservations.gpu_names import converted_amounts, reserved_device_names
from holdfast.state.reservations.matching import allows_pre_allocation, ignores_reservations
from holdfast.state.reservations.owner_rules import OwnerRule, compile_owners, uses_cluster_mode
from holdfast.state.reservations.reservation_cache import ReservationCache
from holdfast.state.reservations.reservation_info import AmountsByResource, percent_filled

_WHOLE = 100


@dataclass(frozen=True, slots=True)
class PreAllocationRules:
    """The request of a reservation, and the rules by which it chooses pods to pre-allocate."""

    wanted: AmountsByResource
    """Everything it requests, its pod slot included."""
    reserved: AmountsByResource
    """What it reserves; chosen pods may not request more of these resources."""
    multiple: bool = False
    ranked: bool = False
    """Candidates are sorted by the order in which they must be chosen."""
    required: bool = False
    """It must pre-allocate a pod, even where its request fits."""
    prefers_none: bool = False
    """It pre-allocates no pod where its request fits."""
    converted: Callable[[AmountsByResource], AmountsByResource] = field(
        default=lambda _amounts: {}, compare=False
    )
    """Returns what a request amounts to in reserved names that it does not use itself."""

    def exceeded(self, given: AmountsByResource) -> list[int]:
        """Return the reserved resources of which pods request more than is reserved."""
        more = self.converted(given)
        return [r for r, a in self.reserved.items() if given.get(r, 0) + more.get(r, 0) > a]

    def shares(self, pod: PodInfo) -> bool:
        """Tell whether the pod requests any reserved resource."""
        return not self._asked(pod).keys().isdisjoint(self.reserved)

    def _asked(self, pod: PodInfo) -> AmountsByResource:
        request = dict(pod.request)
        return {**request, **self.converted(request)}

    def score(self, pod: PodInfo) -> int:
        """Return how much of the reservation a pod fills, 0 to 100, as owners are scored."""
        has = self._asked(pod)
        named = [(r, a) for r, a in self.reserved.items() if a > 0]
        return sum(percent_filled(has.get(r, 0), a) for r, a in named) // max(len(named), 1)


class PreAllocationResult(NamedTuple):
    """The result of pre-allocation on one node.

    ``pods`` are the chosen pods. ``shortfall`` is the percentage of the scarcest resource that is
    missing even with what they leave; if it is above 0 the reservation must wait for more.
    ``by_node`` are resources the node is short of; ``inside`` are those of which pods request more
    than is reserved.
    """

    pods: tuple[PodInfo, ...] = ()
    shortfall: int = 0
    by_node: frozenset[int] = frozenset()
    inside: tuple[int, ...] = ()
    refused: bool = False

    def score(self, rules: PreAllocationRules) -> int:
        """Score the node: fewer or better filling pods are better; waiting is worst."""
        if self.shortfall:
            return -self.shortfall
        if rules.multiple:
            return _WHOLE // (1 + len(self.pods))
        return rules.score(self.pods[0]) if self.pods else 0


Suits = Callable[[Sequence[PodInfo]], bool]
"""Tells whether specific resources of pods, such as CPUs, can be taken over; () for none."""


def choose_pods(
    rules: PreAllocationRules,
    free: AmountsByResource,
    candidates: Sequence[PodInfo],
    suits: Suits = lambda _pods: True,
) -> PreAllocationResult:
    """Choose the pods to pre-allocate on a node with these free amounts, or say why not."""
    alone, suited = short_of(rules.wanted, free), suits(())
    if rules.prefers_none and not rules.required and not alone and suited:
        return PreAllocationResult()
    ordered = candidates if rules.ranked and rules.multiple else by_score(rules, candidates)
    chosen, by_node, inside = (_several if rules.multiple else _one)(rules, free, ordered, suits)
    if chosen:
        return PreAllocationResult(tuple(chosen))
    if not rules.multiple and (result := _first_of_several(rules, free, ordered, suits)):
        return result
    if rules.required:
        return PreAllocationResult((), 0, frozenset(by_node), tuple(inside), refused=True)
    if not suited:
        # It cannot wait for any resources to become free: it needs specific ones from the start.
        return PreAllocationResult(refused=True)
    if not alone:
        return PreAllocationResult()
    if any(not rules.exceeded(sum_of([pod])) for pod in candidates):
        return PreAllocationResult((), 0, frozenset(by_node), refused=True)
    return PreAllocationResult(shortfall=max(_shortfall(rules, free, r) for r in alone))


def _first_of_several(
    rules: PreAllocationRules, free: AmountsByResource, ordered: Iterable[PodInfo], suits: Suits
) -> PreAllocationResult | None:
    """Choose the best pod where only several leave enough: it waits for the others too."""
    fits = [pod for pod in ordered if not rules.exceeded(sum_of([pod])) and suits((pod,))]
    if not fits or short_of(rules.wanted, free, sum_of(fits)):
        return None
    left = Counter(free)
    left.update(sum_of(fits[:1]))
    missing = short_of(rules.wanted, left)
    return PreAllocationResult((fits[0],), max(_shortfall(rules, left, r) for r in missing))


def by_score(rules: PreAllocationRules, candidates: Iterable[PodInfo]) -> list[PodInfo]:
    """Sort by descending score; ties keep their rank, or are sorted by uid."""
    pods = list(candidates)
    if not rules.ranked:
        pods.sort(key=lambda pod: pod.uid)
    return sorted(pods, key=rules.score, reverse=True)


_Found = tuple[list[PodInfo], set[int], dict[int, None]]
"""The chosen pods, or else the resources short on the node and inside the reservation."""


def _one(
    rules: PreAllocationRules, free: AmountsByResource, ordered: Iterable[PodInfo], suits: Suits
) -> _Found:
    by_node: set[int] = set()
    inside: dict[int, None] = {}
    for pod in ordered:
        leaves = sum_of([pod])
        short, exceeded = short_of(rules.wanted, free, leaves), rules.exceeded(leaves)
        if not short and not exceeded and suits((pod,)):
            return [pod], set(), {}
        by_node.update(short)
        inside.update(dict.fromkeys(exceeded))
    return [], by_node, inside


def _several(
    rules: PreAllocationRules, free: AmountsByResource, ordered: Iterable[PodInfo], suits: Suits
) -> _Found:
    chosen: list[PodInfo] = []
    total: Counter[int] = Counter()
    for pod in ordered:
        trial = total + sum_of([pod])
        if rules.exceeded(trial):
            continue
        chosen.append(pod)
        total = trial
        if not short_of(rules.wanted, free, total) and suits(chosen):
            return chosen, set(), {}
    return [], set(short_of(rules.wanted, free, total)) if chosen else set(), {}


def _shortfall(rules: PreAllocationRules, free: AmountsByResource, resource: int) -> int:
    wanted = rules.wanted[resource]
    missing = min(wanted - free.get(resource, 0), wanted)
    return max(1, _WHOLE * missing // wanted)


@dataclass(frozen=True, slots=True)
class ClusterMode:
    """The label and the priority annotation of pre-allocatable pods in mode Cluster."""

    label: str = names.PRE_ALLOCATABLE
    priority: str = names.PRE_ALLOCATABLE_PRIORITY

    def rank(self, pod: PodInfo) -> tuple[int, str]:
        """Return a sort key: descending priority, then uid."""
        text = pod.pod.metadata.annotations.get(self.priority, "")
        return -(parse_integer(text) or 0), pod.uid


def read_rules(
    reservation: Reservation, pod_info: PodInfo, ids: ResourceNames, *, prefers_none: bool
) -> PreAllocationRules:
    """Read how a reservation chooses pods; ``pod_info`` is its reserve pod."""
    policy = reservation.spec.pre_allocation_policy
    reserved = dict(pod_info.request)
    device_names = reserved_device_names(reserved, ids)
    return PreAllocationRules(
        wanted={PODS: pod_info.pod_slots, **reserved} if pod_info.pod_slots else reserved,
        reserved=reserved,
        multiple=policy is not None and policy.enable_multiple,
        ranked=uses_cluster_mode(reservation),
        required=reservation.metadata.labels.get(names.PRE_ALLOCATION_REQUIRED) == "true",
        prefers_none=prefers_none,
        converted=lambda amounts: converted_amounts(amounts, device_names, ids),
    )


@dataclass(frozen=True, slots=True)
class PreAllocatablePods:
    """The pods that a reservation may pre-allocate, as far as the pods alone decide."""

    reservation: Reservation
    cluster: ClusterMode
    rules: tuple[OwnerRule, ...]
    """A pod that matches any rule is pre-allocatable."""

    @classmethod
    def to(cls, reservation: Reservation, cluster: ClusterMode) -> PreAllocatablePods:
        """Read the rules of a reservation."""
        if uses_cluster_mode(reservation):
            chosen = from_selector(LabelSelector(match_labels={cluster.label: "true"}))
            return cls(reservation, cluster, (OwnerRule(None, None, chosen),))
        return cls(reservation, cluster, compile_owners(reservation) or ())

    @property
    def label_keys(self) -> frozenset[str]:
        """The label keys the rules read; they must be visible."""
        chosen = [rule.selector for rule in self.rules if rule.selector is not None]
        return frozenset(key for selector in chosen for key in selector.keys)

    def among(self, nodes: NodeTable) -> Iterator[tuple[PodInfo, int]]:
        """Yield the pre-allocatable pods with their rows."""
        for kind in nodes.label_groups():
            if not (rules := [rule for rule in self.rules if rule.may_own(kind)]):
                continue
            whole = any(rule.by_labels for rule in rules)
            for pod, row in nodes.pods_in_group(kind):
                if whole or any(rule.owns(pod.pod) for rule in rules):
                    yield pod, row

    def includes(self, pod: Pod) -> bool:
        """Tell whether a pod is pre-allocatable."""
        return any(rule.owns(pod) for rule in self.rules)


def find_candidates(
    pre_allocatable: PreAllocatablePods,
    rules: PreAllocationRules,
    nodes: NodeTable,
    reservations: ReservationCache,
) -> dict[int, list[PodInfo]]:
    """Return the pods that may be pre-allocated, by row, sorted if the rules rank them.

    Pods that another reservation has allocated or pre-allocated, and pods that ignore reservations,
    are excluded. An allocation from a reservation that has ended does not exclude a pod.
    """
    reservation = pre_allocatable.reservation
    by_row: dict[int, list[PodInfo]] = {}
    for pod, row in pre_allocatable.among(nodes):
        if pod.is_reserve_pod or ignores_reservations(pod) or not rules.shares(pod):
            continue
        if nodes.is_assumed(pod.uid) or reservations.is_allocated_elsewhere(
            pod.uid, reservation.uid
        ):
            continue
        node = nodes.nodes[row]
        labels = node.metadata.labels if node is not None else {}
        if allows_pre_allocation(pod, reservation, labels, rules.reserved, nodes.resources):
            by_row.setdefault(row, []).append(pod)
    if rules.ranked:
        for pods in by_row.values():
            pods.sort(key=pre_allocatable.cluster.rank)
    return by_row
