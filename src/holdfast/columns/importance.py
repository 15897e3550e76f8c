"""Pods of each row, most important first, as padded columns.

Who would have to make room is asked of all rows at once; this is what the question is asked of.
Nothing is kept up while nobody asks: rows that moved since are ranked again on demand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.follower import Follower
from holdfast.columns.pod_facts import PodFacts

if TYPE_CHECKING:
    from holdfast.columns.picture import Picture

NOBODY = 2**40
"""The priority in places where no pod stands: above any pod's."""
UNSTARTED = math.inf
_FIRST_PLACES = 16
Read = Callable[[PodFacts], int]


class Importance:
    """Columns [place, row]; in a row, places go from the most important pod to the least.

    More important is a higher priority, then an earlier start; a pod that has not started comes
    last among its equals (right, as long as no start lies in the future: ``newest`` is the latest
    start per row). Stand-ins for reservations are left out: nobody can evict those.
    """

    def __init__(self, nodes: Picture) -> None:
        self._nodes = nodes
        self._follower = Follower(nodes.journal, nodes.order_journal)
        self._capacity = nodes.capacity  # a picture that grows makes another
        self.pods: list[list[PodFacts]] = [[] for _ in range(self._capacity)]
        """The pods themselves, by row, in the order of the places."""
        self._columns: dict[Hashable, tuple[Any, Read, NDArray[np.int64]]] = {}
        self._lay_out(_FIRST_PLACES)

    def _lay_out(self, places: int) -> None:
        shape = (places, self._capacity)
        self.priority: NDArray[np.int64] = np.full(shape, NOBODY, np.int64)
        self.started: NDArray[np.float64] = np.full(shape, UNSTARTED)
        self.newest: NDArray[np.float64] = np.full(self._capacity, -math.inf)
        self._columns = {
            key: (version, read, np.zeros(shape, np.int64))
            for key, (version, read, _) in self._columns.items()
        }

    def refresh(self) -> None:
        """Rank the rows again that moved since last time."""
        stale = self._follower.stale(self._nodes.size)
        rows = range(stale.stop) if isinstance(stale, slice) else stale
        for row in rows:
            self._rank(int(row))

    def column(self, key: Hashable, read: Read, version: Any = None) -> NDArray[np.int64]:
        """What ``read`` says of each pod, 0 where none stands; kept until the version moves."""
        known = self._columns.get(key)
        if known is not None and known[0] == version:
            return known[2]
        made = np.zeros(self.priority.shape, np.int64)
        self._columns[key] = (version, read, made)
        for row, pods in enumerate(self.pods):
            if pods:
                # What nobody looked at so far may have changed in silence.
                now = self._nodes.pods_on(row)
                self.pods[row] = [now[pod.uid] for pod in pods]
                made[: len(pods), row] = [read(pod) for pod in self.pods[row]]
        return made

    def amounts(self, resource: int) -> NDArray[np.int64]:
        """What each pod asks for of a resource."""
        return self.column(("amount", resource), lambda pod: _amount(pod, resource))

    def _rank(self, row: int) -> None:
        pods = [pod for pod in self._nodes.pods_on(row).values() if not pod.reserve_for]
        pods.sort(key=_order)
        count, before = len(pods), len(self.pods[row])
        if count > len(self.priority):
            self._deepen(count)
            return
        self.pods[row] = pods
        starts = [pod.began for pod in pods]
        self.priority[:count, row] = [pod.priority for pod in pods]
        self.started[:count, row] = starts
        self.newest[row] = max((s for s in starts if s != UNSTARTED), default=-math.inf)
        for _, read, column in self._columns.values():
            column[:count, row] = [read(pod) for pod in pods]
        if count < before:
            self.priority[count:before, row] = NOBODY
            self.started[count:before, row] = UNSTARTED
            for _, _, column in self._columns.values():
                column[count:before, row] = 0

    def _deepen(self, places: int) -> None:
        """Make room for more pods a row, and rank every row again."""
        self._lay_out(2 * places)
        for row in range(self._nodes.size):
            self.pods[row] = []
            self._rank(row)


def _order(pod: PodFacts) -> tuple[int, float]:
    return (-pod.priority, pod.began)


def _amount(pod: PodFacts, resource: int) -> int:
    for id_, amount in pod.request:
        if id_ == resource:
            return amount
    return 0
