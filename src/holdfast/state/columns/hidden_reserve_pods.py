"""The counts of the node table without the reserve pods of a pod's own reservations.

A reserve pod is counted by selectors and has affinity terms, ports and volumes like a pod, but for
the owners of its reservation it must not exist. The owners' counts are the common ones minus a
sparse correction, which is computed again only when the hidden reserve pods, or nodes, change.

Two other ways were considered (decision 0007). With counters for each class of owners, each
placement would update all of them. With a hypothetical change that removes the reserve pods, no
results would be cached. A correction costs one ``bincount``, also for 5,000 reserve pods, because
those of one shape (labels and terms) are matched once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.state.columns.counters import DomainCount, Eligible, SelectorCount
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.existing_terms import ExistingTerm, TermRole
from holdfast.state.columns.interner import Interner
from holdfast.state.columns.journal import Journal
from holdfast.state.columns.node_labels import LabelColumn
from holdfast.state.columns.node_rows import Rows
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

_MANY = 256
PodsByRow = Mapping[int, tuple[PodInfo, ...]]


class ReservePodShape(NamedTuple):
    """The data of a reserve pod that selectors and affinity terms read; many pods have the same."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    affinity_terms: AffinityTerms
    terminating: bool

    @classmethod
    def of(cls, pod_info: PodInfo) -> ReservePodShape:
        """Return the shape of a reserve pod."""
        labels = tuple(sorted(pod_info.labels.items()))
        return cls(pod_info.namespace, labels, pod_info.affinity_terms, pod_info.terminating)


ReservePodShapes = Interner[ReservePodShape]


class HiddenReservePods:
    """The reserve pods that are hidden from one set of pods.

    ``rows`` and ``shapes`` (ids in the table of shapes) have one entry for each reserve pod;
    ``with_ports_or_volumes`` are those that have any, by row. The object stays the same when its
    content changes; then ``version`` moves.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.version = 0
        self.rows: Rows = np.zeros(0, np.intp)
        self.with_ports_or_volumes: PodsByRow = {}
        self._looks: NDArray[np.int32] = np.zeros(0, np.int32)
        self._table = ReservePodShapes()
        self._counts: dict[SelectorCount, VisibleSelectorCount] = {}
        self._terms: dict[ExistingTerm, VisibleTerm] = {}

    def update(
        self,
        rows: Rows,
        looks: NDArray[np.int32],
        table: ReservePodShapes,
        with_ports_or_volumes: PodsByRow,
    ) -> None:
        """Replace the hidden reserve pods."""
        self.rows, self._looks, self._table, self.with_ports_or_volumes = (
            rows,
            looks,
            table,
            with_ports_or_volumes,
        )
        self.version += 1

    @property
    def mark(self) -> tuple[int, int]:
        """What a correction depends on: this version, and the labels of namespaces."""
        return self.version, self.nodes.epochs[Epoch.NAMESPACES]

    def count(self, counter: SelectorCount) -> VisibleSelectorCount:
        """Return a counter without the hidden reserve pods."""
        visible_count = self._counts.get(counter)
        if visible_count is None:
            if len(self._counts) >= _MANY:
                self._counts.clear()
            visible_count = self._counts[counter] = VisibleSelectorCount(counter, self)
        return visible_count

    def term(self, held: ExistingTerm) -> VisibleTerm:
        """Return an affinity term without the hidden reserve pods that have it."""
        visible_term = self._terms.get(held)
        if visible_term is None:
            if len(self._terms) >= _MANY:
                self._terms.clear()
            visible_term = self._terms[held] = VisibleTerm(held, self)
        return visible_term

    def found(self, times: Callable[[ReservePodShape], int]) -> Rows:
        """Return the rows of hidden reserve pods, each repeated as often as ``times`` says."""
        if not len(self._looks):
            return self.rows
        there, which = np.unique(self._looks, return_inverse=True)
        each = np.array([times(self._table[int(look)]) for look in there], np.intp)
        rows: Rows = np.repeat(self.rows, each[which])
        return rows


class VisibleDomainCount:
    """Pods per domain without the hidden ones; has the interface of ``DomainCount``."""

    __slots__ = ("_base", "_hidden_pods", "_less", "_mark", "_times", "label")

    def __init__(
        self,
        base: DomainCount,
        hidden_pods: HiddenReservePods,
        times: Callable[[ReservePodShape], int],
    ) -> None:
        self._base = base
        self._hidden_pods = hidden_pods
        self._times = times
        self._mark: tuple[int, ...] = ()
        self._less: NDArray[np.float64] | None = None
        self.label = base.label

    def refresh(self) -> None:
        """Bring counts and correction up to date."""
        self._base.refresh()
        mark = (*self._hidden_pods.mark, self._base.seen)
        if self._mark == mark:
            return
        self._mark = mark
        rows = self._hidden_pods.found(self._times)
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
        """Pods per row, hidden ones included: an upper bound, for which no array is computed.

        Where it is 0 there is nothing to count.
        """
        return self._base.per_row

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """Which domains have an eligible node; None means all of them."""
        return self._base.present

    @property
    def total(self) -> int:
        """Pods in all domains."""
        less = 0 if self._less is None else int(self._less.sum())
        return self._base.total - less

    def at(self, row: int) -> int:
        """Return the pods in the row's domain; 0 if the row has none."""
        less = 0 if self._less is None else int(self._less[self.label.at[row]])
        return self._base.at(row) - less


