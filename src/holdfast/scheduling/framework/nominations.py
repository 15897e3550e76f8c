"""Nominated pods: pods that wait for their victims to leave a node."""

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

from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

if TYPE_CHECKING:
    from holdfast.scheduling.framework.world import World


_LOWEST = -(2**40)
"""A priority below that of any pod."""
_NONE: Mapping[int, Mapping[str, PodInfo]] = {}
Ints = NDArray[np.int64]


class Nominations:
    """Pods nominated to nodes, by uid and by node name."""

    __slots__ = ("_changed", "_node_of", "_nodes", "_of_node", "columns")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._node_of: dict[str, str] = {}
        self._of_node: dict[str, dict[str, PodInfo]] = {}
        self.columns = NominatedPodColumns(nodes)
        self._changed: set[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def set(self, pod_info: PodInfo, node: str) -> None:
        """Nominate a pod to a node, replacing an earlier nomination; "" clears it."""
        self.clear(pod_info.uid)
        if node:
            # Other pods are filtered with this one, by the labels that its affinity terms select.
            self._nodes.add_selector_keys(pod_info.affinity_terms.label_keys)
            self._node_of[pod_info.uid] = node
            self._of_node.setdefault(node, {})[pod_info.uid] = pod_info
            self.columns.add(pod_info, node)
            self._log(pod_info.uid, node)

    def clear(self, uid: str) -> None:
        """Clear the nomination of a pod, if there is one."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._of_node[node][uid]
            if not self._of_node[node]:
                del self._of_node[node]
            self.columns.remove(uid)
            self._log(uid, node)

    @property
    def uids(self) -> Collection[str]:
        """The uids of the nominated pods."""
        return self._node_of.keys()

    def take_changed(self) -> Collection[str]:
        """Return the uids whose nomination changed since the last call; at first all."""
        changed, self._changed = self._changed, set()
        return self.uids if changed is None else changed

    def _log(self, uid: str, node: str) -> None:
        if self._changed is not None:
            self._changed.add(uid)
        row = self._nodes.row_of.get(node)
        if row is not None:
            self._nodes.order_journal.log(row)

    def keep_schedulers(self, schedulers: Container[str]) -> None:
        """Clear the nominations of pods of other schedulers."""
        nominated = [pod_info for pods in self._of_node.values() for pod_info in pods.values()]
        for pod_info in nominated:
            if pod_info.scheduler_name not in schedulers:
                self.clear(pod_info.uid)

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> Mapping[str, PodInfo]:
        """Return the pods nominated to a node, by uid."""
        return self._of_node.get(node, {})

    def ahead_of(self, pod: PodInfo, row: int) -> Mapping[str, PodInfo]:
        """Return the other pods nominated to a row, of at least this pod's priority, by uid."""
        there = self.with_priority(pod.priority, row)
        return {other.uid: other for other in there if other.uid != pod.uid}

    def with_priority(self, priority: int, row: int) -> Sequence[PodInfo]:
        """Return the pods of at least this priority nominated to a row."""
        there = self._of_node.get(self._nodes.names[row])
        if there is None:
            return ()
        return [other for other in there.values() if other.priority >= priority]

    def ahead_by_row(self, pod: PodInfo) -> Mapping[int, Mapping[str, PodInfo]]:
        """Return ``ahead_of`` for every row that has such pods."""
        if not self._of_node:
            return _NONE
        pods_by_row: dict[int, Mapping[str, PodInfo]] = {}
        for row in self.columns.rows().tolist():
            if ahead := self.ahead_of(pod, row):
                pods_by_row[row] = ahead
        return pods_by_row

    def faults(self) -> Iterator[str]:
        """Describe what is wrong with the columns of nominated pods."""
        return self.columns.faults(self._of_node)

    def fork(self, nodes: NodeTable) -> Nominations:
        """Return an independent copy over a forked node table."""
        copy = Nominations(nodes)
        copy._node_of = dict(self._node_of)
        copy._of_node = {node: dict(pods) for node, pods in self._of_node.items()}
        for node, pods in self._of_node.items():
            for pod_info in pods.values():
                copy.columns.add(pod_info, node)
        return copy


class NominatedPodColumns:
    """The nominated pods as columns: an entry per pod, with row, priority and requests.

    Entries are reused. Rows are looked up by node name, and again after nodes were added or
    removed.

    Invariant: every nominated pod has one entry with its node's row, its priority and its requests;
    the row of an unused entry is -1.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._seen = -1
        self._entry_of: dict[str, int] = {}
        self._free: list[int] = []
        self._pods: list[PodInfo | None] = []
        self._node_names: list[str] = []
        self._row: NDArray[np.intp] = np.full(16, -1, np.intp)
        self._priority: Ints = np.full(16, _LOWEST, np.int64)
        self._amounts: dict[int, Ints] = {}

    def add(self, pod_info: PodInfo, node: str) -> None:
        """Add a pod, which has no entry yet."""
        if self._free:
            entry = self._free.pop()
        else:
            entry = len(self._pods)
            self._pods.append(None)
            self._node_names.append("")
            if entry == len(self._row):
                self._grow()
        self._entry_of[pod_info.uid] = entry
        self._pods[entry], self._node_names[entry] = pod_info, node
        self._row[entry] = self._nodes.row_of.get(node, -1)
        self._priority[entry] = pod_info.priority
        request = dict(pod_info.request)
        for resource, column in self._amounts.items():
            column[entry] = request.get(resource, 0)

    def remove(self, uid: str) -> None:
        """Remove a pod."""
        entry = self._entry_of.pop(uid)
        self._pods[entry], self._node_names[entry] = None, ""
        self._row[entry], self._priority[entry] = -1, _LOWEST
        self._free.append(entry)

    def rows(self, priority: int = _LOWEST) -> NDArray[np.intp]:
        """Return the rows to which pods of at least this priority are nominated, ascending."""
        self._update_rows()
        there = np.zeros(self._nodes.capacity, np.bool_)
        there[self._row[(self._row >= 0) & (self._priority >= priority)]] = True
        return there.nonzero()[0]

    def requested(self, priority: int, resources: Iterable[int]) -> list[Ints]:
        """Return per row the number of pods of at least this priority, then their request sums."""
        self._update_rows()
        there = (self._row >= 0) & (self._priority >= priority)
        rows, capacity = self._row[there], self._nodes.capacity
        sums = [np.bincount(rows, minlength=capacity)]
        for resource in resources:
            total = np.zeros(capacity, np.int64)
            np.add.at(total, rows, self._amount(resource)[there])
            sums.append(total)
        return sums

    def sum_counts(self, priority: int, counts: Callable[[PodInfo], int]) -> Ints:
        """Return per row the sum of ``counts`` over its pods of at least this priority."""
        self._update_rows()
        total = np.zeros(self._nodes.capacity, np.int64)
        for entry in ((self._row >= 0) & (self._priority >= priority)).nonzero()[0].tolist():
            pod_info = self._pods[entry]
            assert pod_info is not None
            total[self._row[entry]] += counts(pod_info)
        return total

    def rows_of(self, chosen: Callable[[PodInfo], bool], priority: int) -> list[int]:
        """Return the rows of the chosen pods of at least this priority."""
        self._update_rows()
        rows = []
        for entry in ((self._row >= 0) & (self._priority >= priority)).nonzero()[0].tolist():
            pod_info = self._pods[entry]
            if pod_info is not None and chosen(pod_info):
                rows.append(int(self._row[entry]))
        return rows

    def faults(self, nominated: Mapping[str, Mapping[str, PodInfo]]) -> Iterator[str]:
        """Compare the entries with the pods nominated to each node and describe differences."""
        self._update_rows()
        left = set(range(len(self._row)))
        for node, pods in nominated.items():
            row = self._nodes.row_of.get(node, -1)
            for uid, pod_info in pods.items():
                entry = self._entry_of[uid]
                left.discard(entry)
                stored = (self._row[entry], self._priority[entry])
                if stored != (row, pod_info.priority):
                    wrong = f"is nominated to row {row}, but is stored for row {stored[0]}"
                    yield f"{pod_info.key} {wrong}"
                request = dict(pod_info.request)
                if any(c[entry] != request.get(r, 0) for r, c in self._amounts.items()):
                    yield f"{pod_info.key} is nominated, but another request is stored for it"
        if any(self._row[entry] >= 0 for entry in left):
            yield "rows are stored for pods that are not nominated"

    def _amount(self, resource: int) -> Ints:
        column = self._amounts.get(resource)
        if column is None:
            requests = [0 if f is None else dict(f.request).get(resource, 0) for f in self._pods]
            column = self._amounts[resource] = np.zeros(len(self._row), np.int64)
            column[: len(requests)] = requests
        return column

    def _update_rows(self) -> None:
        epoch = self._nodes.epochs[Epoch.NODES]
        if self._seen != epoch:
            self._seen = epoch
            rows = [self._nodes.row_of.get(node, -1) for node in self._node_names]
            self._row[: len(rows)] = rows

    def _grow(self) -> None:
        self._row = np.concatenate([self._row, np.full(len(self._row), -1, np.intp)])
        lowest = np.full(len(self._priority), _LOWEST, np.int64)
        self._priority = np.concatenate([self._priority, lowest])
        self._amounts = {
            resource: np.concatenate([column, np.zeros(len(column), np.int64)])
            for resource, column in self._amounts.items()
        }


class NominatedOwnerRows:
    """Rows with a nominated pod that owns a reservation on the same row.

    The request of its reservation already includes the request of such a pod. So on these few rows
    requests cannot simply be added up. The rows are cached and updated with the nominations.

    Invariant: ``rows()`` are the rows to which a pod is nominated that matches a reservation there.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._stamp: tuple[int, ...] = ()
        self._row_of: dict[str, int] = {}
        self._rows: Counter[int] = Counter()

    def rows(self) -> Collection[int]:
        """Return the rows."""
        world = self._world
        if not (world.nominations and world.reservations):
            if self._rows:
                self._stamp, self._row_of, self._rows = (), {}, Counter()
            return ()
        stamp = (world.nodes.epochs[Epoch.RESERVATIONS], world.nodes.epochs[Epoch.NODES])
        changed = world.nominations.take_changed()
        if self._stamp != stamp:
            self._stamp, self._row_of, self._rows = stamp, {}, Counter()
            changed = world.nominations.uids
        for uid in changed:
            self._update(uid)
        return self._rows.keys()

    def faults(self) -> Iterator[str]:
        """Match every nominated pod again and describe what differs."""
        rows = set(self.rows())
        fresh = NominatedOwnerRows(self._world)
        nominations = self._world.nominations
        for uid in nominations.uids if nominations and self._world.reservations else ():
            fresh._update(uid)
        if rows != fresh._rows.keys():
            yield f"cached rows of nominated owners {sorted(rows)} are {[*fresh._rows]}"

    def _update(self, uid: str) -> None:
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
