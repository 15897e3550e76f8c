"""Pods that were promised a node and wait for it to become free."""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo

if TYPE_CHECKING:
    from holdfast.framework.world import World


_NOBODY = -(2**40)
"""A priority below any pod's."""
_NONE: Mapping[int, Mapping[str, PodInfo]] = {}
Ints = NDArray[np.int64]


class Nominations:
    """Pods nominated to nodes, by uid and by node name."""

    __slots__ = ("_moved", "_node_of", "_nodes", "_of_node", "columns")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._node_of: dict[str, str] = {}
        self._of_node: dict[str, dict[str, PodInfo]] = {}
        self.columns = NominatedPodColumns(nodes)
        self._moved: set[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def set(self, pod_info: PodInfo, node: str) -> None:
        """Nominate a pod to a node instead of any other; "" withdraws it."""
        self.clear(pod_info.uid)
        if node:
            # Others are asked whether they go beside it, by the labels its terms look at.
            self._nodes.add_selector_keys(pod_info.affinity_terms.label_keys)
            self._node_of[pod_info.uid] = node
            self._of_node.setdefault(node, {})[pod_info.uid] = pod_info
            self.columns.add(pod_info, node)
            self._log(pod_info.uid, node)

    def clear(self, uid: str) -> None:
        """Withdraw a nomination; none is fine."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._of_node[node][uid]
            if not self._of_node[node]:
                del self._of_node[node]
            self.columns.remove(uid)
            self._log(uid, node)

    @property
    def uids(self) -> Collection[str]:
        """Who is nominated."""
        return self._node_of.keys()

    def take_changed(self) -> Collection[str]:
        """Who was nominated, or is no longer, since this was last asked; at first everybody."""
        moved, self._moved = self._moved, set()
        return self.uids if moved is None else moved

    def _log(self, uid: str, node: str) -> None:
        if self._moved is not None:
            self._moved.add(uid)
        row = self._nodes.row_of.get(node)
        if row is not None:
            self._nodes.order_journal.log(row)

    def keep_schedulers(self, schedulers: Container[str]) -> None:
        """Withdraw nominations of pods that other schedulers wait with."""
        there = [pod_info for pods in self._of_node.values() for pod_info in pods.values()]
        for pod_info in there:
            if pod_info.scheduler_name not in schedulers:
                self.clear(pod_info.uid)

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> Mapping[str, PodInfo]:
        """Pods nominated to a node, by uid."""
        return self._of_node.get(node, {})

    def ahead_of(self, pod: PodInfo, row: int) -> Mapping[str, PodInfo]:
        """Pods of at least this pod's priority, itself aside, nominated to a row."""
        there = self.with_priority(pod.priority, row)
        return {other.uid: other for other in there if other.uid != pod.uid}

    def with_priority(self, priority: int, row: int) -> Sequence[PodInfo]:
        """Pods of at least this priority nominated to a row."""
        there = self._of_node.get(self._nodes.names[row])
        if there is None:
            return ()
        return [other for other in there.values() if other.priority >= priority]

    def ahead_by_row(self, pod: PodInfo) -> Mapping[int, Mapping[str, PodInfo]]:
        """Pods of at least this pod's priority, itself aside, per row they are nominated to."""
        if not self._of_node:
            return _NONE
        found: dict[int, Mapping[str, PodInfo]] = {}
        for row in self.columns.rows().tolist():
            if ahead := self.ahead_of(pod, row):
                found[row] = ahead
        return found

    def faults(self) -> Iterator[str]:
        """Name what is wrong with the columns about nominated pods."""
        return self.columns.faults(self._of_node)

    def fork(self, nodes: NodeTable) -> Nominations:
        """An independent copy over a forked picture."""
        copy = Nominations(nodes)
        copy._node_of = dict(self._node_of)
        copy._of_node = {node: dict(pods) for node, pods in self._of_node.items()}
        for node, pods in self._of_node.items():
            for pod_info in pods.values():
                copy.columns.add(pod_info, node)
        return copy


class NominatedPodColumns:
    """What pods that are nominated to nodes will need there, as columns.

    One entry a nominated pod: where, how important, how much of each resource.

    Entries are reused. Rows are looked up by the nodes' names, again whenever a node came or went.

    Invariant: every nominated pod has one entry with its node's row, its priority and its requests;
    an entry that no pod has is of no row.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._seen = -1
        self._entry_of: dict[str, int] = {}
        self._free: list[int] = []
        self._who: list[PodInfo | None] = []
        self._where: list[str] = []
        self._row: NDArray[np.intp] = np.full(16, -1, np.intp)
        self._priority: Ints = np.full(16, _NOBODY, np.int64)
        self._amounts: dict[int, Ints] = {}

    def add(self, pod_info: PodInfo, node: str) -> None:
        """A pod, which has no entry yet, is nominated to a node."""
        if self._free:
            entry = self._free.pop()
        else:
            entry = len(self._who)
            self._who.append(None)
            self._where.append("")
            if entry == len(self._row):
                self._grow()
        self._entry_of[pod_info.uid] = entry
        self._who[entry], self._where[entry] = pod_info, node
        self._row[entry] = self._nodes.row_of.get(node, -1)
        self._priority[entry] = pod_info.priority
        request = dict(pod_info.request)
        for resource, column in self._amounts.items():
            column[entry] = request.get(resource, 0)

    def remove(self, uid: str) -> None:
        """Its nomination ended."""
        entry = self._entry_of.pop(uid)
        self._who[entry], self._where[entry] = None, ""
        self._row[entry], self._priority[entry] = -1, _NOBODY
        self._free.append(entry)

    def rows(self, priority: int = _NOBODY) -> NDArray[np.intp]:
        """Rows that anybody of at least a priority is nominated to, ascending, each once."""
        self._look_up()
        there = np.zeros(self._nodes.capacity, np.bool_)
        there[self._row[(self._row >= 0) & (self._priority >= priority)]] = True
        return there.nonzero()[0]

    def requested(self, priority: int, resources: Iterable[int]) -> list[Ints]:
        """Per row: how many pods of at least a priority will come, and what they will take."""
        self._look_up()
        there = (self._row >= 0) & (self._priority >= priority)
        rows, capacity = self._row[there], self._nodes.capacity
        found = [np.bincount(rows, minlength=capacity)]
        for resource in resources:
            total = np.zeros(capacity, np.int64)
            np.add.at(total, rows, self._amount(resource)[there])
            found.append(total)
        return found

    def sum_counts(self, priority: int, counts: Callable[[PodInfo], int]) -> Ints:
        """Per row: how much pods of at least a priority count that will come."""
        self._look_up()
        total = np.zeros(self._nodes.capacity, np.int64)
        for entry in ((self._row >= 0) & (self._priority >= priority)).nonzero()[0].tolist():
            pod_info = self._who[entry]
            assert pod_info is not None
            total[self._row[entry]] += counts(pod_info)
        return total

    def rows_of(self, chosen: Callable[[PodInfo], bool], priority: int) -> list[int]:
        """Rows that a chosen pod of at least a priority is nominated to."""
        self._look_up()
        found = []
        for entry in ((self._row >= 0) & (self._priority >= priority)).nonzero()[0].tolist():
            pod_info = self._who[entry]
            if pod_info is not None and chosen(pod_info):
                found.append(int(self._row[entry]))
        return found

    def faults(self, nominated: Mapping[str, Mapping[str, PodInfo]]) -> Iterator[str]:
        """Compare the entries with the pods nominated to each node and name what differs."""
        self._look_up()
        left = set(range(len(self._row)))
        for node, pods in nominated.items():
            row = self._nodes.row_of.get(node, -1)
            for uid, pod_info in pods.items():
                entry = self._entry_of[uid]
                left.discard(entry)
                kept = (self._row[entry], self._priority[entry])
                if kept != (row, pod_info.priority):
                    yield f"{pod_info.key} is nominated to row {row}, and is kept at {kept[0]}"
                request = dict(pod_info.request)
                if any(c[entry] != request.get(r, 0) for r, c in self._amounts.items()):
                    yield f"{pod_info.key} is nominated, and its request is kept as another"
        if any(self._row[entry] >= 0 for entry in left):
            yield "rows are kept for pods that are not nominated"

    def _amount(self, resource: int) -> Ints:
        column = self._amounts.get(resource)
        if column is None:
            asked = [0 if f is None else dict(f.request).get(resource, 0) for f in self._who]
            column = self._amounts[resource] = np.zeros(len(self._row), np.int64)
            column[: len(asked)] = asked
        return column

    def _look_up(self) -> None:
        epoch = self._nodes.epochs["nodes"]
        if self._seen != epoch:
            self._seen = epoch
            rows = [self._nodes.row_of.get(node, -1) for node in self._where]
            self._row[: len(rows)] = rows

    def _grow(self) -> None:
        self._row = np.concatenate([self._row, np.full(len(self._row), -1, np.intp)])
        nobody = np.full(len(self._priority), _NOBODY, np.int64)
        self._priority = np.concatenate([self._priority, nobody])
        self._amounts = {
            resource: np.concatenate([column, np.zeros(len(column), np.int64)])
            for resource, column in self._amounts.items()
        }


class NominatedOwnerRows:
    """Rows with pods nominated to them for which room is held there: they will not take it twice.

    What such a pod asks for must not be added to what its offer holds. So on these rows it does not
    do to add up requests; there are few of them, kept while nominations come and go.

    Invariant: ``rows()`` are the rows to which a pod is nominated that matches an offer there.
    """

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
        moved = world.nominations.take_changed()
        if self._stamp != stamp:
            self._stamp, self._row_of, self._rows = stamp, {}, Counter()
            moved = world.nominations.uids
        for uid in moved:
            self._look_at(uid)
        return self._rows.keys()

    def faults(self) -> Iterator[str]:
        """Match every nominated pod again and name what differs from what is kept."""
        rows = set(self.rows())
        fresh = NominatedOwnerRows(self._world)
        nominations = self._world.nominations
        for uid in nominations.uids if nominations and self._world.offers else ():
            fresh._look_at(uid)
        if rows != fresh._rows.keys():
            yield f"rows of nominated owners are kept as {sorted(rows)}, and are {[*fresh._rows]}"

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
