"""How many pods a selector finds on each row and in each topology domain.

Counters belong to what they count, (namespaces, selector) and below it (topology key,
eligibility), and are shared by every class of pods that asks: one set a class would make each
placement pay for all classes. A pod that comes or goes moves one cell a counter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells
from holdfast.columns.journal import Journal
from holdfast.columns.levels import Levels
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.terms import PodChoice

Eligible = Callable[[], NDArray[np.bool_]]
"""Tells which rows count at all; asked again whenever a node's labels, taints or flags move."""


class DomainCount:
    """Matching pods per domain of one topology key, over eligible rows only.

    ``counts[v]`` are pods on eligible nodes whose label has value id v.
    ``padded`` is ``counts`` and a 0 at the end, which is what an absent label (-1) reads.
    ``present`` tells which domains have an eligible node, None means all of them.
    Without an eligibility every row with the label counts. ``seen`` is where the journal of nodes
    was when the rows were counted, ``eligible`` which of them were, ``per_row`` what is counted.
    """

    __slots__ = ("_counts_at", "_eligible", "_eligible_at", "_journal", "_total", "counts",
                 "eligible", "label", "padded", "per_row", "present", "seen")  # fmt: skip

    def __init__(
        self,
        per_row: NDArray[np.int32],
        label: LabelColumn,
        eligible: Eligible | None,
        journal: Journal,
    ) -> None:
        self.per_row = per_row
        self.label = label
        self._eligible = eligible
        self._journal = journal
        self.seen = -1
        self._total = 0
        self.padded: NDArray[np.float64] = np.zeros(1)
        self.counts: NDArray[np.float64] = self.padded[:-1]
        self.present: NDArray[np.bool_] | None = None
        self.eligible: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def refresh(self) -> None:
        """Count again from the rows if any node changed; pods are counted as they move."""
        if self.seen == self._journal.seq:
            return
        self.seen = self._journal.seq
        mask = self.label.ids >= 0
        if self._eligible is not None:
            mask &= self._eligible()
        ids, size = self.label.ids[mask], len(self.label.values)
        # Floats are exact for counts of pods, and a third of the price to weigh.
        self.padded = np.bincount(ids, self.per_row[mask], size + 1).astype(np.float64)
        self.counts = self.padded[:-1]
        present = np.bincount(ids, minlength=size) > 0
        self.present = None if present.all() else present
        self._total = int(self.counts.sum())
        self.eligible, self._eligible_at = mask, cells(mask)
        self._counts_at = cells(self.padded)

    def move(self, row: int, by: int) -> None:
        """Note that a matching pod came to or left the row."""
        if self.seen == self._journal.seq and self._eligible_at[row]:
            self._counts_at[self.label.at[row]] += by
            self._total += by

    @property
    def total(self) -> int:
        """Matching pods in any domain, as of the last refresh and the moves since."""
        return self._total

    def at(self, row: int) -> int:
        """Matching pods in the row's domain, refreshed; 0 if the row has none."""
        return int(self._counts_at[self.label.at[row]])


class SelectorCount:
    """Pods that every one of ``choices`` means, per row; ``live`` leaves out terminating ones.

    Reserve pods are counted too, unless ``real`` ones alone are.
    """

    __slots__ = ("_all_at", "_all_domains", "_levels", "_live_at", "_live_domains", "all",
                 "choices", "live", "real")  # fmt: skip

    def __init__(
        self, choices: tuple[PodChoice, ...], capacity: int, *, real: bool = False
    ) -> None:
        self.choices = choices
        self.real = real
        self.all: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.live: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._all_at = cells(self.all)
        self._live_at = cells(self.live)
        self._all_domains: dict[tuple[str, Hashable], DomainCount] = {}
        self._live_domains: dict[tuple[str, Hashable], DomainCount] = {}
        self._levels: dict[LabelColumn, Levels] = {}

    @property
    def by_namespace_labels(self) -> bool:
        """Whether labels of namespaces decide who is counted."""
        return any(choice.namespace_selector.requirements for choice in self.choices)

    def selects(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Tell whether pods with these labels in that namespace are counted."""
        return all(c.matches(namespace, namespace_labels, labels) for c in self.choices)

    def move(self, row: int, by: int, *, live: bool) -> None:
        """Note that a matching pod came to (+1) or left (-1) the row."""
        self._all_at[row] += by
        for domain in self._all_domains.values():
            domain.move(row, by)
        if live:
            before = self._live_at[row]
            self._live_at[row] = before + by
            for domain in self._live_domains.values():
                domain.move(row, by)
            for levels in self._levels.values():
                levels.move(row, before, before + by)

    def by_domain(
        self, key: str, eligibility: Hashable, label: LabelColumn, eligible: Eligible | None,
        journal: Journal, *, live: bool = True,
    ) -> DomainCount:  # fmt: skip
        """The counts per value of ``key`` over rows that ``eligible`` admits, up to date."""
        domains = self._live_domains if live else self._all_domains
        found = domains.get((key, eligibility))
        if found is None:
            found = DomainCount(self.live if live else self.all, label, eligible, journal)
            domains[key, eligibility] = found
        found.refresh()
        return found

    def levels(self, label: LabelColumn, journal: Journal) -> Levels:
        """Rows by the label's values and by how many of the pods, live ones, they have."""
        found = self._levels.get(label)
        if found is None:
            found = self._levels[label] = Levels(self.live, label, journal)
        return found
