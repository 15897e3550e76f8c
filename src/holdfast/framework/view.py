"""What one pod may see of the world in one attempt."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Protocol

from holdfast.columns.kinds import Kind
from holdfast.columns.picture import Picture, Rows
from holdfast.columns.pod_facts import PodFacts

if TYPE_CHECKING:
    from holdfast.framework.world import World


class Matched(Protocol):
    """The offers of held room that a pod may draw on.

    ``key`` tells two matches apart. On ``rows`` NodeResourcesFit and NodePorts leave the word to
    the Reservation plugin, which knows what of the held room is this pod's.
    """

    @property
    def key(self) -> Hashable:
        """Equal for two pods exactly if they match the same offers."""
        ...

    @property
    def rows(self) -> Rows:
        """Rows with a matched offer, ascending, each once."""
        ...


class View:
    """The world through the eyes of one pod, at one moment.

    ``offers`` says whether anybody in the profile draws on held room for the pod; without such a
    plugin no offer matches, and held room is simply taken.
    """

    __slots__ = ("_matched", "_matched_known", "nodes", "now", "pod", "world")

    def __init__(self, world: World, pod: PodFacts, now: float, *, offers: bool = True) -> None:
        self.world = world
        self.nodes: Picture = world.nodes
        self.pod = pod
        self.now = now
        self._matched: Matched | None = None
        self._matched_known = not offers

    @property
    def kind(self) -> Kind:
        """The pod's kind: namespace and visible labels. Asked anew, keys may become visible."""
        return self.nodes.kind_of(self.pod)

    @property
    def matched(self) -> Matched | None:
        """The offers this pod may draw on, or None; looked up once."""
        if not self._matched_known:
            self._matched_known = True
            self._matched = self.world.match(self.pod)
        return self._matched

    @property
    def nominated(self) -> Mapping[int, Mapping[str, PodFacts]]:
        """Other pods nominated to rows, which this pod must leave room for, per row by uid."""
        return self.world.nominations.rows(self.pod)
