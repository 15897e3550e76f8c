"""The plan: filter by required terms of the pod and of existing pods, score by preferred ones.

Everything is computed by topology domain and then looked up by row: a zone has thousands of rows
and one verdict. Verdicts of several terms with one topology key are merged before the look-up.
Verdicts of domains seldom change from pod to pod, so the engine keeps the array of rows that it got
last time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    Code,
    NodeFilter,
    NodeScorer,
    PodChange,
    PodLimits,
    PreemptionRules,
    RawScores,
    Rows,
    Skip,
    Verdicts,
)
from holdfast.scheduling.framework.preemption_rules import ALWAYS, NEVER, PodLimit
from holdfast.scheduling.plugins.inter_pod_affinity.terms import AffinityCount, matches_all
from holdfast.state.columns.affinity_terms import AffinityTerm, AffinityTerms
from holdfast.state.columns.counters import PodSelectors
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.hidden_reserve_pods import AnyDomains, AnyTerm
from holdfast.state.columns.node_labels import LabelColumn
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

_REASONS = ("", AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY)
_CODES = np.array([Code.PASS, Code.UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE], np.int8)
_UNRESOLVABLE = np.int8(Code.UNRESOLVABLE)

Ints = NDArray[np.int64]
WeightedDomains = tuple[int, AnyDomains]


@dataclass(frozen=True, slots=True)
class AffinityRules(NodeFilter, NodeScorer, PreemptionRules):
    """The requirements and preferences in the terms of a class of pods and of existing pods.

    ``affinity`` has one entry for each topology key, counting pods that match all required terms.
    ``matches_own_terms``: the pod matches its own terms, so the first such pod may go anywhere.
    ``existing_anti_affinity`` are existing pods' terms that match this pod. ``preferred`` are
    weighted counts by topology label.

    ``pod`` is only used to match the terms of pods in a PodChange. Their selector keys must be
    added before, because pods of a class may differ in other labels.
    """

    nodes: NodeTable
    affinity: tuple[AffinityCount, ...]
    matches_own_terms: bool
    anti_affinity: tuple[AffinityCount, ...]
    existing_anti_affinity: tuple[AnyTerm, ...]
    preferred: tuple[tuple[LabelColumn, tuple[WeightedDomains, ...]], ...]
    pod: PodInfo = field(compare=False)
    filters: bool
    scores: bool

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows without required pods as unresolvable, anti-affinity as unschedulable."""
        if change:
            numbers = range(rows.stop) if isinstance(rows, slice) else rows.tolist()
            return np.array([self.filter_row(row, change) for row in numbers], np.int8)
        verdicts: Verdicts | None = None
        for label, table in self._tables().items():
            label_verdicts = label.read_verdicts(table, rows)
            verdicts = label_verdicts if verdicts is None else np.maximum(verdicts, label_verdicts)
        if verdicts is None:
            verdicts = np.zeros(rows.stop if isinstance(rows, slice) else len(rows), np.int8)
        return verdicts

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the same for one row."""
        return int(_CODES[self._violation(row, change)])

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return which of the three rules is violated."""
        return (_REASONS[self._violation(row, change)],)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the rows per rule."""
        counts = np.bincount(self._violations(rows), minlength=len(_REASONS))
        return {_REASONS[i]: int(counts[i]) for i in range(1, len(_REASONS))}

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows with pods that a term matches, or whose terms match this pod."""
        mask = np.zeros(self.nodes.capacity, np.bool_)
        counted = [c.domains for c in (*self.affinity, *self.anti_affinity)]
        for domains in (*counted, *(term.domains for term in self.existing_anti_affinity)):
            mask |= domains.per_row > 0
        return mask

    def pod_limits(self) -> PodLimits:
        """Return limits for the pods to evict, and for those of which one must stay."""
        nodes = self.nodes
        limits = [no_pod_may_stay(nodes, counted) for counted in self.anti_affinity]
        limits += [no_pod_with_term_may_stay(term) for term in self.existing_anti_affinity]
        if not self.affinity:
            return PodLimits(tuple(limits), incomplete_for=ForbidsPod(self.is_matched_by))
        first = self._needs_no_pod(NO_CHANGE)
        limits += [one_pod_must_stay(nodes, counted, first=first) for counted in self.affinity]
        unknown = None
        if self.matches_own_terms and not first:
            # If all matching pods are on one row and are evicted, the pod needs none any more.
            unknown = np.logical_and.reduce(
                [c.domains.per_row >= c.in_any_domain(nodes, NO_CHANGE) for c in self.affinity]
            )
        return PodLimits(tuple(limits), unknown, incomplete_for=lambda _pod: True)

    def pre_score(self, feasible: AnyRows) -> Skip | None:
        """Skip scoring if no matching pod is in any domain."""
        for _, parts in self.preferred:
            for _, domains in parts:
                domains.refresh()
                if domains.total:
                    return None
        return Skip()

    def score(self, rows: AnyRows) -> RawScores:
        """Sum the weights of the preferred terms, the pod's and others', that the row fulfils."""
        total: RawScores | None = None
        for label, parts in self.preferred:
            sums: RawScores | None = None
            for weight, domains in parts:
                domains.refresh()
                part = domains.padded * weight
                sums = part if sums is None else np.add(sums, part, out=sums)
            assert sums is not None
            label_scores = label.read(sums, rows)
            total = label_scores if total is None else label_scores + total
        assert total is not None
        return total

    def normalize_by_range(self, raw: Any, low: float, high: float) -> Any:
        """Scale from the lowest to the highest; 0 for all if they are equal."""
        if high <= low:
            return raw * 0.0
        scaled = raw - low
        scaled /= high - low
        scaled *= 100.0
        return np.floor(scaled)

    def _tables(self) -> dict[LabelColumn, Verdicts]:
        """Return the verdict of each domain, by topology label.

        Where several terms use one label the larger code counts, and unresolvable is the largest.
        """
        tables: dict[LabelColumn, Verdicts] = {}
        for label, table in chain(self._anti_affinity_tables(), self._affinity_tables()):
            other = tables.get(label)
            tables[label] = table if other is None else np.maximum(other, table)
        return tables

    def _anti_affinity_tables(
        self, *, existing: bool = True
    ) -> Iterator[tuple[LabelColumn, Verdicts]]:
        """Yield the domains with pods that the pod's terms reject, or their own if ``existing``."""
        groups = [counted.domains for counted in self.anti_affinity]
        if existing:
            groups += [term.domains for term in self.existing_anti_affinity]
        for domains in groups:
            domains.refresh()
            if domains.total:
                yield domains.label, (domains.padded > 0).view(np.int8)  # True is UNSCHEDULABLE

    def _affinity_tables(self) -> Iterator[tuple[LabelColumn, Verdicts]]:
        """Yield where the label or a required pod is missing."""
        for counted in self.affinity:
            counted.domains.refresh()
        # Like ``_needs_no_pod`` without a change, but without calls, because it runs for every pod.
        first = self.matches_own_terms and not any([c.domains.total for c in self.affinity])
        for counted in self.affinity:
            domains = counted.domains
            missing = (domains.padded <= 0).view(np.int8)
            if first:
                missing[:] = 0
            missing[-1] = 1
            missing *= _UNRESOLVABLE
            yield domains.label, missing

    def _needs_no_pod(self, change: PodChange) -> bool:
        """Return whether the pod would be the first of those that its affinity requires."""
        return self.matches_own_terms and not any(
            counted.in_any_domain(self.nodes, change) > 0 for counted in self.affinity
        )

    def _violations(self, rows: AnyRows) -> NDArray[np.int8]:
        """Return the rule each row violates, an index of the reasons; the first one counts."""
        broken = np.where(self.filter(rows), np.int8(3), np.int8(0))
        for label, table in self._anti_affinity_tables(existing=False):
            broken[label.read(table, rows) > 0] = 2
        for label, table in self._affinity_tables():
            broken[label.read(table, rows) > 0] = 1
        return broken

    def _violation(self, row: int, change: PodChange) -> int:
        """Return the same for one row."""
        nodes = self.nodes
        if self.affinity and not self._affinity_holds_at(row, change):
            return 1
        if any(counted.in_domain_of(nodes, row, change) > 0 for counted in self.anti_affinity):
            return 2
        return 3 if self._violates_existing_at(row, change) else 0

    def _affinity_holds_at(self, row: int, change: PodChange) -> bool:
        nodes, affinity = self.nodes, self.affinity
        if any(counted.domains.label.at[row] < 0 for counted in affinity):
            return False
        if all(counted.in_domain_of(nodes, row, change) > 0 for counted in affinity):
            return True
        return self._needs_no_pod(change)

    def _violates_existing_at(self, row: int, change: PodChange) -> bool:
        """Return whether a pod in the row's domains has anti-affinity to this one.

        Terms of added pods count only if some other term does: upstream's PreFilter skips the
        plugin for a pod without terms if the terms of existing pods are in no domain.
        """
        any_counts = bool(self.affinity or self.anti_affinity)
        for existing in self.existing_anti_affinity:
            existing.domains.refresh()
            here = existing.domains.at(row)
            if here and here > _removed_by(existing, row, change):
                return True
            any_counts = any_counts or existing.domains.total > 0
        return any_counts and self._violated_by_added(row, change)

    def _violated_by_added(self, row: int, change: PodChange) -> bool:
        for other, pods in change.added.items():
            for pod in pods:
                for term in pod.affinity_terms.required_anti_affinity:
                    label = self.nodes.label_column(term.topology_key)
                    here = label.at[row]
                    if here >= 0 and here == label.at[other] and self.is_matched_by(term):
                        return True
        return False

    def is_matched_by(self, term: AffinityTerm) -> bool:
        """Return whether a term matches the pod."""
        return matches_all(self.nodes, (term.pod_selector,), self.pod)


