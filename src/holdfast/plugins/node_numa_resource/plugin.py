"""The plugin: it passes each extension point on to the state, the ledger and the scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.koordinator_names import (
    NUMA_TOPOLOGY_SPEC,
    PRIORITY_CLASS,
    QOS_CLASS,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from holdfast.api.reservation_names import IGNORED
from holdfast.capacity.matching import ReservationMatch
from holdfast.columns.interner import PODS
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import BadRequest
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View
from holdfast.numa.ledger import EPOCH
from holdfast.numa.numa_amounts import Strategy
from holdfast.numa.pod_request import NOT_INTEGER
from holdfast.numa.pod_trials import NumaOptions
from holdfast.numa.resource_status import Allocation, completed_spec, format_status
from holdfast.numa.trial import Situation, TrialOptions
from holdfast.plugins.node_numa_resource.arguments import NodeNUMAResourceArgs, read_args
from holdfast.plugins.node_numa_resource.explanation import explain_rows
from holdfast.plugins.node_numa_resource.queueing_hints import may_have_held
from holdfast.plugins.node_numa_resource.scoring import NodeScorer
from holdfast.plugins.node_numa_resource.state import NumaState

NOT_WITHIN_RESERVATION = (
    "pod has a nominated reservation but cannot be allocated within its NUMA scope"
)
_KEYS = (RESOURCE_SPEC, NUMA_TOPOLOGY_SPEC)


class ScoredState(NumaState):
    """The state with the scorer of whole nodes."""

    scorer: NodeScorer


class NodeNUMAResource:
    """Binds pods to CPUs and NUMA nodes."""

    name: ClassVar[str] = "NodeNUMAResource"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.ROW,
        epochs=(EPOCH, "reservations"),
        events_to_register={
            "NodeResourceTopology": (),
            "Node": ("Add", "UpdateNodeLabel", "UpdateNodeAnnotation", "UpdateNodeAllocatable"),
            "AssignedPod": ("Delete", "UpdatePodScaleDown"),
            "UnschedulablePod": (),
            "Reservation": (),
        },
        reads_outside_spec=True,
        accepts_slices=True,
        bounded_scores=True,
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})
        self._options = options_of(self.args)

    # --- what the pod asks --------------------------------------------------------------------

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the request, what labels and annotations ask, and the matched reservations."""
        outside = self.key_outside_spec(pod, view)
        if outside is None:
            return None
        matched = view.matched_reservations
        return (pod.request, pod.pod.spec.priority, outside, matched and matched.key)

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return the labels and annotations that decide; None if nothing does, as for most pods."""
        annotations, labels, ledger = pod.pod.metadata.annotations, pod.labels, view.world.numa
        texts = [annotations.get(key) for key in _KEYS] if annotations else ()
        qos = labels.get(QOS_CLASS)
        if qos is None and not any(texts) and not ledger.concerns_all_pods:
            return None
        found = (qos, labels.get(PRIORITY_CLASS), labels.get(IGNORED), *texts)
        if not ledger.hint_providers or not pod.request or pod.request[-1][0] <= PODS:
            return found
        # What decides about devices besides is not known here.
        return (found, tuple(sorted(annotations.items())))

    def pre_filter(self, pod: PodInfo, view: View) -> ScoredState | Skip | Reject:
        """Read what the pod asks; skip it if that is nothing, and no node concerns all pods."""
        ledger = view.world.numa
        ledger.options[pod.scheduler_name] = self._options
        try:
            request = ledger.request_of(pod)
        except BadRequest as wrong:
            return Reject(Code.ERROR, (str(wrong),))
        if request.bound and request.millicores % 1000:
            return Reject(Code.UNRESOLVABLE, (NOT_INTEGER,))
        asks = request.bound or request.numa_policy or ledger.concerns_all_pods
        if not (request.amounts and asks):
            return Skip()
        matched = view.matched_reservations
        match = matched if isinstance(matched, ReservationMatch) else None
        state = ScoredState(view.world, pod, request, match)
        state.scorer = NodeScorer(
            view.nodes, pod, self._options.trial.node, view.reserved_for_pod,
            state.extra_cpu if ledger.concerns_all_pods else None,
        )  # fmt: skip
        return state

    # --- filter -------------------------------------------------------------------------------

    def filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether anything is to be tried for the pod."""
        return self.key_outside_spec(pod, view) is not None

    def prepare_filter(self, state: NumaState) -> Iterator[None]:
        """Try the states of all nodes in short steps."""
        return state.try_in_steps()

    def filter(self, state: NumaState, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows where the CPUs or NUMA nodes that the pod needs are not there."""
        verdicts = state.verdicts(rows)
        for position, row in change.positions_in(rows) if change else ():
            verdicts[position] = state.code(row, change)
        return verdicts

    def filter_row(self, state: NumaState, row: int, change: PodChange) -> int:
        """Return the verdict of one row under a change."""
        return state.code(row, change)

    def filter_reservations(
        self, state: NumaState, slots: Rows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Return for each reservation whether it has the CPUs and NUMA nodes for the pod."""
        return np.array([state.slot_code(slot, change) for slot in slots.tolist()], np.int8)

    def filter_without_reservation(
        self, state: NumaState, rows: Rows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Return for each row whether unreserved CPUs and NUMA nodes suffice."""
        verdicts = state.verdicts_without(rows)
        for position, row in change.positions_in(rows) if change else ():
            verdicts[position] = state.code_without(row, change)
        return verdicts

    def filter_pre_allocation(
        self, state: NumaState, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> int:
        """Return whether a reservation can have the CPUs of pods on a row, and those it lacks."""
        return state.pre_allocation_code(row, pods, change)

    def reasons(self, state: NumaState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return what is in the way on a row, without a reservation."""
        return state.reasons(row, "", change)

    def reservation_reasons(
        self, state: NumaState, slot: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return what is in the way in a reservation."""
        return state.slot_reasons(slot, change)

    def count_reasons(self, state: NumaState, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of many rows."""
        counts: Counter[str] = Counter()
        _, first, times = np.unique(
            state.reason_groups(rows), return_index=True, return_counts=True
        )
        for row, count in zip(rows[first].tolist(), times.tolist(), strict=True):
            for reason in state.reasons(row):
                counts[reason] += count
        return counts

    def reason_groups(self, state: NumaState, rows: AnyRows) -> NDArray[np.int64]:
        """Return a number by row: rows with equal ones have the same reasons."""
        return state.reason_groups(rows)

    def explain(self, state: NumaState, rows: Rows) -> Mapping[str, Any]:
        """Return what the pod lacks; on nodes that other plugins rejected first if these are all.

        A shortage of CPUs is often one of cpu too, which NodeResourcesFit rejects.
        """
        if not len(rows):
            every = state.nodes.rows
            rows = every[self.filter(state, every) != Code.PASS]
        return explain_rows(state, rows)

    def depends_on_pods(self, state: NumaState) -> NDArray[np.bool_]:
        """Return the rows where pods hold CPUs or amounts of NUMA nodes, or CPUs are amplified."""
        return state.rows_with_pods()

    # --- score --------------------------------------------------------------------------------

    def score(self, state: ScoredState, rows: AnyRows) -> RawScores:
        """Score the whole node by its requests; under a NUMA policy the NUMA nodes to be used."""
        scores = state.scorer.many(rows)
        aligned, of_numa_nodes = state.numa_scores(rows)
        if aligned.any():
            scores = np.where(aligned, of_numa_nodes, scores)
        return scores

    def filter_and_score_row(self, state: ScoredState, row: int) -> tuple[int, float]:
        """Return verdict and score of one row."""
        alone = slice(row, row + 1)
        aligned, score = state.numa_scores(alone)
        return int(state.verdicts(alone)[0]), (
            float(score[0]) if aligned[0] else state.scorer.one(row)
        )

    # --- placed -------------------------------------------------------------------------------

    def reserve(self, state: NumaState, placement: Placement) -> Reject | None:
        """Enter the pod's CPUs and NUMA nodes in the ledger, and write them in its annotations."""
        if placement.pre_allocated:
            trial = state.pre_allocation(placement.row, placement.pre_allocated)
        else:
            trial = state.trial(placement.row, placement.reservation)
        if trial.allocation is None:
            code = Code.UNRESOLVABLE if trial.unresolvable else Code.UNSCHEDULABLE
            reasons = (NOT_WITHIN_RESERVATION,) if placement.reservation else trial.reasons
            return Reject(code, reasons)
        state.ledger.reserve(placement.pod, placement.row, trial.allocation, placement.reservation)
        self._annotate(state, placement, trial.allocation)
        return None

    def _annotate(self, state: NumaState, placement: Placement, allocation: Allocation) -> None:
        if not allocation:
            return
        annotations = placement.pod.pod.metadata.annotations
        placement.annotations[RESOURCE_STATUS] = format_status(allocation)
        if allocation.cpus:
            ledger = state.ledger
            on = Situation(state.request, ledger.state(ledger.signature(placement.row)))
            spec = completed_spec(annotations, on.bind_policy, required=bool(on.required_policy))
            if spec is not None:
                placement.annotations[RESOURCE_SPEC] = spec

    def unreserve(self, state: NumaState, placement: Placement) -> None:
        """Release what the pod got, unless it is confirmed on a node."""
        uid = placement.pod.uid
        if state.nodes.is_assumed(uid) or state.nodes.pod(uid) is None:
            state.ledger.unreserve(uid)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if CPUs or devices may be free, or the pod or another object here changes."""
        if event.resource == "UnschedulablePod":
            return event.is_for_pod(pod)
        if event.resource == "AssignedPod" and not view.world.numa.concerns_all_pods:
            return event.old is not None and may_have_held(event.old)
        return self.traits.registers(event)


def options_of(args: NodeNUMAResourceArgs) -> NumaOptions:
    """Return the arguments in the form that the ledger uses."""
    numa, node = args.numa_scoring_strategy, args.scoring_strategy
    return NumaOptions(
        args.default_bind_policy,
        TrialOptions(Strategy(numa.type, numa.weights), Strategy(node.type, node.weights)),
    )
