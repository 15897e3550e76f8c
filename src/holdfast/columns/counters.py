"""How many pods a selector finds on each row and in each topology domain.

Counters belong to what they count, (namespaces, selector) and below it (topology key,
eligibility), and are shared by every class of pods that asks: one set a class would make each
placement pay for all classes. A pod that comes or goes moves one cell a counter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector
from holdfast.columns.cells import cells
from holdfast.columns.journal import Journal
from holdfast.columns.node_labels import LabelColumn

Eligible = Callable[[], NDArray[np.bool_]]
"""Tells which rows count at all; asked again whenever a node's labels, taints or flags move."""


class DomainCount:
    """Matching live pods per domain of one topology key, over eligible rows only.

    ``counts[v]`` and ``nodes[v]`` are pods and eligible nodes whose label has value id v.
    """

    __slots__ = ("_counts_at", "_eligible", "_eligible_at", "_journal", "_label", "_live",
                 "_seen", "counts", "nodes")  # fmt: skip

    def __init__(
        self, live: NDArray[np.int32], label: LabelColumn, eligible: Eligible, journal: Journal
    ) -> None:
        self._live = live
        self._label = label
        self._eligible = eligible
        self._journal = journal
        self._seen = -1
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self.nodes: NDArray[np.int64] = np.zeros(0, np.int64)

    def refresh(self) -> None:
        """Count again from the rows if any node changed; pods are counted as they move."""
        if self._seen == self._journal.seq:
            return
        self._seen = self._journal.seq
        mask = self._eligible() & (self._label.ids >= 0)
        ids, size = self._label.ids[mask], len(self._label.values)
        # Weighted bincount answers in float64, exact for counts of pods.
        self.counts = np.bincount(ids, self._live[mask], size).astype(np.int64)
        self.nodes = np.bincount(ids, minlength=size)
        self._eligible_at = cells(mask)
        self._counts_at = cells(self.counts)

    def move(self, row: int, by: int) -> None:
        """Note that a live matching pod came to or left the row."""
        if self._seen == self._journal.seq and self._eligible_at[row]:
            self._counts_at[self._label.at[row]] += by

    def lowest(self) -> int:
        """The smallest count of a domain that has an eligible node; 0 without any."""
        present = self.counts[self.nodes > 0]
        return int(present.min()) if len(present) else 0

    def domains(self) -> int:
        """How many domains have an eligible node."""
        return int(np.count_nonzero(self.nodes))


class SelectorCount:
    """Pods found by a selector in one namespace, per row; ``live`` leaves out terminating ones."""

    __slots__ = ("_all_at", "_domains", "_live_at", "all", "live", "namespace", "selector")

    def __init__(self, namespace: str, selector: Selector, capacity: int) -> None:
        self.namespace = namespace
        self.selector = selector
        self.all: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.live: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._all_at = cells(self.all)
        self._live_at = cells(self.live)
        self._domains: dict[tuple[str, Hashable], DomainCount] = {}

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether pods with these labels in that namespace are counted."""
        return namespace == self.namespace and self.selector.matches(labels)

    def move(self, row: int, by: int, *, live: bool) -> None:
        """Note that a matching pod came to (+1) or left (-1) the row."""
        self._all_at[row] += by
        if live:
            self._live_at[row] += by
            for domain in self._domains.values():
                domain.move(row, by)

    def by_domain(
        self, key: str, eligibility: Hashable, label: LabelColumn, eligible: Eligible,
        journal: Journal,
    ) -> DomainCount:  # fmt: skip
        """The counts per value of ``key`` over rows that ``eligible`` admits, up to date."""
        found = self._domains.get((key, eligibility))
        if found is None:
            found = DomainCount(self.live, label, eligible, journal)
            self._domains[key, eligibility] = found
        found.refresh()
        return found
