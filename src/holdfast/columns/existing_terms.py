"""The affinity terms of existing pods, counted per row and topology domain.

Pods of a Deployment have equal terms, so each distinct term is stored once with the number of its
pods. Which terms match a pod depends only on its label group and is cached per group.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.columns.cells import cells
from holdfast.columns.counters import DomainCount
from holdfast.columns.journal import Journal
from holdfast.columns.node_labels import NodeLabels

_MAX_IDLE = 4096
_MAX_GROUPS = 16384


class TermRole(Enum):
    """Which of a pod's lists of terms a term comes from."""

    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    REQUIRED_AFFINITY = "required affinity"
    PREFERRED = "preferred"


class ExistingTerm:
    """One distinct term; ``rows`` and ``domains`` count the pods that have it."""

    __slots__ = ("_at", "domains", "pod_count", "role", "rows", "term")

    def __init__(
        self,
        role: TermRole,
        term: AffinityTerm,
        capacity: int,
        labels: NodeLabels,
        journal: Journal,
    ) -> None:
        self.role = role
        self.term = term
        self.pod_count = 0
        self._lay_out(np.zeros(capacity, np.int32), labels, journal)

    def _lay_out(self, rows: NDArray[np.int32], labels: NodeLabels, journal: Journal) -> None:
        self.rows = rows
        self._at = cells(rows)
        self.domains = DomainCount(rows, labels.column(self.term.topology_key), None, journal)

    def move(self, row: int, by: int) -> None:
        """Add (+1) or remove (-1) a pod with this term."""
        self.pod_count += by
        self._at[row] += by
        self.domains.move(row, by)

    def copy(self, capacity: int, labels: NodeLabels, journal: Journal) -> ExistingTerm:
        """Return a copy over other labels or with more rows."""
        made = ExistingTerm(self.role, self.term, capacity, labels, journal)
        made.pod_count = self.pod_count
        made.rows[: len(self.rows)] = self.rows
        return made


class ExistingTerms:
    """All terms of existing pods; ``version`` moves when a term gets or loses its last pod."""

    def __init__(self, labels: NodeLabels, journal: Journal, capacity: int) -> None:
        self._labels = labels
        self._journal = journal
        self._capacity = capacity
        self._of: dict[tuple[TermRole, AffinityTerm], ExistingTerm] = {}
        self._in_order: list[ExistingTerm] = []
        self._sets: dict[AffinityTerms, tuple[ExistingTerm, ...]] = {}
        self._matched: dict[int, tuple[int, list[ExistingTerm]]] = {}
        self.version = 0
        self.idle = 0
        """The number of terms without pods; they are kept in case such a pod returns."""

    def add(self, terms: AffinityTerms, row: int) -> None:
        """Count the terms of a pod that was added to the row."""
        for existing in self._set(terms):
            if not existing.pod_count:
                self.idle -= 1
                self.version += 1
            existing.move(row, 1)

    def remove(self, terms: AffinityTerms, row: int) -> None:
        """Stop counting the terms of a pod that was removed from the row."""
        for existing in self._set(terms):
            existing.move(row, -1)
            if not existing.pod_count:
                self.idle += 1
                self.version += 1
        if self.idle > _MAX_IDLE:
            self._drop_idle()

    def matching(
        self, group: int, namespace: str, namespace_labels: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> tuple[ExistingTerm, ...]:  # fmt: skip
        """Return the terms that match pods of a label group; only new terms are compared."""
        seen, found = self._matched.get(group, (0, []))
        if seen < len(self._in_order):
            for existing in self._in_order[seen:]:
                if existing.term.pod_selector.matches(namespace, namespace_labels, labels):
                    found.append(existing)
            if len(self._matched) >= _MAX_GROUPS:
                self._matched.clear()
            self._matched[group] = (len(self._in_order), found)
        return tuple([existing for existing in found if existing.pod_count])

    def namespaces_changed(self) -> None:
        """Drop cached matches: terms may select namespaces by label."""
        self._matched.clear()

    def _set(self, terms: AffinityTerms) -> tuple[ExistingTerm, ...]:
        found = self._sets.get(terms)
        if found is None:
            if len(self._sets) >= _MAX_GROUPS:
                self._sets.clear()
            found = self._sets[terms] = tuple(
                self._intern(role, term)
                for role, group in (
                    (TermRole.REQUIRED_ANTI_AFFINITY, terms.required_anti_affinity),
                    (TermRole.REQUIRED_AFFINITY, terms.required_affinity),
                    (TermRole.PREFERRED, terms.preferred),
                )
                for term in group
            )
        return found

    def _intern(self, role: TermRole, term: AffinityTerm) -> ExistingTerm:
        existing = self._of.get((role, term))
        if existing is None:
            existing = ExistingTerm(role, term, self._capacity, self._labels, self._journal)
            self._of[role, term] = existing
            self._in_order.append(existing)
            self.idle += 1
        return existing

    def _drop_idle(self) -> None:
        self._replace_all([existing for existing in self._in_order if existing.pod_count])

    def _replace_all(self, terms: list[ExistingTerm]) -> None:
        self._in_order = terms
        self._of = {(existing.role, existing.term): existing for existing in terms}
        self._sets.clear()
        self._matched.clear()
        self.idle = sum(not existing.pod_count for existing in terms)

    def grow(self, capacity: int) -> None:
        """Make space for more rows."""
        self._capacity = capacity
        self._replace_all([e.copy(capacity, self._labels, self._journal) for e in self._in_order])

    def fork(self, labels: NodeLabels, journal: Journal) -> ExistingTerms:
        """Return an independent copy over forked labels."""
        copy = ExistingTerms(labels, journal, self._capacity)
        existing = [e for e in self._in_order if e.pod_count]
        copy._replace_all([e.copy(self._capacity, labels, journal) for e in existing])
        copy.version = self.version
        return copy
