"""The plugin: filter by required terms of the pod and of existing pods, score by preferred ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.field_errors import invalid
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.framework.former_contract import PreFilterState
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    PodLimits,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View
from holdfast.plugins.inter_pod_affinity.hints import event_helps
from holdfast.plugins.inter_pod_affinity.limits import limits_of
from holdfast.plugins.inter_pod_affinity.state import (
    AffinityCount,
    AffinityState,
    affinity_state,
    counted_selectors,
)

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

_REASONS = ("", AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY)
_CODES = np.array([Code.PASS, Code.UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE], np.int8)
_UNRESOLVABLE = np.int8(Code.UNRESOLVABLE)
_MAX_WEIGHT = 100


class _Args(PluginArgs, frozen=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class InterPodAffinity:
    """Place pods near to or away from other pods, as their terms say."""

    name: ClassVar[str] = "InterPodAffinity"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.DOMAIN,
        epochs=("counters", "existing_terms", "namespaces"),
        events_to_register={
            "Node": ("Add", "UpdateNodeLabel"),
            "AssignedPod": ("Add", "UpdatePodLabel", "Delete"),
            "UnschedulablePod": ("Add", "UpdatePodLabel", "Delete"),
        },
        ignores_requests=True,
        comparable_plans=True,
        accepts_slices=True,
        bounded_scores=True,
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        given = wrong.read(_Args, args)
        self._hard_weight = given.hard_pod_affinity_weight
        self._ignore = given.ignore_preferred_terms_of_existing_pods
        if not 0 <= self._hard_weight <= _MAX_WEIGHT:
            message = f"not in valid range [0, {_MAX_WEIGHT}]"
            wrong.append(invalid("hardPodAffinityWeight", self._hard_weight, message))
        wrong.refuse_if_wrong()

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the terms, and the label group if an existing pod's term matches; else None."""
        if (
            not pod.affinity_terms
            and not pod.affinity_terms.mistakes
            and not view.nodes.existing_terms_for(pod)
        ):
            return None
        return (view.nodes.label_group_of(pod).id, pod.affinity_terms, view.hidden_pods)

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None]:
        """Match new terms against all pods, those of existing pods too, in short steps."""
        nodes, terms = view.nodes, pod.affinity_terms
        if not terms and nodes.has_few_new_terms(pod):
            return iter(())
        return chain(
            nodes.count_in_steps(terms, pod.namespace, partial(counted_selectors, terms)),
            nodes.match_existing_terms_in_steps(pod),
        )

    def pre_filter(self, pod: PodInfo, view: View) -> Skip | Reject | PreFilterState:
        """Find the counters; skip a pod without terms that no existing term matches."""
        if pod.affinity_terms.mistakes:
            return Reject(Code.UNRESOLVABLE, (f"parsing pod: {pod.affinity_terms.mistakes}",))
        state = affinity_state(view, self._hard_weight, ignore_existing_preferred=self._ignore)
        if not state.filters and not state.preferred:
            return Skip()
        return PreFilterState(state, filters=state.filters, scores=bool(state.preferred))

    def filter(
        self, state: AffinityState, rows: AnyRows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Reject rows without required pods as unresolvable, anti-affinity as unschedulable."""
        if change:
            numbers = range(rows.stop) if isinstance(rows, slice) else rows.tolist()
            return np.array([self.filter_row(state, row, change) for row in numbers], np.int8)
        verdicts: Verdicts | None = None
        for label, table in _tables(state).items():
            found = label.read_verdicts(table, rows)
            verdicts = found if verdicts is None else np.maximum(verdicts, found)
        if verdicts is None:
            verdicts = np.zeros(rows.stop if isinstance(rows, slice) else len(rows), np.int8)
        return verdicts

    def filter_row(self, state: AffinityState, row: int, change: PodChange) -> int:
        """Return the same for one row."""
        return int(_CODES[_violation(state, row, change)])

    def depends_on_pods(self, state: AffinityState) -> NDArray[np.bool_]:
        """Return the rows with pods that a term matches, or whose terms match this pod."""
        found = np.zeros(state.nodes.capacity, np.bool_)
        counted = [c.domains for c in (*state.affinity, *state.anti_affinity)]
        for domains in (*counted, *(term.domains for term in state.existing_anti_affinity)):
            found |= domains.per_row > 0
        return found

    def pod_limits(self, state: AffinityState) -> PodLimits:
        """Return limits for the pods to evict, and for those of which one must stay."""
        return limits_of(state)

    def reasons(
        self, state: AffinityState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return which of the three rules is violated."""
        return (_REASONS[_violation(state, row, change)],)

    def count_reasons(self, state: AffinityState, rows: Rows) -> Mapping[str, int]:
        """Count the rows per rule."""
        found = np.bincount(self._violations(state, rows), minlength=len(_REASONS))
        return {_REASONS[i]: int(found[i]) for i in range(1, len(_REASONS))}

    def _violations(self, state: AffinityState, rows: AnyRows) -> NDArray[np.int8]:
        """Return the rule each row violates, an index of the reasons; the first one counts."""
        broken = np.where(self.filter(state, rows), np.int8(3), np.int8(0))
        for label, table in _anti_affinity_tables(state, existing=False):
            broken[label.read(table, rows) > 0] = 2
        for label, table in _affinity_tables(state):
            broken[label.read(table, rows) > 0] = 1
        return broken

    def pre_score(self, state: AffinityState, _feasible: Rows) -> Skip | None:
        """Skip scoring if no matching pod is in any domain."""
        for _, parts in state.preferred:
            for _, domains in parts:
                domains.refresh()
                if domains.total:
                    return None
        return Skip()

    def score(self, state: AffinityState, rows: AnyRows) -> RawScores:
        """Sum the weights of the preferred terms, the pod's and others', that the row fulfils."""
        total: RawScores | None = None
        for label, parts in state.preferred:
            sums: RawScores | None = None
            for weight, domains in parts:
                domains.refresh()
                part = domains.padded * weight
                sums = part if sums is None else np.add(sums, part, out=sums)
            assert sums is not None
            found = label.read(sums, rows)
            total = found if total is None else found + total
        assert total is not None
        return total

    def normalize_by_range(self, _state: AffinityState, raw: Any, low: float, high: float) -> Any:
        """Scale from the lowest to the highest; 0 for all if they are equal."""
        if high <= low:
            return raw * 0.0
        scaled = raw - low
        scaled /= high - low
        scaled *= 100.0
        return np.floor(scaled)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue when pods start or stop matching, or topology labels of nodes change."""
        return event_helps(event, pod, view)


def _tables(state: AffinityState) -> dict[LabelColumn, Verdicts]:
    """Return the verdict of each domain, by topology label.

    Where several terms use one label the larger code counts, and unresolvable is the largest.
    """
    tables: dict[LabelColumn, Verdicts] = {}
    for label, table in chain(_anti_affinity_tables(state), _affinity_tables(state)):
        other = tables.get(label)
        tables[label] = table if other is None else np.maximum(other, table)
    return tables


def _anti_affinity_tables(
    state: AffinityState, *, existing: bool = True
) -> Iterator[tuple[LabelColumn, Verdicts]]:
    """Yield the domains with pods that the pod's terms or, if ``existing``, their terms reject."""
    groups = [counted.domains for counted in state.anti_affinity]
    if existing:
        groups += [term.domains for term in state.existing_anti_affinity]
    for domains in groups:
        domains.refresh()
        if domains.total:
            yield domains.label, (domains.padded > 0).view(np.int8)  # True is UNSCHEDULABLE


def _affinity_tables(state: AffinityState) -> Iterator[tuple[LabelColumn, Verdicts]]:
    """Yield where the label or a required pod is missing; the first of its own group needs none."""
    for counted in state.affinity:
        counted.domains.refresh()
    first = state.matches_own_terms and not any(c.domains.total for c in state.affinity)
    for counted in state.affinity:
        domains = counted.domains
        missing = (domains.padded <= 0).view(np.int8)
        if first:
            missing[:] = 0
        missing[-1] = 1
        missing *= _UNRESOLVABLE
        yield domains.label, missing


def _violation(state: AffinityState, row: int, change: PodChange) -> int:
    nodes = state.nodes
    if state.affinity and not _affinity_holds_at(state, row, change):
        return 1
    if any(counted.in_domain_of(nodes, row, change) > 0 for counted in state.anti_affinity):
        return 2
    return 3 if state.violates_existing_at(row, change) else 0


def _affinity_holds_at(state: AffinityState, row: int, change: PodChange) -> bool:
    nodes, affinity = state.nodes, state.affinity
    if any(counted.domains.label.at[row] < 0 for counted in affinity):
        return False
    if all(counted.in_domain_of(nodes, row, change) > 0 for counted in affinity):
        return True
    return state.matches_own_terms and not any(_any_left(c, state, change) for c in affinity)


def _any_left(counted: AffinityCount, state: AffinityState, change: PodChange) -> bool:
    return counted.in_any_domain(state.nodes, change) > 0
