"""Who stands where: pods on rows, by uid, with the counters and ports they move.

A pod is *assumed* from the decision until the API server confirms it. Confirming changes nothing
a plugin could see, so it is not logged; that matters, because every placement is confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.api.labels import Selector
from holdfast.columns.counters import SelectorCount
from holdfast.columns.kinds import Kind, Kinds
from holdfast.columns.pod_facts import PodFacts
from holdfast.columns.ports import PortIndex

_MOST_COUNTERS = 1024
_NOBODY: Mapping[str, PodFacts] = {}


@dataclass(slots=True, eq=False)
class Standing:
    """One pod on one row."""

    facts: PodFacts
    row: int
    kind: Kind
    assumed: bool


class Roster:
    """Pods by uid and by row."""

    __slots__ = ("_capacity", "_counters", "_of_row", "by_uid", "kinds", "ports", "priorities")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._counters: dict[tuple[str, Selector], SelectorCount] = {}
        self._of_row: dict[int, dict[str, PodFacts]] = {}
        self.by_uid: dict[str, Standing] = {}
        self.kinds = Kinds()
        self.ports = PortIndex()
        self.priorities: dict[int, int] = {}
        """How many pods have each priority there is."""

    def on(self, row: int) -> Mapping[str, PodFacts]:
        """Pods on the row, by uid."""
        return self._of_row.get(row, _NOBODY)

    def kind_of(self, facts: PodFacts) -> Kind:
        """The kind of a pod, standing or not."""
        return self.kinds.of(facts.namespace, facts.labels, self._counters.values())

    def enter(self, facts: PodFacts, row: int, *, assumed: bool) -> None:
        """Put a pod on the row; it must stand nowhere."""
        kind = self.kind_of(facts)
        uid = facts.uid
        self.by_uid[uid] = Standing(facts, row, kind, assumed)
        there = self._of_row.get(row)
        if there is None:
            there = self._of_row[row] = {}
        there[uid] = facts
        kind.rows[uid] = row
        self.priorities[facts.priority] = self.priorities.get(facts.priority, 0) + 1
        if facts.host_ports:
            self.ports.add(row, facts.host_ports)
        for counter in kind.counters:
            counter.move(row, 1, live=not facts.terminating)

    def leave(self, uid: str) -> Standing:
        """Take a pod off its row."""
        standing = self.by_uid.pop(uid)
        facts, row = standing.facts, standing.row
        there = self._of_row[row]
        del there[uid]
        if not there:
            del self._of_row[row]
        del standing.kind.rows[uid]
        self.priorities[facts.priority] -= 1
        if not self.priorities[facts.priority]:
            del self.priorities[facts.priority]
        if facts.host_ports:
            self.ports.remove(row, facts.host_ports)
        for counter in standing.kind.counters:
            counter.move(row, -1, live=not facts.terminating)
        return standing

    def confirm(self, standing: Standing, facts: PodFacts) -> None:
        """Replace a pod's facts by newer ones that weigh the same."""
        standing.facts = facts
        standing.assumed = False
        self._of_row[standing.row][facts.uid] = facts

    def show(self, keys: frozenset[str]) -> bool:
        """Make label keys visible; tell whether that gave pods new kinds.

        No counter moves: those that exist never looked at the new keys.
        """
        if not self.kinds.show(keys):
            return False
        for uid, standing in self.by_uid.items():
            standing.kind = self.kind_of(standing.facts)
            standing.kind.rows[uid] = standing.row
        return True

    def counter(self, namespace: str, selector: Selector) -> tuple[SelectorCount, bool]:
        """The counter of a selector, and whether an old one was dropped for it.

        The keys of the selector must be visible already.
        """
        key = (namespace, selector)
        found = self._counters.pop(key, None)
        dropped = False
        if found is None:
            if len(self._counters) >= _MOST_COUNTERS:
                self._drop(next(iter(self._counters)))
                dropped = True
            found = self._count(namespace, selector)
        self._counters[key] = found
        return found, dropped

    def _count(self, namespace: str, selector: Selector) -> SelectorCount:
        counter = SelectorCount(namespace, selector, self._capacity)
        for kind in self.kinds:
            if counter.selects(kind.namespace, kind.labels):
                kind.counters.append(counter)
                for uid, row in kind.rows.items():
                    counter.move(row, 1, live=not self.by_uid[uid].facts.terminating)
        return counter

    def _drop(self, key: tuple[str, Selector]) -> None:
        counter = self._counters.pop(key)
        for kind in self.kinds:
            if counter in kind.counters:
                kind.counters.remove(counter)

    def grow(self, capacity: int) -> None:
        """Make room for more rows; counters are made anew when next asked for."""
        self._capacity = capacity
        self._counters = {}
        for kind in self.kinds:
            kind.counters = []

    def fork(self) -> Roster:
        """An independent copy; counters are made anew when next asked for."""
        copy = Roster(self._capacity)
        copy.kinds.show(self.kinds.keys)
        copy.ports = self.ports.fork()
        copy.priorities = dict(self.priorities)
        for uid, old in self.by_uid.items():
            kind = copy.kind_of(old.facts)
            kind.rows[uid] = old.row
            copy.by_uid[uid] = Standing(old.facts, old.row, kind, old.assumed)
        copy._of_row = {row: dict(pods) for row, pods in self._of_row.items()}
        return copy
