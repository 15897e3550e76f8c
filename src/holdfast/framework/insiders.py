"""Pods nominated to a row where room is held for them: they will not take it twice.

What such a pod asks for must not be added to what its offer holds. So on these rows it does not do
to add up requests; there are few of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.framework.world import World


class Insiders:
    """The rows, kept while nominations come and go."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stamp: tuple[int, ...] = ()
        self._row_of: dict[str, int] = {}
        self._rows: Counter[int] = Counter()

    def rows(self) -> Collection[int]:
        """Rows that owners of an offer there are nominated to."""
        world = self._world
        if not (world.nominations and world.offers):
            if self._rows:
                self._stamp, self._row_of, self._rows = (), {}, Counter()
            return ()
        stamp = (world.nodes.epochs["reservations"], world.nodes.epochs["nodes"])
        moved = world.nominations.moved()
        if self._stamp != stamp:
            self._stamp, self._row_of, self._rows = stamp, {}, Counter()
            moved = world.nominations.uids
        for uid in moved:
            self._look_at(uid)
        return self._rows.keys()

    def _look_at(self, uid: str) -> None:
        old = self._row_of.pop(uid, None)
        if old is not None:
            self._rows[old] -= 1
            if not self._rows[old]:
                del self._rows[old]
        nominations = self._world.nominations
        node = nominations.node_of(uid)
        row = self._world.nodes.row_of.get(node, -1)
        match = None if row < 0 else self._world.match(nominations.on(node)[uid])
        if match is not None and len(match.slots) and row in match.rows:
            self._row_of[uid] = row
            self._rows[row] += 1
