"""The plugin: rule out nodes by required terms, both ways, and prefer by wishes, both ways."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.field_errors import invalid
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    PodLimits,
    PreFilterState,
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
from holdfast.plugins.inter_pod_affinity.state import AffinityCount, AffinityState, affinity_state

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

_REASONS = ("", AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY)
_CODES = np.array([Code.PASS, Code.UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE], np.int8)
_UNRESOLVABLE = np.int8(Code.UNRESOLVABLE)
_MOST = 100


class _Args(PluginArgs, frozen=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class InterPodAffinity:
    """Keep pods near to and far from each other, as they ask."""

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
        comparable_states=True,
        accepts_slices=True,
        bounded_scores=True,
    )

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        given = wrong.read(_Args, args)
        self._hard_weight = given.hard_pod_affinity_weight
        self._ignore = given.ignore_preferred_terms_of_existing_pods
        if not 0 <= self._hard_weight <= _MOST:
            words = f"not in valid range [0, {_MOST}]"
            wrong.append(invalid("hardPodAffinityWeight", self._hard_weight, words))
        wrong.refuse_if_wrong()

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """The terms, and the pod's kind if anybody's terms look at it; most pods read alike."""
        if (
            not pod.affinity_terms
            and not pod.affinity_terms.mistakes
            and not view.nodes.existing_terms_for(pod)
        ):
            return None
        return (view.nodes.label_group_of(pod).id, pod.affinity_terms, view.unseen)

    def pre_filter(self, pod: PodInfo, view: View) -> Skip | Reject | PreFilterState:
        """Find the counters; nothing to say about a pod that nobody speaks of."""
        if pod.affinity_terms.mistakes:
            return Reject(Code.UNRESOLVABLE, (f"parsing pod: {pod.affinity_terms.mistakes}",))
        state = affinity_state(view, self._hard_weight, ignore_existing_preferred=self._ignore)
        if not state.filters and not state.preferred:
            return Skip()
        return PreFilterState(state, filters=state.filters, scores=bool(state.preferred))

    def filter(
        self, state: AffinityState, rows: AnyRows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Unresolvable where needed pods are missing, unschedulable where unwanted ones are."""
        if change:
            asked = range(rows.stop) if isinstance(rows, slice) else rows.tolist()
            return np.array([self.filter_row(state, row, change) for row in asked], np.int8)
        verdicts: Verdicts | None = None
        for label, table in _tables(state).items():
            found = label.read_verdicts(table, rows)
            verdicts = found if verdicts is None else np.maximum(verdicts, found)
        if verdicts is None:
            verdicts = np.zeros(rows.stop if isinstance(rows, slice) else len(rows), np.int8)
        return verdicts

    def filter_row(self, state: AffinityState, row: int, change: PodChange) -> int:
        """The same for one row."""
        return int(_CODES[_objection(state, row, change)])

    def depends_on_pods(self, state: AffinityState) -> NDArray[np.bool_]:
        """Where pods stand that a term means, or that hold one about this pod."""
        found = np.zeros(state.nodes.capacity, np.bool_)
        counted = [c.domains for c in (*state.affinity, *state.anti_affinity)]
        for domains in (*counted, *(term.domains for term in state.existing_anti_affinity)):
            found |= domains.per_row > 0
        return found

    def pod_limits(self, state: AffinityState) -> PodLimits:
        """Who may not stay, and of whom somebody must."""
        return limits_of(state)

    def reasons(
        self, state: AffinityState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Which of the three rules it was."""
        return (_REASONS[_objection(state, row, change)],)

    def count_reasons(self, state: AffinityState, rows: Rows) -> Mapping[str, int]:
        """Count the three."""
        found = np.bincount(self._objections(state, rows), minlength=len(_REASONS))
        return {_REASONS[i]: int(found[i]) for i in range(1, len(_REASONS))}

    def _objections(self, state: AffinityState, rows: AnyRows) -> NDArray[np.int8]:
        """Which rule each row breaks, an index of the reasons; the first one counts."""
        broken = np.where(self.filter(state, rows), np.int8(3), np.int8(0))
        for label, table in _far_from(state, held=False):
            broken[label.read(table, rows) > 0] = 2
        for label, table in _near_to(state):
            broken[label.read(table, rows) > 0] = 1
        return broken

    def pre_score(self, state: AffinityState, _feasible: Rows) -> Skip | None:
        """Nothing to add up while no pod concerned stands in any domain."""
        for _, parts in state.preferred:
            for _, domains in parts:
                domains.refresh()
                if domains.total:
                    return None
        return Skip()

    def score(self, state: AffinityState, rows: AnyRows) -> RawScores:
        """Weights of all wishes that come true in the row's domains, ours and others'."""
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
        """From the lowest to the highest; all the same means nothing."""
        if high <= low:
            return raw * 0.0
        scaled = raw - low
        scaled /= high - low
        scaled *= 100.0
        return np.floor(scaled)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Pods that begin or cease to match, and nodes that change their domain."""
        return event_helps(event, pod, view.nodes)


def _tables(state: AffinityState) -> dict[LabelColumn, Verdicts]:
    """What is to be said of each domain, by the label that tells domains apart.

    Where several have something to say the worst counts, and unresolvable is the worst.
    """
    tables: dict[LabelColumn, Verdicts] = {}
    for label, table in chain(_far_from(state), _near_to(state)):
        other = tables.get(label)
        tables[label] = table if other is None else np.maximum(other, table)
    return tables


def _far_from(state: AffinityState, *, held: bool = True) -> Iterator[tuple[LabelColumn, Verdicts]]:
    """Where pods are that this one forbids or, with ``held``, that forbid this one."""
    groups = [counted.domains for counted in state.anti_affinity]
    if held:
        groups += [term.domains for term in state.existing_anti_affinity]
    for domains in groups:
        domains.refresh()
        if domains.total:
            yield domains.label, (domains.padded > 0).view(np.int8)  # True is UNSCHEDULABLE


def _near_to(state: AffinityState) -> Iterator[tuple[LabelColumn, Verdicts]]:
    """Where the key is missing or, unless the pod is the first, the pods it needs."""
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


def _objection(state: AffinityState, row: int, change: PodChange) -> int:
    nodes = state.nodes
    if state.affinity and not _near_at(state, row, change):
        return 1
    if any(counted.in_domain_of(nodes, row, change) > 0 for counted in state.anti_affinity):
        return 2
    return 3 if state.violates_existing_at(row, change) else 0


def _near_at(state: AffinityState, row: int, change: PodChange) -> bool:
    nodes, affinity = state.nodes, state.affinity
    if any(counted.domains.label.at[row] < 0 for counted in affinity):
        return False
    if all(counted.in_domain_of(nodes, row, change) > 0 for counted in affinity):
        return True
    return state.matches_own_terms and not any(_some(c, state, change) for c in affinity)


def _some(counted: AffinityCount, state: AffinityState, change: PodChange) -> bool:
    return counted.in_any_domain(state.nodes, change) > 0
