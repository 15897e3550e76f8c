"""The cluster as some pods see it: without the reserve pods whose room is theirs.

A reservation keeps, besides amounts, what a pod keeps: its reserve pod is counted by selectors,
holds affinity terms, ports and volumes. For its owners it is not there. What they see is what is
counted for everybody less a sparse correction, which is worked out again only when the reserve
pods they do not see, or nodes, changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.columns.counters import DomainCount, Eligible, SelectorCount
from holdfast.columns.existing_terms import ExistingTerm, TermRole
from holdfast.columns.interner import Interner
from holdfast.columns.journal import Journal
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo

_MANY = 256
Laden = Mapping[int, tuple[PodInfo, ...]]


class Look(NamedTuple):
    """What can be seen of a reserve pod besides where it is; most look alike."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    affinity_terms: AffinityTerms
    terminating: bool

    @classmethod
    def of(cls, pod_info: PodInfo) -> Look:
        """The look of a reserve pod."""
        labels = tuple(sorted(pod_info.labels.items()))
        return cls(pod_info.namespace, labels, pod_info.affinity_terms, pod_info.terminating)


Looks = Interner[Look]


class Unseen:
    """The reserve pods that one sort of pods does not see.

    ``rows`` and ``looks`` (ids in the table of looks) have one entry a reserve pod; ``laden`` are
    those with ports or volumes, by row. It stays the same object while its content changes;
    ``version`` tells when.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.version = 0
        self.rows: Rows = np.zeros(0, np.intp)
        self.laden: Laden = {}
        self._looks: NDArray[np.int32] = np.zeros(0, np.int32)
        self._table = Looks()
        self._counts: dict[SelectorCount, SeenCount] = {}
        self._terms: dict[ExistingTerm, SeenTerm] = {}

    def update(self, rows: Rows, looks: NDArray[np.int32], table: Looks, laden: Laden) -> None:
        """Take in which reserve pods these are now."""
        self.rows, self._looks, self._table, self.laden = rows, looks, table, laden
        self.version += 1

    @property
    def mark(self) -> tuple[int, int]:
        """What a correction depends on: who they are, and the labels of namespaces."""
        return self.version, self.nodes.epochs["namespaces"]

    def count(self, counter: SelectorCount) -> SeenCount:
        """See a counter without them."""
        found = self._counts.get(counter)
        if found is None:
            if len(self._counts) >= _MANY:
                self._counts.clear()
            found = self._counts[counter] = SeenCount(counter, self)
        return found

    def term(self, held: ExistingTerm) -> SeenTerm:
        """See the holders of a term without them."""
        found = self._terms.get(held)
        if found is None:
            if len(self._terms) >= _MANY:
                self._terms.clear()
            found = self._terms[held] = SeenTerm(held, self)
        return found

    def found(self, times: Callable[[Look], int]) -> Rows:
        """Rows of those of whom ``times`` says more than 0, as often as it says."""
        if not len(self._looks):
            return self.rows
        there, which = np.unique(self._looks, return_inverse=True)
        each = np.array([times(self._table[int(look)]) for look in there], np.intp)
        rows: Rows = np.repeat(self.rows, each[which])
        return rows


class SeenDomains:
    """Pods per domain less those unseen; has the face of ``DomainCount``."""

    __slots__ = ("_base", "_less", "_mark", "_times", "_unseen", "label")

    def __init__(self, base: DomainCount, unseen: Unseen, times: Callable[[Look], int]) -> None:
        self._base = base
        self._unseen = unseen
        self._times = times
        self._mark: tuple[int, ...] = ()
        self._less: NDArray[np.float64] | None = None
        self.label = base.label

    def refresh(self) -> None:
        """Bring counts and correction up to date."""
        self._base.refresh()
        mark = (*self._unseen.mark, self._base.seen)
        if self._mark == mark:
            return
        self._mark = mark
        rows = self._unseen.found(self._times)
        ids = self.label.ids[rows[self._base.eligible[rows]]]
        size = len(self._base.padded)
        self._less = np.bincount(ids, minlength=size).astype(np.float64) if len(ids) else None

    @property
    def padded(self) -> NDArray[np.float64]:
        """Counts per domain, and a 0 at the end for rows without the label."""
        return self._base.padded if self._less is None else self._base.padded - self._less

    @property
    def counts(self) -> NDArray[np.float64]:
        """Counts per domain."""
        return self.padded[:-1]

    @property
    def per_row(self) -> NDArray[np.int32]:
        """Pods per row, the unseen among them: where this is 0 there is nobody to be counted."""
        return self._base.per_row

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """Which domains have an eligible node; None means all of them."""
        return self._base.present

    @property
    def total(self) -> int:
        """Pods in any domain."""
        less = 0 if self._less is None else int(self._less.sum())
        return self._base.total - less

    def at(self, row: int) -> int:
        """Pods in the row's domain; 0 if the row has none."""
        less = 0 if self._less is None else int(self._less[self.label.at[row]])
        return self._base.at(row) - less


