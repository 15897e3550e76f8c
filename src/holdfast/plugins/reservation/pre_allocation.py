"""Filter and score nodes for a reservation that pre-allocates running pods.

NodeResourcesFit passes every row: here it is decided where the request fits, where the resources of
running pods suffice, and where the reservation would have to wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from holdfast.capacity.owner_rules import uses_cluster_mode
from holdfast.capacity.pre_allocation import (
    PreAllocatablePods,
    PreAllocationResult,
    PreAllocationRules,
    choose_pods,
    find_candidates,
    read_rules,
)
from holdfast.capacity.reservation_cache import ReservationCache
from holdfast.capacity.reserved_resources import freed_capacity
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.request_fit import RequestFit, short_of
from holdfast.framework.former_contract import PreFilterResult
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    RawScores,
    Reject,
    Verdicts,
)
from holdfast.framework.reservation_options import ReservationOptions
from holdfast.framework.view import View
from holdfast.plugins.reservation.arguments import PreAllocationConfig
from holdfast.plugins.reservation.reserve_pods import (
    NO_CLUSTER_MODE,
    ReserveState,
    filter_reserve_pod,
    prepare_reserve_pod,
    uses_pre_allocation,
)

NO_POD_MATCHES = "node(s) no pod match reservation with pre allocation required"
NONE_SUITABLE = "node(s) no pod(s) to meet the pre-allocation requirements"

PODS_BEING_BOUND = "node(s) had pods that are being bound"

NO_RESULT = PreAllocationResult()
_LOWEST_WITHOUT_WAITING = 51
_MAX_CACHED = 1024


class PreAllocationRows(NamedTuple):
    """Verdicts, scores and candidates of every row, at one version of the pods."""

    version: tuple[int, int]
    verdicts: Verdicts
    scores: RawScores
    candidates: dict[int, list[PodInfo]]
    results: dict[int, PreAllocationResult]


@dataclass(slots=True, eq=False)
class PreAllocationState:
    """A pre-allocating reservation.

    ``chosen`` is the result of the row that was chosen.
    """

    nodes: NodeTable
    reservations: ReservationCache
    rules: PreAllocationRules
    pre_allocatable: PreAllocatablePods
    reserve_state: ReserveState
    chosen: PreAllocationResult = NO_RESULT
    options: ReservationOptions | None = None
    """What plugins say that give out what has an identity."""
    _row_results: PreAllocationRows | None = field(default=None, repr=False)

    def row_results(self) -> PreAllocationRows:
        """Return the results of every row, computed again when pods or rows changed."""
        if self._row_results is None or self._row_results.version != self.nodes.pods_version:
            self._row_results = _evaluate_rows(self)
        return self._row_results

    def decide(self, row: int) -> PreAllocationResult:
        """Store and return the result of the chosen row, as it was when the decision was made."""
        assert self._row_results is not None, "no row was evaluated"
        score = int(self._row_results.scores[row])
        waits = PreAllocationResult(shortfall=max(0, -score))
        self.chosen = self._row_results.results.get(row, waits)
        return self.chosen

    def awaits_binding(self, row: int, but: str) -> bool:
        """Tell whether other pods are assumed on a row.

        The controller cannot see these pods yet, and would find the resources free too early.
        """
        return any(uid != but and self.nodes.is_assumed(uid) for uid in self.nodes.pods_on(row))

    def at(self, row: int, change: PodChange = NO_CHANGE) -> PreAllocationResult:
        """Choose pods on one row, now or under a change."""
        more = freed_capacity(self.reservations, change).rows.get(row, {}) if change else {}
        free = {r: self.nodes.amounts.free_on(row, r) + more.get(r, 0) for r in self.rules.wanted}
        candidates = self.row_results().candidates.get(row, [])
        gone = {pod.uid for pod in change.removed.get(row, ())}
        staying = [pod for pod in candidates if pod.uid not in gone]
        options = self.options
        if options is None:
            return choose_pods(self.rules, free, staying)
        return choose_pods(
            self.rules,
            free,
            staying,
            lambda pods: options.allow_pre_allocation(row, pods, change),
        )

    def with_options(self, options: ReservationOptions) -> PreAllocationState:
        """Return the state that considers what other plugins say."""
        return replace(self, options=options, _row_results=None)

    def never(self, row: int) -> list[int]:
        """Return the resources the node has too little of, even without any pod."""
        has = self.nodes.amounts.allocatable_at
        return short_of(self.rules.wanted, {r: has[r][row] for r in self.rules.wanted})


def prepare_pre_allocation(
    pod: PodInfo, view: View, config: PreAllocationConfig
) -> ReserveState | PreAllocationState | PreFilterResult | Reject:
    """Prepare the state of a reserve pod, and its rules if it pre-allocates."""
    reserve_state = prepare_reserve_pod(pod, view)
    if isinstance(reserve_state, Reject) or not uses_pre_allocation(pod, view):
        return reserve_state
    reservation = reserve_state.reservations.pending[pod.uid]
    if uses_cluster_mode(reservation) and not config.enable_cluster_mode:
        return Reject(Code.UNRESOLVABLE, (NO_CLUSTER_MODE,))
    resources = view.nodes.resources
    rules = read_rules(
        reservation, pod, resources, prefers_none=config.prefer_no_pre_allocated_pods
    )
    pre_allocatable = PreAllocatablePods.to(reservation, config.cluster_mode)
    view.nodes.add_selector_keys(pre_allocatable.label_keys)
    state = PreAllocationState(
        view.nodes, reserve_state.reservations, rules, pre_allocatable, reserve_state
    )
    if not rules.required:
        return state
    rows = np.array(sorted(state.row_results().candidates), np.intp)
    return (
        PreFilterResult(state, rows) if len(rows) else Reject(Code.UNRESOLVABLE, (NO_POD_MATCHES,))
    )


def may_be_pre_allocated(
    pod: PodInfo, event: ClusterEvent, view: View, config: PreAllocationConfig
) -> bool:
    """Tell whether a pod that was bound may help a pending reserve pod.

    It may be pre-allocatable, or be the pod whose binding the reserve pod waits for.
    """
    if not uses_pre_allocation(pod, view) or event.new is None:
        return False
    if view.world.reservations.awaiting_binds.get(pod.uid) == event.new.spec.node_name:
        return True
    reservation = view.world.reservations.pending[pod.uid]
    cached = view.world.caches.setdefault(PreAllocatablePods, {})
    known: PreAllocatablePods | None = cached.get(reservation.uid)
    if known is None or known.reservation is not reservation:
        if len(cached) >= _MAX_CACHED:
            cached.clear()
        known = cached[reservation.uid] = PreAllocatablePods.to(reservation, config.cluster_mode)
    return known.includes(event.new)


def verdicts(state: PreAllocationState, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
    """Return the verdict of each row."""
    found: Verdicts = state.row_results().verdicts[rows].copy()
    if change:
        for position, row in change.positions_in(rows):
            found[position] = _code(state, row, state.at(row, change))
    both: Verdicts = np.maximum(found, filter_reserve_pod(state.reserve_state, rows))
    return both


def reasons(state: PreAllocationState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
    """Return what is short on the node, or inside the reservation."""
    if elsewhere := state.reserve_state.rejection_reason(row):
        return (elsewhere,)
    names, result = state.nodes.resources, state.at(row, change)
    by_node = set(state.never(row)) if result.shortfall else result.by_node
    on_node = [_short(names[r], " by node") for r in by_node]
    inside = [f"Reservation(s) {_short(names[r], '')}" for r in result.inside]
    others: tuple[str, ...] = ()
    if state.options is not None:
        [others] = state.options.reasons_without(np.array([row], np.intp), change)
    return (*sorted(on_node), *inside, *others) or (NONE_SUITABLE,)


def scaled(raw: RawScores, low: float) -> RawScores:
    """Scale scores to 0..100; rows where it need not wait are above all where it must."""
    if low >= 0:
        return raw
    covered = _LOWEST_WITHOUT_WAITING + raw * (100 - _LOWEST_WITHOUT_WAITING) // 100
    found: RawScores = np.where(raw >= 0, covered, (100 + raw) // 2)
    return found


def _evaluate_rows(state: PreAllocationState) -> PreAllocationRows:
    nodes, rules = state.nodes, state.rules
    every = slice(0, nodes.capacity)
    fit = RequestFit.of(nodes.amounts, tuple(rules.reserved.items()), frozenset())
    shortfall = np.zeros(nodes.capacity, np.int64)
    for need, spare in zip(fit.needs, fit.remaining(every), strict=True):
        missing = np.clip(-spare, 0, need.wanted)
        shortfall = np.maximum(shortfall, np.maximum(100 * missing // need.wanted, missing > 0))
    short, never = shortfall > 0, ~fit.fits_if_empty(every) | (nodes.allocatable[PODS] == 0)
    found = np.where(short & never, Code.UNRESOLVABLE, Code.PASS).astype(np.int8)
    if rules.required:
        found[:] = Code.UNSCHEDULABLE
    elif state.options is not None:
        rows = nodes.rows
        found[rows] = np.maximum(found[rows], state.options.verdicts_without(rows))
    scores = np.where(short, -shortfall, 100 if rules.multiple else 0).astype(np.float64)
    candidates = find_candidates(state.pre_allocatable, rules, nodes, state.reservations)
    row_results = PreAllocationRows(nodes.pods_version, found, scores, candidates, {})
    state._row_results = row_results
    for row in candidates:
        result = row_results.results[row] = state.at(row)
        found[row] = _code(state, row, result)
        scores[row] = result.score(rules)
    return row_results


def _code(state: PreAllocationState, row: int, result: PreAllocationResult) -> Code:
    if result.refused:
        return Code.UNSCHEDULABLE
    if result.shortfall and state.never(row):
        return Code.UNRESOLVABLE
    return Code.PASS


def _short(resource: str, suffix: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}{suffix}"
