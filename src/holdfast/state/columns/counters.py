"""Counters of the pods that match a selector, per row and per topology domain.

A counter belongs to what it counts (namespaces and selector, and below that topology key and
eligible nodes) and is shared by all classes of pods that use it. With one counter for each class,
every placement would pay for all classes. Adding or removing a pod changes one cell of a counter.
``PodSum`` adds up amounts of the same pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.affinity_terms import PodSelector
from holdfast.state.columns.cells import cells
from holdfast.state.columns.journal import Journal
from holdfast.state.columns.node_labels import LabelColumn
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.row_buckets import RowBuckets

PodSelectors = tuple[PodSelector, ...]
Eligible = Callable[[], NDArray[np.bool_]]
"""Returns which rows count; called again when a node's labels, taints or flags change."""
Measure = Callable[[PodInfo], tuple[int, ...]]
"""Returns what a pod adds to each sum; depends on nothing but this version of the pod."""
OfClaims = Callable[[PodInfo], dict[str, tuple[int, ...]]]
"""Returns what each claim of a pod adds to the sums, by its name; pods may share a claim."""


class DomainCount:
    """Matching pods per domain of one topology key, on eligible rows only.

    ``counts[v]`` counts pods on nodes whose label has value id v. ``padded`` is ``counts`` with a 0
    at the end, which rows without the label (id -1) read. ``present`` tells which domains have an
    eligible node; None means all. ``seen`` is the position in the node journal at the last recount;
    ``eligible`` are the rows that counted then; ``per_row`` has the counts per row. Without an
    eligibility every row with the label counts.
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
        """Recount if a node changed since; pods are counted when they are added."""
        if self.seen == self._journal.seq:
            return
        self.seen = self._journal.seq
        mask = self.label.ids >= 0
        if self._eligible is not None:
            mask &= self._eligible()
        ids, size = self.label.ids[mask], len(self.label.values)
        # Floats are exact for pod counts, and multiplying them by weights is three times as fast.
        self.padded = np.bincount(ids, self.per_row[mask], size + 1).astype(np.float64)
        self.counts = self.padded[:-1]
        present = np.bincount(ids, minlength=size) > 0
        self.present = None if present.all() else present
        self._total = int(self.counts.sum())
        self.eligible, self._eligible_at = mask, cells(mask)
        self._counts_at = cells(self.padded)

    def move(self, row: int, by: int) -> None:
        """Add (+1) or remove (-1) a matching pod."""
        if self.seen == self._journal.seq and self._eligible_at[row]:
            self._counts_at[self.label.at[row]] += by
            self._total += by

    @property
    def total(self) -> int:
        """Matching pods in all domains."""
        return self._total

    def at(self, row: int) -> int:
        """Return the matching pods in the row's domain, 0 without the label. Refresh first."""
        return int(self._counts_at[self.label.at[row]])


class PodSum:
    """Sums of amounts over the pods of a counter: ``values[i, row]``."""

    __slots__ = ("_cells", "measure", "values")

    def __init__(self, measure: Measure, width: int, capacity: int) -> None:
        self.measure = measure
        self.values: NDArray[np.int64] = np.zeros((width, capacity), np.int64)
        self._cells = [cells(of_row) for of_row in self.values]

    def move(self, pod_info: PodInfo, row: int, by: int) -> None:
        """Add (+1) or remove (-1) a pod."""
        self._add(self.measure(pod_info), row, by)

    def _add(self, amounts: tuple[int, ...], row: int, by: int) -> None:
        for column, amount in zip(self._cells, amounts, strict=True):
            if amount:
                column[row] += by * amount

    def replace(self, old: PodInfo, new: PodInfo, row: int) -> bool:
        """Replace a pod by another version of it; return whether a sum changed."""
        if self._adds_the_same(old, new):
            return False
        self.move(old, row, -1)
        self.move(new, row, 1)
        return True

    def _adds_the_same(self, old: PodInfo, new: PodInfo) -> bool:
        return self.measure(old) == self.measure(new)

    def measure_all(self, pod_info: PodInfo, gone: Collection[str] = ()) -> tuple[int, ...]:
        """Return what a pod adds with its claims, or would without the pods ``gone`` (uids)."""
        return self.measure(pod_info)


