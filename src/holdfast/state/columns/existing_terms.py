"""The affinity terms of existing pods, counted per row and topology domain.

Pods of a Deployment have equal terms, so each distinct term is stored once with the number of its
pods. Which terms match a pod depends only on its label group and is cached per group.

Tenants decide how many terms there are. While terms were compared in the scheduling cycle, a pod
with 64 of them stopped all other pods for half a second, with 20,000 pods on nodes. So terms are
added at the end of lists, each group remembers how many of a list it has been compared with, and
the rest is compared in steps before the cycle (decision 0020). Terms that name a few namespaces are
listed by namespace, so that they cost pods of other namespaces nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import NOTHING
from holdfast.state.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.state.columns.cells import cells
from holdfast.state.columns.counters import DomainCount
from holdfast.state.columns.journal import Journal
from holdfast.state.columns.node_labels import NodeLabels

_MAX_IDLE = 4096
_MAX_GROUPS = 16384
_TERMS_A_STEP = 512
_MOST_NAMES = 16
"""Terms with more namespaces are compared with pods of all namespaces."""


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


class _Matched:
    """The terms that match a label group, of those that were compared with it."""

    __slots__ = ("compared", "terms")

    def __init__(self) -> None:
        self.compared: dict[str, int] = {}
        """How many terms of each list in ``ExistingTerms._by_namespace``."""
        self.terms: list[ExistingTerm] = []


class ExistingTerms:
    """All terms of existing pods; ``version`` moves when a term gets or loses its last pod."""

    def __init__(self, labels: NodeLabels, journal: Journal, capacity: int) -> None:
        self._labels = labels
        self._journal = journal
        self._capacity = capacity
        self._of: dict[tuple[TermRole, AffinityTerm], ExistingTerm] = {}
        self._in_order: list[ExistingTerm] = []
        self._sets: dict[AffinityTerms, tuple[ExistingTerm, ...]] = {}
        self._by_namespace: dict[str, list[ExistingTerm]] = {}
        """The terms that name a namespace; "" has those that name many or select by labels."""
        self._matched: dict[int, _Matched] = {}
        self.version = 0
        self.idle = 0
        """The number of terms without pods; they are kept in case such a pod returns. Dropping one
        drops all that was compared, because the lists get shorter."""

    def __bool__(self) -> bool:
        return bool(self._in_order)

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
        while not self.match_few(group, namespace, namespace_labels, labels):
            pass
        known = self._matched.get(group)
        if known is None:
            return ()
        return tuple([existing for existing in known.terms if existing.pod_count])

    def match_few(
        self, group: int, namespace: str, namespace_labels: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> bool:  # fmt: skip
        """Compare some new terms with a label group; return whether none is left.

        Only terms that name its namespace or select namespaces are compared.
        """
        known = self._matched.get(group)
        left = _TERMS_A_STEP
        for name in ("", namespace):
            terms = self._by_namespace.get(name)
            if not terms:
                continue
            compared = 0 if known is None else known.compared.get(name, 0)
            if compared == len(terms):
                continue
            if known is None:
                if len(self._matched) >= _MAX_GROUPS:
                    self._matched.clear()
                known = self._matched[group] = _Matched()
            some = terms[compared : compared + left]
            known.terms += [
                existing
                for existing in some
                if existing.term.pod_selector.matches(namespace, namespace_labels, labels)
            ]
            known.compared[name] = compared + len(some)
            left -= len(some)
            if known.compared[name] < len(terms):
                return False
        return True

    def namespaces_changed(self) -> None:
        """Drop cached matches: terms may select namespaces by label."""
        self._matched.clear()

    def _set(self, terms: AffinityTerms) -> tuple[ExistingTerm, ...]:
        existing_terms = self._sets.get(terms)
        if existing_terms is None:
            if len(self._sets) >= _MAX_GROUPS:
                self._sets.clear()
            existing_terms = self._sets[terms] = tuple(
                self._intern(role, term)
                for role, group in (
                    (TermRole.REQUIRED_ANTI_AFFINITY, terms.required_anti_affinity),
                    (TermRole.REQUIRED_AFFINITY, terms.required_affinity),
                    (TermRole.PREFERRED, terms.preferred),
                )
                for term in group
            )
        return existing_terms

    def _intern(self, role: TermRole, term: AffinityTerm) -> ExistingTerm:
        existing = self._of.get((role, term))
        if existing is None:
            existing = ExistingTerm(role, term, self._capacity, self._labels, self._journal)
            self._of[role, term] = existing
            self._in_order.append(existing)
            self._index(existing)
            self.idle += 1
        return existing

    def _index(self, existing: ExistingTerm) -> None:
        selector = existing.term.pod_selector
        names, by_labels = selector.namespaces, selector.namespace_selector != NOTHING
        for name in ("",) if by_labels or len(names) > _MOST_NAMES else names:
            self._by_namespace.setdefault(name, []).append(existing)

    def _drop_idle(self) -> None:
        self._replace_all([existing for existing in self._in_order if existing.pod_count])

    def _replace_all(self, terms: list[ExistingTerm]) -> None:
        self._in_order = terms
        self._of = {(existing.role, existing.term): existing for existing in terms}
        self._by_namespace = {}
        for existing in terms:
            self._index(existing)
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
