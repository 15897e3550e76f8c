"""Which running pods may leave their room to a reservation, per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.names import parse_integer
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.capacity import names
from holdfast.capacity.admission import accepts
from holdfast.capacity.inheritance import Will
from holdfast.capacity.matching import ignores
from holdfast.capacity.offers import Offers
from holdfast.capacity.owners import OwnerRule, compile_owners
from holdfast.columns.interner import PODS
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts

CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class ClusterMode:
    """How pods of the whole cluster say that their room may be inherited, and in which order."""

    label: str = "pod.koordinator.sh/is-pre-allocatable"
    priority: str = "pod.koordinator.sh/pre-allocatable-priority"

    def rank(self, pod: PodFacts) -> tuple[int, str]:
        """Higher priorities first, then by uid."""
        text = pod.pod.metadata.annotations.get(self.priority, "")
        return -(parse_integer(text) or 0), pod.uid


def by_cluster(reservation: Reservation) -> bool:
    """Whether it inherits from pods that say so themselves, instead of from its owners."""
    policy = reservation.spec.pre_allocation_policy
    return policy is not None and policy.mode == CLUSTER


def will_of(reservation: Reservation, facts: PodFacts, *, prefers_none: bool) -> Will:
    """Read how a reservation chooses; ``facts`` are those of its reserve pod."""
    policy = reservation.spec.pre_allocation_policy
    reserved = dict(facts.request)
    return Will(
        wanted={PODS: facts.slots, **reserved} if facts.slots else reserved,
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

    def among(self, nodes: Picture) -> Iterator[tuple[PodFacts, int]]:
        """The pods on rows that may, sort by sort: most sorts are out with one look."""
        for kind in nodes.kinds():
            if not (rules := [rule for rule in self.rules if rule.may_own(kind)]):
                continue
            whole = any(rule.by_labels for rule in rules)
            for pod, row in nodes.pods_of(kind):
                if whole or any(rule.owns(pod.pod) for rule in rules):
                    yield pod, row

    def includes(self, pod: Pod) -> bool:
        """Whether it is one of them."""
        return any(rule.owns(pod) for rule in self.rules)


def candidates(
    heritable: Heritable, will: Will, nodes: Picture, offers: Offers
) -> dict[int, list[PodFacts]]:
    """Find the pods on nodes that may leave their room, by row, in the order given.

    Who takes room of another reservation, or was chosen by one already, has none to leave; nor
    has who ignores reservations. Having taken room of one that has ended is no hindrance.
    """
    reservation = heritable.reservation
    found: dict[int, list[PodFacts]] = {}
    for pod, row in heritable.among(nodes):
        if pod.reserve_for or ignores(pod) or not will.shares(pod):
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
