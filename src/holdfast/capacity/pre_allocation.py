"""Room that running pods still have: from which of them a reservation inherits on a node.

A reservation with ``preAllocation`` may be placed where there is no room yet. It is bound to pods
that run there; while they run the node holds max(reservation, pods), and what they leave is the
reservation's and nobody else's. Where no pod will do at all it is placed all the same and waits
for whatever room comes free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.api import reservation_names as names
from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.names import parse_integer
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.capacity.matching import accepts, ignores
from holdfast.capacity.offer import AmountsByResource, fullness
from holdfast.capacity.offers import Offers
from holdfast.capacity.owners import OwnerRule, compile_owners
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo, sum_of
from holdfast.columns.request_fit import short_of

_WHOLE = 100
CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Will:
    """What a reservation asks for, and how it may choose the pods it inherits from."""

    wanted: AmountsByResource
    """Everything it takes, its pod slot included."""
    reserved: AmountsByResource
    """What it reserves: of these a pod may have no more than the reservation."""
    multiple: bool = False
    ranked: bool = False
    """Candidates come in the order in which they are to be taken."""
    required: bool = False
    """It must inherit from somebody, even where there is room."""
    prefers_none: bool = False
    """Where there is room it inherits from nobody."""

    def exceeded(self, given: AmountsByResource) -> list[int]:
        """The reserved resources of which pods have more than the reservation."""
        return [r for r, a in self.reserved.items() if given.get(r, 0) > a]

    def shares(self, pod: PodInfo) -> bool:
        """Whether the pod has any of what is reserved."""
        return any(resource in self.reserved for resource, _ in pod.request)

    def score(self, pod: PodInfo) -> int:
        """How much of the reservation a pod fills, 0 to 100, as owners are scored."""
        has = dict(pod.request)
        named = [(r, a) for r, a in self.reserved.items() if a > 0]
        return sum(fullness(has.get(r, 0), a) for r, a in named) // max(len(named), 1)


class Inheritance(NamedTuple):
    """What became of one node.

    ``pods`` are those it inherits from there; ``lacking`` is how much is missing of what is
    missing most, in hundredths: then it must wait. ``by_node`` and ``inside`` are the resources
    for which the node will not do.
    """

    pods: tuple[PodInfo, ...] = ()
    lacking: int = 0
    by_node: frozenset[int] = frozenset()
    inside: tuple[int, ...] = ()
    refused: bool = False

    def score(self, will: Will) -> int:
        """How well the node is liked: with few pods, or with one that fills it; waiting last."""
        if self.lacking:
            return -self.lacking
        if will.multiple:
            return _WHOLE // (1 + len(self.pods))
        return will.score(self.pods[0]) if self.pods else 0


def inherit(will: Will, free: AmountsByResource, candidates: Sequence[PodInfo]) -> Inheritance:
    """Choose from whom to inherit on a node with so much free room, or say why not at all."""
    alone = short_of(will.wanted, free)
    if will.prefers_none and not will.required and not alone:
        return Inheritance()
    ordered = candidates if will.ranked and will.multiple else by_score(will, candidates)
    chosen, by_node, inside = (_several if will.multiple else _one)(will, free, ordered)
    if chosen:
        return Inheritance(tuple(chosen))
    if will.required:
        return Inheritance((), 0, frozenset(by_node), tuple(inside), refused=True)
    if not alone:
        return Inheritance()
    if any(not will.exceeded(sum_of([pod])) for pod in candidates):
        return Inheritance((), 0, frozenset(by_node), refused=True)
    return Inheritance(lacking=max(_lacking(will, free, r) for r in alone))


def by_score(will: Will, candidates: Iterable[PodInfo]) -> list[PodInfo]:
    """The best filling first; ties as they come, or by uid where no order was given."""
    found = list(candidates)
    if not will.ranked:
        found.sort(key=lambda pod: pod.uid)
    return sorted(found, key=will.score, reverse=True)


_Found = tuple[list[PodInfo], set[int], dict[int, None]]
"""Whom it inherits from; else what is short by the node, and inside the reservation."""


def _one(will: Will, free: AmountsByResource, ordered: Iterable[PodInfo]) -> _Found:
    by_node: set[int] = set()
    inside: dict[int, None] = {}
    for pod in ordered:
        leaves = sum_of([pod])
        short, exceeded = short_of(will.wanted, free, leaves), will.exceeded(leaves)
        if not short and not exceeded:
            return [pod], set(), {}
        by_node.update(short)
        inside.update(dict.fromkeys(exceeded))
    return [], by_node, inside


def _several(will: Will, free: AmountsByResource, ordered: Iterable[PodInfo]) -> _Found:
    chosen: list[PodInfo] = []
    total: Counter[int] = Counter()
    for pod in ordered:
        trial = total + sum_of([pod])
        if will.exceeded(trial):
            continue
        chosen.append(pod)
        total = trial
        if not short_of(will.wanted, free, total):
            return chosen, set(), {}
    return [], set(short_of(will.wanted, free, total)) if chosen else set(), {}


def _lacking(will: Will, free: AmountsByResource, resource: int) -> int:
    wanted = will.wanted[resource]
    missing = min(wanted - free.get(resource, 0), wanted)
    return max(1, _WHOLE * missing // wanted)


@dataclass(frozen=True, slots=True)
class ClusterMode:
    """How pods of the whole cluster say that their room may be inherited, and in which order."""

    label: str = names.PRE_ALLOCATABLE
    priority: str = names.PRE_ALLOCATABLE_PRIORITY

    def rank(self, pod: PodInfo) -> tuple[int, str]:
        """Higher priorities first, then by uid."""
        text = pod.pod.metadata.annotations.get(self.priority, "")
        return -(parse_integer(text) or 0), pod.uid


def by_cluster(reservation: Reservation) -> bool:
    """Whether it inherits from pods that say so themselves, instead of from its owners."""
    policy = reservation.spec.pre_allocation_policy
    return policy is not None and policy.mode == CLUSTER


def will_of(reservation: Reservation, pod_info: PodInfo, *, prefers_none: bool) -> Will:
    """Read how a reservation chooses; ``facts`` are those of its reserve pod."""
    policy = reservation.spec.pre_allocation_policy
    reserved = dict(pod_info.request)
    return Will(
        wanted={PODS: pod_info.slots, **reserved} if pod_info.slots else reserved,
        reserved=reserved,
        multiple=policy is not None and policy.enable_multiple,
        ranked=by_cluster(reservation),
        required=reservation.metadata.labels.get(names.PRE_ALLOCATION_REQUIRED) == "true",
        prefers_none=prefers_none,
    )


@dataclass(frozen=True, slots=True)
class Heritable:
    """Which pods may leave their room to one reservation, as far as they themselves tell."""

    reservation: Reservation
    cluster: ClusterMode
    rules: tuple[OwnerRule, ...]
    """Any of these chooses a pod: its owners, or the label of the cluster."""

    @classmethod
    def to(cls, reservation: Reservation, cluster: ClusterMode) -> Heritable:
        """Read what a reservation says about them."""
        if by_cluster(reservation):
            chosen = from_selector(LabelSelector(match_labels={cluster.label: "true"}))
            return cls(reservation, cluster, (OwnerRule(None, None, chosen),))
        return cls(reservation, cluster, compile_owners(reservation.spec.owners) or ())

    @property
    def label_keys(self) -> frozenset[str]:
        """The pod labels that decide; they must be visible where pods are looked for."""
        chosen = [rule.selector for rule in self.rules if rule.selector is not None]
        return frozenset(key for selector in chosen for key in selector.keys)

    def among(self, nodes: NodeTable) -> Iterator[tuple[PodInfo, int]]:
        """The pods on rows that may, sort by sort: most sorts are out with one look."""
        for kind in nodes.label_groups():
            if not (rules := [rule for rule in self.rules if rule.may_own(kind)]):
                continue
            whole = any(rule.by_labels for rule in rules)
            for pod, row in nodes.pods_in_group(kind):
                if whole or any(rule.owns(pod.pod) for rule in rules):
                    yield pod, row

    def includes(self, pod: Pod) -> bool:
        """Whether it is one of them."""
        return any(rule.owns(pod) for rule in self.rules)


def candidates(
    heritable: Heritable, will: Will, nodes: NodeTable, offers: Offers
) -> dict[int, list[PodInfo]]:
    """Find the pods on nodes that may leave their room, by row, in the order given.

    Who takes room of another reservation, or was chosen by one already, has none to leave; nor
    has who ignores reservations. Having taken room of one that has ended is no hindrance.
    """
    reservation = heritable.reservation
    found: dict[int, list[PodInfo]] = {}
    for pod, row in heritable.among(nodes):
        if pod.is_reserve_pod or ignores(pod) or not will.shares(pod):
            continue
        if nodes.is_assumed(pod.uid) or offers.is_spoken_for(pod.uid, reservation.uid):
            continue
        node = nodes.nodes[row]
        labels = node.metadata.labels if node is not None else {}
        if accepts(pod, reservation, labels, will.reserved, nodes.resources):
            found.setdefault(row, []).append(pod)
    if will.ranked:
        for pods in found.values():
            pods.sort(key=heritable.cluster.rank)
    return found