class ClaimingPodSum(PodSum):
    """Sums in which a claim counts once, on the row of the first of its pods.

    What a pod has added is remembered: its claims may be unknown again when it is removed.
    """

    __slots__ = ("_added", "_journal", "_of_claims", "_users")

    def __init__(
        self, measure: Measure, width: int, capacity: int, of_claims: OfClaims, journal: Journal
    ) -> None:
        super().__init__(measure, width, capacity)
        self._of_claims = of_claims
        self._journal = journal
        self._added: dict[str, tuple[tuple[int, ...], dict[str, tuple[int, ...]]]] = {}
        self._users: dict[str, dict[str, int]] = {}
        """The rows of the pods that use a claim, by uid; the first one's row has its amounts."""

    def move(self, pod_info: PodInfo, row: int, by: int) -> None:
        """Add (+1) or remove (-1) a pod."""
        if by > 0:
            own, claims = self.measure(pod_info), self._of_claims(pod_info)
            self._added[pod_info.uid] = own, claims
        else:
            own, claims = self._added.pop(pod_info.uid)
        self._add(own, row, by)
        for name, amounts in claims.items():
            users = self._users.setdefault(name, {})
            if by > 0:
                users[pod_info.uid] = row
            if next(iter(users)) == pod_info.uid:
                self._add(amounts, row, by)
            if by < 0:
                self._leave(name, pod_info.uid, amounts)

    def _leave(self, name: str, uid: str, amounts: tuple[int, ...]) -> None:
        """Remove a user of a claim; if it was the first one, the next counts."""
        users = self._users[name]
        was_first = next(iter(users)) == uid
        del users[uid]
        if not users:
            del self._users[name]
        elif was_first:
            row = next(iter(users.values()))
            self._add(amounts, row, 1)
            self._journal.log(row)

    def _adds_the_same(self, old: PodInfo, new: PodInfo) -> bool:
        return self._added.get(old.uid) == (self.measure(new), self._of_claims(new))

    def measure_all(self, pod_info: PodInfo, gone: Collection[str] = ()) -> tuple[int, ...]:
        """Return the same; a claim counts unless a pod that is not ``gone`` uses it too."""
        total = self.measure(pod_info)
        for name, amounts in self._of_claims(pod_info).items():
            if self._users.get(name, {}).keys() <= {pod_info.uid, *gone}:
                total = tuple([x + y for x, y in zip(total, amounts, strict=True)])
        return total


def selects(
    pod_selectors: PodSelectors,
    namespace: str,
    namespace_labels: Mapping[str, str],
    labels: Mapping[str, str],
) -> bool:
    """Return whether all selectors match pods with these labels in that namespace."""
    # Called for every pair of groups: `all` takes twice as long.
    for selector in pod_selectors:  # noqa: SIM110
        if not selector.matches(namespace, namespace_labels, labels):
            return False
    return True


class SelectorCount:
    """The number of pods on each row that match all ``pod_selectors``.

    ``live`` leaves out terminating pods. Reserve pods are counted unless ``real`` is set. ``sums``
    are sums over the same pods, by their keys.
    """

    __slots__ = ("_all_at", "_all_domains", "_buckets", "_live_at", "_live_domains", "all",
                 "live", "pod_selectors", "real", "sums")  # fmt: skip

    def __init__(self, pod_selectors: PodSelectors, capacity: int, *, real: bool = False) -> None:
        self.pod_selectors = pod_selectors
        self.real = real
        self.all: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.live: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._all_at = cells(self.all)
        self._live_at = cells(self.live)
        self._all_domains: dict[tuple[str, Hashable], DomainCount] = {}
        self._live_domains: dict[tuple[str, Hashable], DomainCount] = {}
        self._buckets: dict[LabelColumn, RowBuckets] = {}
        self.sums: dict[Hashable, PodSum] = {}

    @property
    def by_namespace_labels(self) -> bool:
        """Whether the labels of namespaces decide which pods are counted."""
        return any(
            pod_selector.namespace_selector.requirements for pod_selector in self.pod_selectors
        )

    def selects(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Return whether pods with these labels in that namespace are counted."""
        return selects(self.pod_selectors, namespace, namespace_labels, labels)

    def move(self, row: int, by: int, *, live: bool) -> None:
        """Add (+1) or remove (-1) a matching pod; ``live`` if it is not terminating."""
        self._all_at[row] += by
        for domain in self._all_domains.values():
            domain.move(row, by)
        if live:
            before = self._live_at[row]
            self._live_at[row] = before + by
            for domain in self._live_domains.values():
                domain.move(row, by)
            for buckets in self._buckets.values():
                buckets.move(row, before, before + by)

    def add_pods(self, rows: Sequence[int], live: Sequence[int]) -> None:
        """Count pods by their rows, before anything was derived; ``live`` do not terminate."""
        for counted, of_pods in ((self.all, rows), (self.live, live)):
            more = np.bincount(np.array(of_pods, np.intp), minlength=len(counted))
            np.add(counted, more, out=counted, casting="same_kind")

    def move_sums(self, pod_info: PodInfo, row: int, by: int) -> None:
        """Add (+1) a matching pod to the sums, or remove it (-1)."""
        for total in self.sums.values():
            total.move(pod_info, row, by)

    def by_domain(
        self, key: str, eligibility: Hashable, label: LabelColumn, eligible: Eligible | None,
        journal: Journal, *, live: bool = True,
    ) -> DomainCount:  # fmt: skip
        """Return the refreshed counts per value of ``key`` over eligible rows."""
        domains = self._live_domains if live else self._all_domains
        domain_count = domains.get((key, eligibility))
        if domain_count is None:
            domain_count = DomainCount(self.live if live else self.all, label, eligible, journal)
            domains[key, eligibility] = domain_count
        domain_count.refresh()
        return domain_count

    def buckets(self, label: LabelColumn, journal: Journal) -> RowBuckets:
        """Return rows grouped by the label's value and their number of live pods."""
        buckets = self._buckets.get(label)
        if buckets is None:
            buckets = self._buckets[label] = RowBuckets(self.live, label, journal)
        return buckets