class SeenCount:
    """A counter less those unseen; has the face of ``SelectorCount``."""

    def __init__(self, base: SelectorCount, unseen: Unseen) -> None:
        self._base = base
        self._unseen = unseen
        self._domains: dict[DomainCount, SeenDomains] = {}
        self._mark: tuple[int, ...] = ()
        self._less: NDArray[np.int32] | None = None

    @property
    def live(self) -> NDArray[np.int32]:
        """Pods per row, without those on their way out."""
        if self._mark != self._unseen.mark:
            self._mark = self._unseen.mark
            rows = self._unseen.found(self._counted_alive)
            size = len(self._base.live)
            self._less = np.bincount(rows, minlength=size).astype(np.int32) if len(rows) else None
        return self._base.live if self._less is None else self._base.live - self._less

    def by_domain(
        self, key: str, eligibility: Hashable, label: LabelColumn, eligible: Eligible | None,
        journal: Journal, *, live: bool = True,
    ) -> SeenDomains:  # fmt: skip
        """The counts per value of ``key`` over rows that ``eligible`` admits, up to date."""
        base = self._base.by_domain(key, eligibility, label, eligible, journal, live=live)
        found = self._domains.get(base)
        if found is None:
            times = self._counted_alive if live else self._counted
            found = self._domains[base] = SeenDomains(base, self._unseen, times)
        found.refresh()
        return found

    def _counted(self, look: Look) -> int:
        its = self._unseen.nodes.namespaces.get(look.namespace, {})
        return int(self._base.selects(look.namespace, its, dict(look.labels)))

    def _counted_alive(self, look: Look) -> int:
        return 0 if look.terminating else self._counted(look)


class SeenTerm:
    """A held term less those unseen; has the face of ``ExistingTerm``."""

    def __init__(self, base: ExistingTerm, unseen: Unseen) -> None:
        self.role = base.role
        self.term = base.term
        self.domains = SeenDomains(base.domains, unseen, self._held_by)

    def _held_by(self, look: Look) -> int:
        return _terms(look.affinity_terms, self.role).count(self.term)


def _terms(terms: AffinityTerms, role: TermRole) -> tuple[AffinityTerm, ...]:
    if role is TermRole.REQUIRED_ANTI_AFFINITY:
        return terms.required_anti_affinity
    return terms.required_affinity if role is TermRole.REQUIRED_AFFINITY else terms.preferred


AnyDomains = DomainCount | SeenDomains
AnyCount = SelectorCount | SeenCount
AnyTerm = ExistingTerm | SeenTerm


def laden_on(unseen: Unseen | None, row: int) -> Sequence[PodInfo]:
    """The reserve pods with ports or volumes on a row that a pod does not see."""
    return () if unseen is None else unseen.laden.get(row, ())
