"""Terms of pods that stand: whom they keep away, need or wish near, counted per domain.

Fifty pods of a Deployment hold one term fifty times, so each distinct term is kept once with the
number of its holders per row and per domain. Which held terms speak of a pod depends on its kind
alone and is remembered per kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells
from holdfast.columns.counters import DomainCount
from holdfast.columns.journal import Journal
from holdfast.columns.node_labels import NodeLabels
from holdfast.columns.terms import PodTerms, Term

_MOST_IDLE = 4096
_MOST_KINDS = 16384


class TermRole(Enum):
    """What holders want of the pods their term speaks of."""

    FORBIDS = "forbids"
    NEEDS = "needs"
    WISHES = "wishes"


class HeldTerm:
    """One distinct term with its holders per row; ``domains`` counts them per topology value."""

    __slots__ = ("_at", "domains", "holders", "role", "rows", "term")

    def __init__(
        self, role: TermRole, term: Term, capacity: int, labels: NodeLabels, journal: Journal
    ) -> None:
        self.role = role
        self.term = term
        self.holders = 0
        self._lay_out(np.zeros(capacity, np.int32), labels, journal)

    def _lay_out(self, rows: NDArray[np.int32], labels: NodeLabels, journal: Journal) -> None:
        self.rows = rows
        self._at = cells(rows)
        self.domains = DomainCount(rows, labels.column(self.term.key), None, journal)

    def move(self, row: int, by: int) -> None:
        """Note that a holder came to (+1) or left (-1) the row."""
        self.holders += by
        self._at[row] += by
        self.domains.move(row, by)

    def copy(self, capacity: int, labels: NodeLabels, journal: Journal) -> HeldTerm:
        """The same over other labels or more rows."""
        made = HeldTerm(self.role, self.term, capacity, labels, journal)
        made.holders = self.holders
        made.rows[: len(self.rows)] = self.rows
        return made


class HeldTerms:
    """All held terms; ``version`` moves when a term begins or ceases to be held."""

    def __init__(self, labels: NodeLabels, journal: Journal, capacity: int) -> None:
        self._labels = labels
        self._journal = journal
        self._capacity = capacity
        self._of: dict[tuple[TermRole, Term], HeldTerm] = {}
        self._in_order: list[HeldTerm] = []
        self._sets: dict[PodTerms, tuple[HeldTerm, ...]] = {}
        self._matched: dict[int, tuple[int, list[HeldTerm]]] = {}
        self.version = 0
        self.idle = 0
        """How many terms nobody holds any more; they are kept in case somebody does again."""

    def enter(self, terms: PodTerms, row: int) -> None:
        """A pod with these terms came to the row."""
        for held in self._set(terms):
            if not held.holders:
                self.idle -= 1
                self.version += 1
            held.move(row, 1)

    def leave(self, terms: PodTerms, row: int) -> None:
        """A pod with these terms left the row."""
        for held in self._set(terms):
            held.move(row, -1)
            if not held.holders:
                self.idle += 1
                self.version += 1
        if self.idle > _MOST_IDLE:
            self._forget_idle()

    def matching(
        self, kind: int, namespace: str, namespace_labels: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> tuple[HeldTerm, ...]:  # fmt: skip
        """Held terms that speak of pods of a kind; only terms new since last time are matched."""
        seen, found = self._matched.get(kind, (0, []))
        if seen < len(self._in_order):
            for held in self._in_order[seen:]:
                if held.term.choice.matches(namespace, namespace_labels, labels):
                    found.append(held)
            if len(self._matched) >= _MOST_KINDS:
                self._matched.clear()
            self._matched[kind] = (len(self._in_order), found)
        return tuple([held for held in found if held.holders])

    def namespaces_changed(self) -> None:
        """Forget who speaks of whom: terms may choose namespaces by label."""
        self._matched.clear()

    def _set(self, terms: PodTerms) -> tuple[HeldTerm, ...]:
        found = self._sets.get(terms)
        if found is None:
            if len(self._sets) >= _MOST_KINDS:
                self._sets.clear()
            found = self._sets[terms] = tuple(
                self._intern(role, term)
                for role, group in (
                    (TermRole.FORBIDS, terms.forbidden),
                    (TermRole.NEEDS, terms.required),
                    (TermRole.WISHES, terms.wishes),
                )
                for term in group
            )
        return found

    def _intern(self, role: TermRole, term: Term) -> HeldTerm:
        held = self._of.get((role, term))
        if held is None:
            held = HeldTerm(role, term, self._capacity, self._labels, self._journal)
            self._of[role, term] = held
            self._in_order.append(held)
            self.idle += 1
        return held

    def _forget_idle(self) -> None:
        self._adopt([held for held in self._in_order if held.holders])

    def _adopt(self, terms: list[HeldTerm]) -> None:
        self._in_order = terms
        self._of = {(held.role, held.term): held for held in terms}
        self._sets.clear()
        self._matched.clear()
        self.idle = sum(not held.holders for held in terms)

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        self._adopt([h.copy(capacity, self._labels, self._journal) for h in self._in_order])

    def fork(self, labels: NodeLabels, journal: Journal) -> HeldTerms:
        """An independent copy over forked labels."""
        copy = HeldTerms(labels, journal, self._capacity)
        held = [h for h in self._in_order if h.holders]
        copy._adopt([h.copy(self._capacity, labels, journal) for h in held])
        copy.version = self.version
        return copy