class VisibleSelectorCount:
    """A counter without the hidden pods; has the interface of ``SelectorCount``."""

    def __init__(self, base: SelectorCount, hidden_pods: HiddenReservePods) -> None:
        self._base = base
        self._hidden_pods = hidden_pods
        self._domains: dict[DomainCount, VisibleDomainCount] = {}
        self._mark: tuple[int, ...] = ()
        self._less: NDArray[np.int32] | None = None

    @property
    def live(self) -> NDArray[np.int32]:
        """Pods per row that are not terminating."""
        if self._mark != self._hidden_pods.mark:
            self._mark = self._hidden_pods.mark
            rows = self._hidden_pods.found(self._counted_alive)
            size = len(self._base.live)
            self._less = np.bincount(rows, minlength=size).astype(np.int32) if len(rows) else None
        return self._base.live if self._less is None else self._base.live - self._less

    def by_domain(
        self, key: str, eligibility: Hashable, label: LabelColumn, eligible: Eligible | None,
        journal: Journal, *, live: bool = True,
    ) -> VisibleDomainCount:  # fmt: skip
        """Return up-to-date counts for each value of ``key`` over rows that ``eligible`` admits."""
        base = self._base.by_domain(key, eligibility, label, eligible, journal, live=live)
        domain_count = self._domains.get(base)
        if domain_count is None:
            times = self._counted_alive if live else self._counted
            domain_count = self._domains[base] = VisibleDomainCount(base, self._hidden_pods, times)
        domain_count.refresh()
        return domain_count

    def _counted(self, look: ReservePodShape) -> int:
        its = self._hidden_pods.nodes.namespaces.get(look.namespace, {})
        return int(self._base.selects(look.namespace, its, dict(look.labels)))

    def _counted_alive(self, look: ReservePodShape) -> int:
        return 0 if look.terminating else self._counted(look)


class VisibleTerm:
    """An existing term without the hidden pods that have it; same interface as ``ExistingTerm``."""

    def __init__(self, base: ExistingTerm, hidden_pods: HiddenReservePods) -> None:
        self.role = base.role
        self.term = base.term
        self.domains = VisibleDomainCount(base.domains, hidden_pods, self._held_by)

    def _held_by(self, look: ReservePodShape) -> int:
        return _terms(look.affinity_terms, self.role).count(self.term)


def _terms(terms: AffinityTerms, role: TermRole) -> tuple[AffinityTerm, ...]:
    if role is TermRole.REQUIRED_ANTI_AFFINITY:
        return terms.required_anti_affinity
    return terms.required_affinity if role is TermRole.REQUIRED_AFFINITY else terms.preferred


AnyDomains = DomainCount | VisibleDomainCount
AnyCount = SelectorCount | VisibleSelectorCount
AnyTerm = ExistingTerm | VisibleTerm


def hidden_with_ports_or_volumes(
    hidden_pods: HiddenReservePods | None, row: int
) -> Sequence[PodInfo]:
    """Return the hidden reserve pods with ports or volumes on a row."""
    return () if hidden_pods is None else hidden_pods.with_ports_or_volumes.get(row, ())
