"""Filter and score nodes for a reservation that pre-allocates running pods.

NodeResourcesFit passes every row: this plan decides where the request fits, where the resources of
running pods suffice, and where the reservation would have to wait.

All of it depends on the pods of all nodes. So each such reservation is a separate pod class, and
its results are computed again whenever a pod changes. With 50,000 pods that is possible because
matching pods are found by label set, of which there are a few hundred (``find_candidates``).

``reserve`` takes the pods that were chosen when the row was scored. They are not chosen again: by
then the reserve pod is assumed on the row and counts there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeScorer,
    Placement,
    PodChange,
    RawScores,
    Reject,
    Rows,
    Verdicts,
)
from holdfast.scheduling.framework.reservation_options import (
    ReservationAllocator,
    ReservationOptions,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.reservation.arguments import PreAllocationConfig, ReservationArgs
from holdfast.scheduling.plugins.reservation.reserve_pods import (
    NO_CLUSTER_MODE,
    ReservePodPlan,
    prepare_reserve_pod,
    uses_pre_allocation,
)
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.request_fit import RequestFit, short_of
from holdfast.state.reservations.owner_rules import uses_cluster_mode
from holdfast.state.reservations.pre_allocation import (
    PreAllocatablePods,
    PreAllocationResult,
    PreAllocationRules,
    choose_pods,
    find_candidates,
    read_rules,
)
from holdfast.state.reservations.reserved_resources import freed_capacity

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
class PreAllocationPlan(ReservePodPlan, ReservationAllocator, NodeScorer):
    """Filter and score nodes for a reservation that pre-allocates.

    ``chosen`` is the result of the row that was chosen.
    """

    rules: PreAllocationRules
    pre_allocatable: PreAllocatablePods
    allowed_rows: Rows | None = None
    chosen: PreAllocationResult = NO_RESULT
    options: ReservationOptions | None = None
    """The verdicts of plugins that allocate resources with an identity."""
    _row_results: PreAllocationRows | None = field(default=None, init=False, repr=False)

    # The results depend on the pods of all nodes: no other plan is the same.
    __eq__, __hash__ = object.__eq__, object.__hash__

    def with_options(self, options: ReservationOptions) -> Self:
        """Consider what other plugins say about the pods to take over."""
        return replace(self, options=options)

    def row_results(self) -> PreAllocationRows:
        """Return the results of every row, computed again when pods or rows changed."""
        if self._row_results is None or self._row_results.version != self.nodes.pods_version:
            return self._evaluate_rows()
        return self._row_results

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
            self.rules, free, staying, lambda pods: options.allow_pre_allocation(row, pods, change)
        )

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows where the resources of pods do not suffice; it may wait on other rows."""
        verdicts: Verdicts = self.row_results().verdicts[rows].copy()
        if change:
            for position, row in change.positions_in(rows):
                verdicts[position] = self._code(row, self.at(row, change))
        return np.maximum(verdicts, ReservePodPlan.filter(self, rows))

    def depends_on_pods(self) -> bool:
        """Return True: what pods have can be taken over on any row."""
        return True

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return what is short on the node, or inside the reservation."""
        if elsewhere := ReservePodPlan.reasons(self, row):
            return elsewhere
        names, result = self.nodes.resources, self.at(row, change)
        by_node = set(self._never(row)) if result.shortfall else result.by_node
        on_node = [_short(names[r], " by node") for r in by_node]
        inside = [f"Reservation(s) {_short(names[r], '')}" for r in result.inside]
        others: tuple[str, ...] = ()
        if self.options is not None:
            [others] = self.options.reasons_without(np.array([row], np.intp), change)
        return (*sorted(on_node), *inside, *others) or (NONE_SUITABLE,)

    def score(self, rows: AnyRows) -> RawScores:
        """Prefer rows where the reservation need not wait, then those with the best pods."""
        return self.row_results().scores[rows]

    def normalize_by_range(self, raw: Any, low: float, high: float) -> Any:
        """Scale scores to 0..100; rows where it need not wait are above all where it must."""
        if low >= 0:
            return raw
        covered = _LOWEST_WITHOUT_WAITING + raw * (100 - _LOWEST_WITHOUT_WAITING) // 100
        return np.where(raw >= 0, covered, (100 + raw) // 2)

    def reserve(self, placement: Placement) -> Reject | None:
        """Pre-allocate the pods of the row."""
        uid, result = placement.pod.uid, self.decide(placement.row)
        if result.shortfall and self._awaits_binding(placement.row, uid):
            self.reservations.awaiting_binds[uid] = placement.node
            return Reject(Code.UNSCHEDULABLE, (PODS_BEING_BOUND,))
        self.reservations.awaiting_binds.pop(uid, None)
        self.reservations.pre_allocate(result.pods, uid, placement.node)
        placement.pre_allocated = result.pods
        return ReservePodPlan.reserve(self, placement)

    def unreserve(self, placement: Placement) -> None:
        """Cancel the pre-allocation of the pods."""
        ReservePodPlan.unreserve(self, placement)
        self.reservations.cancel_pre_allocation(placement.pod.uid)

    def decide(self, row: int) -> PreAllocationResult:
        """Store and return the result of the chosen row, as it was when the decision was made."""
        assert self._row_results is not None, "no row was evaluated"
        score = int(self._row_results.scores[row])
        waits = PreAllocationResult(shortfall=max(0, -score))
        self.chosen = self._row_results.results.get(row, waits)
        return self.chosen

    def _awaits_binding(self, row: int, but: str) -> bool:
        """Tell whether other pods are assumed on a row.

        The controller cannot see these pods yet. It would find the resources free too early and end
        the wait.
        """
        return any(uid != but and self.nodes.is_assumed(uid) for uid in self.nodes.pods_on(row))

    def _never(self, row: int) -> list[int]:
        """Return the resources the node has too little of, even without any pod."""
        has = self.nodes.amounts.allocatable_at
        return short_of(self.rules.wanted, {r: has[r][row] for r in self.rules.wanted})

    def _code(self, row: int, result: PreAllocationResult) -> Code:
        if result.refused:
            return Code.UNSCHEDULABLE
        if result.shortfall and self._never(row):
            return Code.UNRESOLVABLE
        return Code.PASS

    def _evaluate_rows(self) -> PreAllocationRows:
        nodes, rules = self.nodes, self.rules
        every = slice(0, nodes.capacity)
        fit = RequestFit.of(nodes.amounts, tuple(rules.reserved.items()), frozenset())
        shortfall = np.zeros(nodes.capacity, np.int64)
        for need, spare in zip(fit.needs, fit.remaining(every), strict=True):
            missing = np.clip(-spare, 0, need.wanted)
            shortfall = np.maximum(shortfall, np.maximum(100 * missing // need.wanted, missing > 0))
        short, never = shortfall > 0, ~fit.fits_if_empty(every) | (nodes.allocatable[PODS] == 0)
        verdicts = np.where(short & never, Code.UNRESOLVABLE, Code.PASS).astype(np.int8)
        if rules.required:
            verdicts[:] = Code.UNSCHEDULABLE
        elif self.options is not None:
            rows = nodes.rows
            verdicts[rows] = np.maximum(verdicts[rows], self.options.verdicts_without(rows))
        scores = np.where(short, -shortfall, 100 if rules.multiple else 0).astype(np.float64)
        candidates = find_candidates(self.pre_allocatable, rules, nodes, self.reservations)
        evaluated = PreAllocationRows(nodes.pods_version, verdicts, scores, candidates, {})
        self._row_results = evaluated
        for row in candidates:
            result = evaluated.results[row] = self.at(row)
            verdicts[row] = self._code(row, result)
            scores[row] = result.score(rules)
        return evaluated


def prepare_pre_allocation(
    pod: PodInfo, view: View, args: ReservationArgs
) -> ReservePodPlan | Reject:
    """Return the plan for a reserve pod, with the rules of its reservation if it pre-allocates."""
    enabled, config = args.enable_preemption, args.pre_allocation_config
    plan = prepare_reserve_pod(pod, view, enable_preemption=enabled)
    if isinstance(plan, Reject) or not uses_pre_allocation(pod, view):
        return plan
    reservation = plan.reservations.pending[pod.uid]
    if uses_cluster_mode(reservation) and not config.enable_cluster_mode:
        return Reject(Code.UNRESOLVABLE, (NO_CLUSTER_MODE,))
    resources = view.nodes.resources
    rules = read_rules(
        reservation, pod, resources, prefers_none=config.prefer_no_pre_allocated_pods
    )
    pre_allocatable = PreAllocatablePods.to(reservation, config.cluster_mode)
    view.nodes.add_selector_keys(pre_allocatable.label_keys)
    pre_allocating = PreAllocationPlan(
        plan.nodes, plan.reservations, plan.pinned, plan.policy, enabled, rules, pre_allocatable
    )
    if rules.required:
        rows = np.array(sorted(pre_allocating.row_results().candidates), np.intp)
        if not len(rows):
            return Reject(Code.UNRESOLVABLE, (NO_POD_MATCHES,))
        pre_allocating.allowed_rows = rows
    return pre_allocating


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


def _short(resource: str, suffix: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}{suffix}"
