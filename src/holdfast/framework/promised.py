"""What pods that are nominated to nodes will need there, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts

_NOBODY = -(2**40)
"""A priority below any pod's."""
Ints = NDArray[np.int64]


class Promised:
    """One entry a nominated pod: where, how important, how much of each resource.

    Entries are reused. Rows are looked up by the nodes' names, again whenever a node came or went.
    """

    def __init__(self, nodes: Picture) -> None:
        self._nodes = nodes
        self._seen = -1
        self._entry_of: dict[str, int] = {}
        self._free: list[int] = []
        self._who: list[PodFacts | None] = []
        self._where: list[str] = []
        self._row: NDArray[np.intp] = np.full(16, -1, np.intp)
        self._priority: Ints = np.full(16, _NOBODY, np.int64)
        self._amounts: dict[int, Ints] = {}

    def put(self, facts: PodFacts, node: str) -> None:
        """A pod, which has no entry yet, is nominated to a node."""
        if self._free:
            entry = self._free.pop()
        else:
            entry = len(self._who)
            self._who.append(None)
            self._where.append("")
            if entry == len(self._row):
                self._grow()
        self._entry_of[facts.uid] = entry
        self._who[entry], self._where[entry] = facts, node
        self._row[entry] = self._nodes.row_of.get(node, -1)
        self._priority[entry] = facts.priority
        request = dict(facts.request)
        for resource, column in self._amounts.items():
            column[entry] = request.get(resource, 0)

    def drop(self, uid: str) -> None:
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

    def needed(self, priority: int, resources: Iterable[int]) -> list[Ints]:
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

    def counted(self, priority: int, counts: Callable[[PodFacts], int]) -> Ints:
        """Per row: how much pods of at least a priority count that will come."""
        self._look_up()
        total = np.zeros(self._nodes.capacity, np.int64)
        for entry in ((self._row >= 0) & (self._priority >= priority)).nonzero()[0].tolist():
            facts = self._who[entry]
            assert facts is not None
            total[self._row[entry]] += counts(facts)
        return total

    def rows_of(self, chosen: Callable[[PodFacts], bool], priority: int) -> list[int]:
        """Rows that a chosen pod of at least a priority is nominated to."""
        self._look_up()
        found = []
        for entry in ((self._row >= 0) & (self._priority >= priority)).nonzero()[0].tolist():
            facts = self._who[entry]
            if facts is not None and chosen(facts):
                found.append(int(self._row[entry]))
        return found

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