def _removed_by(existing: AnyTerm, row: int, change: PodChange) -> int:
    """Return how many pods with the term a change removes from the row's domain."""
    label = existing.domains.label
    return sum(
        pod.affinity_terms.required_anti_affinity.count(existing.term)
        for other, pods in change.removed.items()
        if label.at[other] == label.at[row]
        for pod in pods
    )


def no_pod_may_stay(nodes: NodeTable, counted: AffinityCount) -> PodLimit:
    """Return the limit of an anti-affinity term: all pods that it matches must leave."""
    return PodLimit(
        ("anti_affinity", counted.pod_selectors),
        _without_pods(counted.domains),
        partial(_count, nodes, counted.pod_selectors, 1),
        nodes.epochs[Epoch.NAMESPACES],
        by_label_group=True,
    )


def no_pod_with_term_may_stay(existing: AnyTerm) -> PodLimit:
    """Return the limit of existing pods' anti-affinity term: all pods that have it must leave."""
    key = ("existing_anti_affinity", existing.term)
    return PodLimit(key, _without_pods(existing.domains), partial(_count_term, existing.term))


def one_pod_must_stay(nodes: NodeTable, counted: AffinityCount, *, first: bool) -> PodLimit:
    """Return the limit of affinity terms: a pod that they match must stay, unless ``first``."""
    return PodLimit(
        ("affinity", counted.pod_selectors),
        _with_pods(counted.domains, first=first),
        partial(_count, nodes, counted.pod_selectors, -1),
        nodes.epochs[Epoch.NAMESPACES],
        by_label_group=True,
        requires_pods=True,
    )


