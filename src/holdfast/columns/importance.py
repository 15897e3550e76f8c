"""Pods of each row, most important first, as grids of row and place.

Who would have to make room is asked of all rows at once; this is what the question is asked of.
Nothing is kept up while nobody asks: rows that moved since are ranked again on demand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.amounts import RequestedAmounts
from holdfast.columns.grid import Grid
from holdfast.columns.journal import Follower
from holdfast.columns.pod_info import PodInfo, beginnings

if TYPE_CHECKING:
    from holdfast.columns.node_table import NodeTable

NOBODY = 2**40
"""The priority in places where no pod stands: above any pod's."""
UNSTARTED = math.inf
_MOST_GRIDS = 64
Read = Callable[[PodInfo], int]


class Importance:
    """Grids of row and place; in a row, places go from the most important pod to the least.

    More important is a higher priority, then an earlier start; a pod that has not started comes
    last among its equals (right, as long as no start lies in the future: ``newest`` is the latest
    start per row, ``latest`` the latest of all). ``count`` tells how many places of a row are
    taken. Stand-ins for reservations are left out: nobody can evict those.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._follower = Follower(nodes.journal, nodes.order_journal)
        self._capacity = nodes.capacity  # a picture that grows makes another
        self.pods: list[list[PodInfo]] = [[] for _ in range(self._capacity)]
        """The pods themselves, by row, in the order of the places."""
        self._others: dict[Hashable, tuple[Any, Read, Grid]] = {}
        self.priority = Grid(self._capacity, empty=NOBODY)
        self.started = Grid(self._capacity, "d", UNSTARTED)
        self.newest: NDArray[np.float64] = np.full(self._capacity, -math.inf)
        self.latest = -math.inf
        self.count: NDArray[np.int64] = np.zeros(self._capacity, np.int64)

    def refresh(self) -> None:
        """Rank the rows again that moved since last time."""
        stale = self._follower.stale(self._nodes.size)
        if isinstance(stale, slice):
            self._rank_all()
            return
        for row in stale:
            self._rank(int(row))

    def grid(
        self, key: Hashable, read: Read, version: Any = None, *, by_kind: bool = False
    ) -> Grid:
        """What ``read`` says of each pod, 0 where none stands; kept until the version moves.

        ``by_kind``: it says the same of all pods of a kind.
        """
        known = self._others.pop(key, None)
        if known is not None and known[0] == version:
            self._others[key] = known  # asked for last, forgotten last
            return known[2]
        if len(self._others) >= _MOST_GRIDS:
            oldest = next((k for k in self._others if not isinstance(k, int)), None)
            self._others.pop(oldest, None)
        made = Grid(self._capacity)
        self._others[key] = (version, read, made)
        for row, pods in enumerate(self.pods):
            if pods:
                # What nobody looked at so far may have changed in silence.
                now = self._nodes.pods_on(row)
                self.pods[row] = [now[pod.uid] for pod in pods]
        ranked = list(chain.from_iterable(self.pods))
        if by_kind:
            made.fill(self._read_kinds(read, ranked), self.count)
        else:
            made.fill(read_all(read, ranked), self.count)
        return made

    def _read_kinds(self, read: Read, pods: list[PodInfo]) -> NDArray[np.int64]:
        """Read one pod of each kind."""
        kinds = self._nodes.kinds_of(pods)
        values = {kind: read(pod) for kind, pod in dict(zip(kinds, pods, strict=True)).items()}
        return np.array([values[kind] for kind in kinds], np.int64)

    def amounts(self, resource: int) -> Grid:
        """What each pod asks for of a resource."""
        known = self._others.get(resource)
        if known is not None:
            return known[2]
        made = Grid(self._capacity)
        self._others[resource] = (None, Amount(resource), made)
        # No pod asks for another amount in silence.
        made.fill(read_all(Amount(resource), chain.from_iterable(self.pods)), self.count)
        return made

    def _rank_all(self) -> None:
        """Rank every row, as columns."""
        there = [
            [pod for pod in self._nodes.pods_on(row).values() if not pod.stands_in]
            for row in range(self._nodes.size)
        ]
        flat = list(chain.from_iterable(there))
        self.count[: len(there)] = [*map(len, there)]
        priority = np.array([pod.priority for pod in flat], np.int64)
        began = np.array(beginnings(flat), np.float64)
        rows = np.repeat(np.arange(self._capacity), self.count)
        # Row and priority in one number: a priority has 32 bits.
        order = np.lexsort((began, (rows << 33) - priority))
        ranked = [flat[i] for i in order.tolist()]
        ends = self.count.cumsum().tolist()
        self.pods = [
            ranked[end - n : end] for n, end in zip(self.count.tolist(), ends, strict=True)
        ]
        self.newest[:] = -math.inf
        np.maximum.at(self.newest, rows, np.where(began == UNSTARTED, -math.inf, began))
        self.latest = float(self.newest.max(initial=-math.inf))
        self.priority.fill(priority[order], self.count)
        self.started.fill(began[order], self.count)
        for _, read, grid in self._others.values():
            grid.fill(read_all(read, ranked), self.count)

    def _rank(self, row: int) -> None:
        there, before = self._nodes.pods_on(row), self.pods[row]
        # By identity, without a look at the pods: those of a row lie all over the memory.
        present = set(map(id, there.values()))
        left = [place for place, pod in enumerate(before) if id(pod) not in present]
        stayed = len(before) - len(left)
        if stayed == len(there) or stayed == sum(not p.stands_in for p in there.values()):
            if left:
                self._close_ranks(row, left)
            return
        self._write(row, [pod for pod in there.values() if not pod.stands_in])

    def _write(self, row: int, there: list[PodInfo]) -> None:
        ranked = [(-pod.priority, pod.began, i) for i, pod in enumerate(there)]
        ranked.sort()
        pods = [there[i] for _, _, i in ranked]
        starts = [began for _, began, _ in ranked]
        newest = max((s for s in starts if s != UNSTARTED), default=-math.inf)
        self.pods[row] = pods
        self.count[row] = len(pods)
        self.newest[row] = newest
        self.latest = max(self.latest, newest)
        self.priority.write(row, [-minus for minus, _, _ in ranked])
        self.started.write(row, starts)
        for _, read, grid in self._others.values():
            grid.write(row, [read(pod) for pod in pods])

    def _close_ranks(self, row: int, left: list[int]) -> None:
        """Some left and nobody came: the others move up."""
        # ``newest`` stays: it may be of one who left, which only makes somebody look closer.
        pods = self.pods[row]
        for place in reversed(left):
            del pods[place]
        self.count[row] = len(pods)
        self.priority.drop(row, left)
        self.started.drop(row, left)
        for _, _, grid in self._others.values():
            grid.drop(row, left)


@dataclass(frozen=True, slots=True)
class Amount:
    """Reads what a pod asks for of a resource."""

    resource: int

    def __call__(self, pod: PodInfo) -> int:
        """Of one pod."""
        return self.of(pod.request)

    def of(self, request: RequestedAmounts) -> int:
        """Of one request."""
        for resource, amount in request:
            if resource == self.resource:
                return amount
        return 0


def read_all(read: Read, pods: Iterable[PodInfo]) -> NDArray[np.int64]:
    """What is read of many pods, one after the other."""
    if not isinstance(read, Amount):
        return np.array([read(pod) for pod in pods], np.int64)
    # Equal pods share their request, as an object: each is looked at once.
    requests = [pod.request for pod in pods]
    keys = [*map(id, requests)]
    distinct = dict(zip(keys, requests, strict=True))
    amounts = {key: read.of(request) for key, request in distinct.items()}
    return np.array([amounts[key] for key in keys], np.int64)
