"""The world as one pod sees it in one scheduling attempt.

Two pods see different worlds because of reservations. What is reserved for a pod is free for it,
and the reserve pods of its reservations do not exist for it: no selector counts them, and their
affinity terms do not apply. Koordinator removes them from a copy of each node before every attempt.
Here the view subtracts them from counters that all pods share (decision 0007), so a plugin that
counts the pods of a selector uses the view, not the node table.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Protocol

from holdfast.api.labels import Selector
from holdfast.state.columns.affinity_terms import PodSelector
from holdfast.state.columns.counters import PodSelectors
from holdfast.state.columns.hidden_reserve_pods import AnyCount, AnyTerm, HiddenReservePods
from holdfast.state.columns.node_rows import Rows
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.reserved_resources import ReservedForPod

if TYPE_CHECKING:
    from holdfast.scheduling.framework.world import World


class MatchedReservations(Protocol):
    """The reservations that a pod may use.

    On ``rows`` NodeResourcesFit leaves the verdict to the Reservation plugin, which computes how
    much of the reserved resources the pod may use.
    """

    @property
    def key(self) -> Hashable:
        """Equal for two pods exactly if they match the same reservations."""
        ...

    @property
    def rows(self) -> Rows:
        """Rows with a matched reservation, ascending, each once."""
        ...

    @property
    def slots(self) -> Rows:
        """The reservations, by their slots in the ledger, in the order of their rows."""
        ...

    @property
    def hidden_pods(self) -> HiddenReservePods:
        """The reserve pods of these reservations, which do not exist for the pod."""
        ...


class View:
    """The world as one pod sees it at one moment.

    Without ``reservations`` no reservation matches, and reserved resources are in use for every
    pod: the profile has no plugin that allocates reservations.

    ``now`` is the only clock of a plugin, so that a decision can be repeated. Plans must not keep
    the view: they are shared by pods, and it belongs to one.
    """

    __slots__ = ("_matched", "_matched_known", "nodes", "now", "pod", "world")

    def __init__(
        self, world: World, pod: PodInfo, now: float, *, reservations: bool = True
    ) -> None:
        self.world = world
        self.nodes: NodeTable = world.nodes
        self.pod = pod
        self.now = now
        self._matched: MatchedReservations | None = None
        self._matched_known = not reservations

    @property
    def matched_reservations(self) -> MatchedReservations | None:
        """The reservations that the pod may use, or None; looked up once.

        The key of the pod's class contains them, so they are looked up before any plugin is called,
        for every pod. Pods that own none pay one look-up by label.
        """
        if not self._matched_known:
            self._matched_known = True
            self._matched = self.world.match(self.pod)
        return self._matched

    @property
    def hidden_pods(self) -> HiddenReservePods | None:
        """The reserve pods that do not exist for this pod, or None."""
        matched = self.matched_reservations
        return None if matched is None else matched.hidden_pods

    @property
    def reserved_for_pod(self) -> ReservedForPod | None:
        """What is reserved for the pod, and so counts as free when nodes are scored, or None.

        At first NodeResourcesFit and BalancedAllocation counted it as used. Koordinator removes
        matched reservations before it scores, so nodes with such a reservation were ranked too low
        here.
        """
        return (
            None
            if self.matched_reservations is None
            else self.world.reservations.reserved_for_pod(self.pod)
        )

    @property
    def reserved_key(self) -> Hashable:
        """A key for ``reserved_for_pod``: pods with different keys may get different scores.

        Slots are part of it, because reservations of different sizes may be on the same rows.
        """
        match = self.matched_reservations
        return None if match is None else (match.rows.tobytes(), match.slots.tobytes())

    def counter(self, namespace: str, selector: Selector) -> AnyCount:
        """Return a counter of the pods that a selector matches, as this pod sees them."""
        return self.count((PodSelector(frozenset((namespace,)), selector),))

    def count(self, pod_selectors: PodSelectors) -> AnyCount:
        """Return a counter of the pods that match all selectors, as this pod sees them."""
        counter = self.nodes.count(pod_selectors, self.pod.namespace)
        hidden_pods = self.hidden_pods
        return counter if hidden_pods is None else hidden_pods.count(counter)

    def existing_terms_for(self) -> tuple[AnyTerm, ...]:
        """Return the affinity terms of existing pods that match this pod.

        Depends on the epochs ``existing_terms`` and ``namespaces``.
        """
        terms, hidden_pods = self.nodes.existing_terms_for(self.pod), self.hidden_pods
        return terms if hidden_pods is None else tuple([hidden_pods.term(term) for term in terms])

    @property
    def nominated(self) -> Mapping[int, Mapping[str, PodInfo]]:
        """Other nominated pods of at least this pod's priority, by row and uid."""
        return self.world.nominations.ahead_by_row(self.pod)