def _in_domain_of(domains: AnyDomains) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the matching pods in each row's domain, and which rows have no domain."""
    domains.refresh()
    ids = domains.label.ids
    counts: Ints = domains.padded[ids].astype(np.int64)
    return counts, ids < 0


def _without_pods(domains: AnyDomains) -> Ints:
    counts_around, no_domain = _in_domain_of(domains)
    left = -counts_around
    left[no_domain] = ALWAYS
    return left


def _with_pods(domains: AnyDomains, *, first: bool) -> Ints:
    counts_around, no_domain = _in_domain_of(domains)
    left = (
        np.full(len(counts_around), ALWAYS)
        if first
        else np.where(counts_around > 0, counts_around - 1, NEVER)
    )
    left[no_domain] = NEVER
    return left


def _count(nodes: NodeTable, pod_selectors: PodSelectors, amount: int, pod: PodInfo) -> int:
    return amount if matches_all(nodes, pod_selectors, pod) else 0


def _count_term(term: AffinityTerm, pod: PodInfo) -> int:
    return pod.affinity_terms.required_anti_affinity.count(term)


class ForbidsPod:
    """Tells whether a nominated pod's anti-affinity matches the preemptor; cached by terms."""

    def __init__(self, matches_preemptor: Callable[[AffinityTerm], bool]) -> None:
        self._matches = matches_preemptor
        self._known: dict[AffinityTerms, bool] = {}

    def __call__(self, pod: PodInfo) -> bool:
        """Return it for one pod."""
        if not pod.affinity_terms.required_anti_affinity:
            return False
        forbids = self._known.get(pod.affinity_terms)
        if forbids is None:
            forbids = any(map(self._matches, pod.affinity_terms.required_anti_affinity))
            self._known[pod.affinity_terms] = forbids
        return forbids
