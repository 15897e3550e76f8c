"""The pods of each row by rank, most important first.

Preemption reads this to find victims on all rows at once. Node by node, with one pod and one filter
at a time, a dry run took half a second per decision on 500 nodes. Rows that changed are ranked
again only when ``refresh`` is called, or before that in steps: clusters that never preempt pay
nothing, and the first preemption, which ranks all pods, is not done in one step (275 ms for 150,000
pods).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.amounts import RequestedAmounts
from holdfast.state.columns.journal import FEW_ROWS, JournalReader, StaleRows
from holdfast.state.columns.pod_info import PodInfo, start_times
from holdfast.state.columns.pod_values import PodValues

if TYPE_CHECKING:
    from holdfast.state.columns.node_table import NodeTable

NO_POD_PRIORITY = 2**40
"""The priority at ranks without a pod: above any pod's."""
NOT_STARTED = math.inf
_MAX_VALUES = 64
_ROWS_A_STEP = 32
"""With 30 pods per row about 2 ms."""
ReadValue = Callable[[PodInfo], int]
Rows = NDArray[np.intp]


class RankedPods:
    """Values per row and rank; rank 0 is the most important pod of a row.

    A higher priority is more important, then an earlier start; a pod that has not started comes
    last among pods of equal priority. That is right as long as no pod started in the future:
    ``newest_start`` is the latest start per row, and ``latest_start`` is the latest of all rows.
    ``count`` is the number of pods per row. Reserve pods are left out: they cannot be evicted.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._journal_reader = JournalReader(nodes.journal, nodes.order_journal)
        self._capacity = nodes.capacity  # a table that grows makes new RankedPods
        self.pods: list[list[PodInfo]] = [[] for _ in range(self._capacity)]
        """The pods of each row, by rank."""
        self._values: dict[Hashable, _Values] = {}
        self._unranked: set[int] = set()
        """Changed rows that ``refresh_in_steps`` has not ranked so far."""
        self.priority = PodValues(self._capacity, empty=NO_POD_PRIORITY)
        self.started = PodValues(self._capacity, "d", NOT_STARTED)
        self.newest_start: NDArray[np.float64] = np.full(self._capacity, -math.inf)
        self.latest_start = -math.inf
        self.count: NDArray[np.int64] = np.zeros(self._capacity, np.int64)

    def refresh(self) -> None:
        """Rank the rows that changed since the last call."""
        stale = self._journal_reader.stale(self._nodes.size)
        if self._unranked or isinstance(stale, slice):
            self._unranked.update(self._rows_of(stale))
            self._rank_rows(_take(self._unranked))
            return
        for row in stale:
            self._rank(int(row))

    def refresh_in_steps(self) -> Iterator[None]:
        """Do the same, with pauses in which the world may change and the ranks may be read."""
        self._unranked.update(self._rows_of(self._journal_reader.stale(self._nodes.size)))
        if len(self._unranked) > FEW_ROWS:
            yield
        while self._unranked and not self._is_replaced:
            self._rank_rows(_take(self._unranked, _ROWS_A_STEP))
            if self._unranked:
                yield
        yield from self._columns_in_steps(self.priority, self.started)

    @property
    def _is_replaced(self) -> bool:
        return self._nodes.capacity != self._capacity

    def _rows_of(self, stale: StaleRows) -> Iterable[int]:
        return range(self._nodes.size) if isinstance(stale, slice) else map(int, stale)

    def values_of(
        self, key: Hashable, read: ReadValue, version: Any = None, *, by_label_group: bool = False
    ) -> PodValues:
        """Return what ``read`` returns for each pod, 0 at ranks without one.

        The values are kept until ``version`` changes. ``by_label_group``: all pods of a label group
        have the same value.
        """
        known_values = self._known_values(key, read, version)
        if known_values.unread:
            self._read_rows(known_values, _take(known_values.unread), by_label_group=by_label_group)
        return known_values.values

    def values_in_steps(
        self, key: Hashable, read: ReadValue, version: Any = None, *, by_label_group: bool = False
    ) -> Iterator[None]:
        """Read what ``values_of`` returns, with pauses in which the world may change."""
        known_values = self._known_values(key, read, version)
        if len(known_values.unread) > FEW_ROWS:
            yield
        while known_values.unread and not self._is_replaced:
            self.refresh()
            rows = _take(known_values.unread, _ROWS_A_STEP)
            self._read_rows(known_values, rows, by_label_group=by_label_group)
            if known_values.unread:
                yield
        yield from self._columns_in_steps(known_values.values)

    def _columns_in_steps(self, *values: PodValues) -> Iterator[None]:
        """Make the columns of values, which takes milliseconds for each of them."""
        for of_pods in values:
            if of_pods.is_stale and not self._is_replaced:
                yield
                of_pods.columns()

    def _known_values(self, key: Hashable, read: ReadValue, version: Any) -> _Values:
        known = self._values.pop(key, None)
        if known is None or known.version != version:
            if len(self._values) >= _MAX_VALUES:
                oldest = next((k for k in self._values if not isinstance(k, int)), None)
                self._values.pop(oldest, None)
            unread = set(self.count.nonzero()[0].tolist())
            known = _Values(version, read, PodValues(self._capacity), unread)
        self._values[key] = known  # used last, dropped last
        return known

    def _read_rows(
        self, known_values: _Values, rows: Rows, *, by_label_group: bool = False
    ) -> None:
        # Every change of a request is in the journal, so the pods read last are current.
        for row in () if isinstance(known_values.read, RequestedAmount) else rows.tolist():
            # Another field that was not read so far may have changed without a journal entry.
            now = self._nodes.pods_on(row)
            self.pods[row] = [now[pod.uid] for pod in self.pods[row]]
        pods = self._pods_of(rows)
        read = self._read_groups if by_label_group else read_values
        known_values.values.fill(rows, read(known_values.read, pods), self.count[rows])

    def _pods_of(self, rows: Rows) -> list[PodInfo]:
        return [*chain.from_iterable(map(self.pods.__getitem__, rows.tolist()))]

    def _read_groups(self, read: ReadValue, pods: list[PodInfo]) -> NDArray[np.int64]:
        """Read one pod of each label group."""
        groups = self._nodes.label_group_ids(pods)
        values = {group: read(pod) for group, pod in dict(zip(groups, pods, strict=True)).items()}
        return np.array([values[group] for group in groups], np.int64)

    def amounts(self, resource: int) -> PodValues:
        """Return the requested amount of a resource of each pod."""
        known = self._values.get(resource)
        if known is not None and not known.unread:
            return known.values
        return self.values_of(resource, RequestedAmount(resource))

    def amounts_in_steps(self, resource: int) -> Iterator[None]:
        """Read what ``amounts`` returns, with pauses in which the world may change."""
        return self.values_in_steps(resource, RequestedAmount(resource))

    def _rank_rows(self, rows: Rows) -> None:
        """Rank many rows, in arrays."""
        there = [
            [pod for pod in self._nodes.pods_on(row).values() if not pod.is_reserve_pod]
            for row in rows.tolist()
        ]
        flat = list(chain.from_iterable(there))
        self.count[rows] = counts = np.array([*map(len, there)], np.int64)
        priority = np.array([pod.priority for pod in flat], np.int64)
        began = np.array(start_times(flat), np.float64)
        positions = np.repeat(np.arange(len(rows)), counts)
        # Row and priority in one number: a priority has 32 bits.
        order = np.lexsort((began, (positions << 33) - priority))
        ranked = [flat[i] for i in order.tolist()]
        ends = counts.cumsum().tolist()
        for row, count, end in zip(rows.tolist(), counts.tolist(), ends, strict=True):
            self.pods[row] = ranked[end - count : end]
        self.newest_start[rows] = -math.inf
        started = np.where(began == NOT_STARTED, -math.inf, began)
        np.maximum.at(self.newest_start, rows[positions], started)
        self.latest_start = float(self.newest_start.max(initial=-math.inf))
        self.priority.fill(rows, priority[order], counts)
        self.started.fill(rows, began[order], counts)
        for known in self._values.values():
            known.values.fill(rows, read_values(known.read, ranked), counts)
            known.unread.difference_update(rows.tolist())

    def _rank(self, row: int) -> None:
        there, before = self._nodes.pods_on(row), self.pods[row]
        # Compared by identity: reading the pods, which are scattered over the memory, would be
        # slow.
        present = set(map(id, there.values()))
        left = [rank for rank, pod in enumerate(before) if id(pod) not in present]
        stayed = len(before) - len(left)
        if stayed == len(there) or stayed == sum(not p.is_reserve_pod for p in there.values()):
            if left:
                self._remove_ranks(row, left)
            return
        self._write(row, [pod for pod in there.values() if not pod.is_reserve_pod])

    def _write(self, row: int, there: list[PodInfo]) -> None:
        ranked = [(-pod.priority, pod.start_time, i) for i, pod in enumerate(there)]
        ranked.sort()
        pods = [there[i] for _, _, i in ranked]
        starts = [began for _, began, _ in ranked]
        newest = max((s for s in starts if s != NOT_STARTED), default=-math.inf)
        self.pods[row] = pods
        self.count[row] = len(pods)
        self.newest_start[row] = newest
        self.latest_start = max(self.latest_start, newest)
        self.priority.write(row, [-minus for minus, _, _ in ranked])
        self.started.write(row, starts)
        for known in self._values.values():
            known.values.write(row, [known.read(pod) for pod in pods])
            known.unread.discard(row)

    def _remove_ranks(self, row: int, left: list[int]) -> None:
        """Remove pods from a row that got no new ones; the others move up."""
        # ``newest_start`` stays: if it is too late, the row is only dry-run without need.
        pods = self.pods[row]
        for rank in reversed(left):
            del pods[rank]
        self.count[row] = len(pods)
        self.priority.drop(row, left)
        self.started.drop(row, left)
        for known in self._values.values():
            if row not in known.unread:
                known.values.drop(row, left)


@dataclass(slots=True)
class _Values:
    """Values of one reader; ``unread`` are rows that were not read so far."""

    version: Any
    read: ReadValue
    values: PodValues
    unread: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class RequestedAmount:
    """Reads the amount of a resource that a pod requests."""

    resource: int

    def __call__(self, pod: PodInfo) -> int:
        """Return the amount of one pod."""
        return self.of(pod.request)

    def of(self, request: RequestedAmounts) -> int:
        """Return the amount in one request."""
        for resource, amount in request:
            if resource == self.resource:
                return amount
        return 0


def _take(rows: set[int], count: int | None = None) -> Rows:
    """Remove up to ``count`` rows from a set and return them; None: all."""
    taken = [*islice(rows, count)]
    rows.difference_update(taken)
    return np.array(taken, np.intp)


def read_values(read: ReadValue, pods: Iterable[PodInfo]) -> NDArray[np.int64]:
    """Return the values of many pods, in their order."""
    if not isinstance(read, RequestedAmount):
        return np.array([read(pod) for pod in pods], np.int64)
    # Pods of equal specs share their request object: each object is read once.
    requests = [pod.request for pod in pods]
    keys = [*map(id, requests)]
    distinct = dict(zip(keys, requests, strict=True))
    amounts = {key: read.of(request) for key, request in distinct.items()}
    return np.array([amounts[key] for key in keys], np.int64)
