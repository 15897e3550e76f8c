"""What one pod may see of the world in one attempt."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Protocol

from holdfast.api.labels import Selector
from holdfast.capacity.held_room import Lifted
from holdfast.columns.affinity_terms import PodSelector
from holdfast.columns.label_groups import LabelGroup
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.pod_placements import PodSelectors
from holdfast.columns.unseen import AnyCount, AnyTerm, Unseen

if TYPE_CHECKING:
    from holdfast.framework.world import World


class MatchedReservations(Protocol):
    """The offers of held room that a pod may draw on.

    ``key`` tells two matches apart. On ``rows`` NodeResourcesFit leaves the word to the Reservation
    plugin, which knows what of the held room is this pod's.
    """

    @property
    def key(self) -> Hashable:
        """Equal for two pods exactly if they match the same offers."""
        ...

    @property
    def rows(self) -> Rows:
        """Rows with a matched offer, ascending, each once."""
        ...

    @property
    def slots(self) -> Rows:
        """The offers, by their slots in the ledger, in the order of their rows."""
        ...

    @property
    def unseen(self) -> Unseen:
        """The reserve pods behind the offers: the pod does not see them."""
        ...


class View:
    """The world through the eyes of one pod, at one moment.

    ``offers`` says whether anybody in the profile draws on held room for the pod; without such a
    plugin no offer matches, and held room is simply taken.
    """

    __slots__ = ("_matched", "_matched_known", "nodes", "now", "pod", "world")

    def __init__(self, world: World, pod: PodInfo, now: float, *, offers: bool = True) -> None:
        self.world = world
        self.nodes: NodeTable = world.nodes
        self.pod = pod
        self.now = now
        self._matched: MatchedReservations | None = None
        self._matched_known = not offers

    @property
    def kind(self) -> LabelGroup:
        """The pod's kind: namespace and visible labels. Asked anew, keys may become visible."""
        return self.nodes.label_group_of(self.pod)

    @property
    def matched_reservations(self) -> MatchedReservations | None:
        """The offers this pod may draw on, or None; looked up once."""
        if not self._matched_known:
            self._matched_known = True
            self._matched = self.world.match(self.pod)
        return self._matched

    @property
    def unseen(self) -> Unseen | None:
        """Reserve pods this pod does not see; pods that differ in this read differently."""
        matched = self.matched_reservations
        return None if matched is None else matched.unseen

    @property
    def lifted(self) -> Lifted | None:
        """What is held for the pod and so does not count as taken, or None."""
        return None if self.matched_reservations is None else self.world.offers.lifted(self.pod)

    @property
    def lifts(self) -> Hashable:
        """Which held room does not count as taken; pods that differ in this score differently."""
        found = self.matched_reservations
        return None if found is None else (found.rows.tobytes(), found.slots.tobytes())

    def counter(self, namespace: str, selector: Selector) -> AnyCount:
        """Count the pods a selector finds, as this pod sees them."""
        return self.count((PodSelector(frozenset((namespace,)), selector),))

    def count(self, pod_selectors: PodSelectors) -> AnyCount:
        """Count the pods that all of the choices mean, as this pod sees them."""
        counter, unseen = self.nodes.count(pod_selectors), self.unseen
        return counter if unseen is None else unseen.count(counter)

    def existing_terms_for(self) -> tuple[AnyTerm, ...]:
        """Terms that speak of this pod, held by pods it sees; depends on held and namespaces."""
        held, unseen = self.nodes.existing_terms_for(self.pod), self.unseen
        return held if unseen is None else tuple([unseen.term(term) for term in held])

    @property
    def nominated(self) -> Mapping[int, Mapping[str, PodInfo]]:
        """Other pods nominated to rows, which this pod must leave room for, per row by uid."""
        return self.world.nominations.ahead_by_row(self.pod)
