"""The plugin: which pods may preempt, which nodes are dry-run, which one is nominated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.api.field_errors import invalid
from holdfast.scheduling.engine.lazy_sequence import LazySequence
from holdfast.scheduling.engine.nominated_pods import nominated_in_sets
from holdfast.scheduling.engine.preemption import (
    VICTIM_TERMINATING,
    cost_of,
    is_preempted,
    may_preempt,
    preemption_refusal,
    protection_by,
)
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.extender import ExtenderPreemption
from holdfast.scheduling.framework.plugin import (
    Candidate,
    ClusterEvent,
    Code,
    FilterPair,
    Plugin,
    PodLimit,
    PostFilterResult,
    Reject,
    Traits,
)
from holdfast.scheduling.framework.rejection import Rejection, fit_error_message
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.default_preemption.dry_run_columns import dry_run_cache_of
from holdfast.scheduling.plugins.default_preemption.requirements import (
    CollectedLimits,
    requiring_resources,
)
from holdfast.scheduling.plugins.default_preemption.search import NOT_HELPFUL, CandidateSearch
from holdfast.scheduling.plugins.default_preemption.victims import NAME, NO_VICTIMS, protected_pods
from holdfast.state.columns.pod_info import PodInfo

NO_CANDIDATE = "preemption: no candidate node for preemption"
WAITING = "waiting for the preemption for this pod to be finished"
PERCENTAGE, ABSOLUTE = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"


class PreemptionArgs(PluginArgs, frozen=True):
    """DefaultPreemptionArgs; both fields have no effect: all nodes are candidates."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DefaultPreemption(Plugin):
    """Nominate the node with the cheapest victims, and name the victims."""

    name = NAME
    traits = Traits(events_to_register={EventResource.POD: (ActionType.DELETE,)})

    def __init__(self, args: Mapping[str, Any]) -> None:
        wrong = Arguments(self.name)
        given = wrong.read(PreemptionArgs, args)
        percentage, absolute = (
            given.min_candidate_nodes_percentage,
            given.min_candidate_nodes_absolute,
        )
        if not 0 <= percentage <= 100:
            wrong.append(invalid(PERCENTAGE, percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            wrong.append(invalid(ABSOLUTE, absolute, "not in valid range [0, inf)"))
        if percentage == 0 and absolute == 0:
            for name, other in ((PERCENTAGE, ABSOLUTE), (ABSOLUTE, PERCENTAGE)):
                wrong.append(invalid(name, 0, f"cannot be zero at the same time as {other}"))
        wrong.refuse_if_wrong()

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Keep a preemptor out of the queue until its victims' evictions were requested."""
        if view.world.evictions.in_progress(pod.uid):
            return Reject(Code.UNRESOLVABLE, (WAITING,))
        return None

    def post_filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether the pod could preempt others."""
        return view.nodes.has_pods_below(pod.priority) and may_preempt(pod)

    def prepare_post_filter(self, filters: Sequence[FilterPair], view: View) -> Iterator[None]:
        """Rank the pods of all nodes and read what the dry runs count, in short steps."""
        return _read_pods_in_steps(filters, view)

    def post_filter(self, rejection: Rejection, view: View) -> PostFilterResult:
        """Find the best candidate over all nodes; the scheduler evicts the victims."""
        pod = view.pod
        refusal = self._not_eligible(pod, rejection, view)
        if refusal is not None:
            waiting = refusal == VICTIM_TERMINATING
            return PostFilterResult(self.name, refusal, victims_terminating=waiting)
        if not view.nodes.has_pods_below(pod.priority):
            # The common case: no pod has a lower priority, so no node needs a dry run.
            tried = int(np.count_nonzero(rejection.codes == Code.UNSCHEDULABLE))
            return self._no_candidates(
                rejection, {NOT_HELPFUL: rejection.nodes - tried, NO_VICTIMS: tried}
            )
        search = CandidateSearch(rejection, view)
        if pod.is_reserve_pod and (node := _node_with_terminating_victims(search, rejection, view)):
            return PostFilterResult(self.name, nominated_node=node, code=Code.PASS)
        rows_and_cost = search.best()
        if view.world.auditor is not None:
            view.world.auditor.note_faults(
                search.faults(() if rows_and_cost is None else rows_and_cost[0][:1])
            )
        if rows_and_cost is None:
            counts_by_reason, errors = search.statuses()
            if errors:
                distinct = list(dict.fromkeys(errors))
                text = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
                return PostFilterResult(self.name, f"preemption: {text}", code=Code.ERROR)
            return self._no_candidates(rejection, counts_by_reason)
        if rejection.extender_preemption is not None:
            return self._agreed(search, rejection.extender_preemption, view)
        rows, names = rows_and_cost[0], view.nodes.names
        best = search.candidate(rows[0])
        return PostFilterResult(
            self.name, nominated_node=best.node, victims=best.victims, code=Code.PASS,
            candidates=LazySequence(search.candidates),
            tied_nodes=LazySequence(lambda: [names[row] for row in rows]),
            violations=best.violations,
        )  # fmt: skip

    def _agreed(
        self, search: CandidateSearch, agreement: ExtenderPreemption, view: View
    ) -> PostFilterResult:
        """Return the best of the candidates that extenders agreed to."""
        if agreement.error:
            return PostFilterResult(self.name, f"preemption: {agreement.error}", code=Code.ERROR)
        candidates = agreement.still_accepted(search.candidates())
        if not candidates:
            return PostFilterResult(self.name, NO_CANDIDATE)
        tiers = [search.tier(view.nodes.row_of[candidate.node]) for candidate in candidates]
        costs = [cost_of(c, view.now, tier) for c, tier in zip(candidates, tiers, strict=True)]
        best = candidates[costs.index(min(costs))]
        tied = [c.node for c, cost in zip(candidates, costs, strict=True) if cost == min(costs)]
        return PostFilterResult(
            self.name, nominated_node=best.node, victims=best.victims, code=Code.PASS,
            candidates=tuple(candidates), tied_nodes=tuple(tied), violations=best.violations,
        )  # fmt: skip

    def _no_candidates(
        self, rejection: Rejection, counts_by_reason: Mapping[str, int]
    ) -> PostFilterResult:
        counts = {reason: count for reason, count in counts_by_reason.items() if count}
        return PostFilterResult(
            self.name,
            f"preemption: {fit_error_message(rejection.nodes, counts)}",
            nominated_node="",
        )

    def _not_eligible(self, pod: PodInfo, rejection: Rejection, view: View) -> str | None:
        """Return why the pod may not preempt, maybe ""; None if it may."""
        refusal = preemption_refusal(rejection)
        if refusal is not None:
            return refusal
        nominations = view.world.nominations
        node = nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name
        row = view.nodes.row_of.get(node)
        if row is None or rejection.codes[row] == Code.UNRESOLVABLE:
            return None
        terminating = any(
            other.priority < pod.priority and is_preempted(other.pod)
            for other in view.nodes.pods_on(row).values()
        )
        return VICTIM_TERMINATING if terminating else None

    def queueing_hint(self, _event: ClusterEvent, _pod: PodInfo, _view: View) -> bool:
        """Return False: other plugins' hints requeue the pod when its victims are deleted."""
        return False


def _node_with_terminating_victims(
    search: CandidateSearch, rejection: Rejection, view: View
) -> str:
    """Return a node whose victims already terminate and that no pod is nominated to, or "".

    The nomination of a reservation is only in memory: after a restart it is found again like this,
    and nothing is evicted twice.
    """
    nominations = view.world.nominations
    rows = {row for pod, row in view.nodes.pods() if pod.terminating and is_preempted(pod.pod)}
    for row in sorted(rows):
        if rejection.codes[row] == Code.UNSCHEDULABLE and not nominations.on(view.nodes.names[row]):
            outcome = search.outcome(row)
            if isinstance(outcome, Candidate) and all(v.terminating for v in outcome.victims):
                return outcome.node
    return ""


def _read_pods_in_steps(filters: Sequence[FilterPair], view: View) -> Iterator[None]:
    """Rank the pods and read their values, with pauses in which the world may change.

    Ranking 150,000 pods takes 0.2 seconds, and each value that a filter counts takes as long again.
    The dry runs themselves take milliseconds then.
    """
    resources, limits = _what_counts(filters, view)  # the plans may be outdated after a pause
    ranked = yield from view.nodes.ranked_pods_in_steps()
    yield from dry_run_cache_of(view.world).budgets.read_in_steps(ranked)
    protected = protection_by(filters, view.pod)
    if protected is not None:
        yield from ranked.values_in_steps(*protected_pods(protected))
    for resource in resources:
        yield from ranked.amounts_in_steps(resource)
    for limit in limits:
        yield from ranked.values_in_steps(
            limit.key, limit.count_of, limit.version, by_label_group=limit.by_label_group
        )


def _what_counts(
    filters: Sequence[FilterPair], view: View
) -> tuple[Sequence[int], Sequence[PodLimit]]:
    """Return the resources and limits of the dry runs; none if rows are dry-run one by one."""
    plan_and_needs = requiring_resources(filters)
    if plan_and_needs is None:
        return (), ()
    in_sets = nominated_in_sets(filters, view.world, view.pod)
    resources = [resource for resource, _ in plan_and_needs[1].amounts]
    return resources, CollectedLimits(filters, in_sets).limits
