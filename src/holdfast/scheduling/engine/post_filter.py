"""Run the PostFilter plugins for a rejected pod; tier by tier if a plugin wants that.

With ``Tiers.preempts_before_next_tier`` preemption is tried in a tier before the next one. A pod
that fits only on rows of a lower tier is not placed there if preemption helps in a better one: it
is nominated there, and waits while its victims terminate. If preemption helps in no better tier,
the pod is placed in the same attempt. A pod that fits nowhere is nominated in the best tier where
preemption helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.lazy_sequence import LazySequence
from holdfast.scheduling.engine.preemption import (
    PreemptionCost,
    TierNumbers,
    active_tiers,
    cost_of,
    row_tiers,
)
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.rejections import reject_by_row
from holdfast.scheduling.framework.extender import ExtenderPreemption
from holdfast.scheduling.framework.plan import PodPlan, Tiers
from holdfast.scheduling.framework.plugin import Candidate, Code, Plugin, PostFilterResult
from holdfast.scheduling.framework.points import Point, overrides
from holdfast.scheduling.framework.rejection import PASSED, Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World


class BetterTierPreemption(NamedTuple):
    """A pod that is not placed, because of preemption in a better tier.

    ``rejection`` says why it does not fit on the rows of better tiers than its best feasible row.
    ``plugins`` want preemption there.
    """

    rejection: Rejection
    result: PostFilterResult
    plugins: frozenset[str]

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins whose queueing hints decide when the pod is tried again.

        They include the plugins that want preemption, because these may stop wanting it.
        """
        return self.rejection.unschedulable_plugins | self.plugins

    def message(self) -> str:
        """Return why the pod does not fit on these rows, and that it is not placed elsewhere."""
        fit = self.rejection.message()
        return f"{fit} Nodes of lower tiers are used only if preemption fails: {self._state()}."

    def _state(self) -> str:
        if self.result.victims_terminating:
            return "waiting for preempted pods to terminate"
        return f"nominated node {self.result.nominated_node}"


def preempt_in_better_tiers(
    profile: Profile,
    found: Feasible,
    now: float,
    extender_preemption: ExtenderPreemption | None = None,
) -> BetterTierPreemption | None:
    """Preempt in better tiers than that of the best feasible row, if a plugin wants that.

    None: the pod is placed. A pod that is nominated to a feasible row is placed there.
    """
    if found.preselected_row is not None or not found.pod_class.parts.may_have_tiers:
        return None
    wanting = _wanting_plugins(found.plans)
    if not wanting:
        return None
    tiers = row_tiers(active_tiers(found.outcomes), found.view.nodes)
    if tiers is None:
        return None
    best = int(tiers[found.rows].min())
    better = tiers < best
    if not better.any():
        return None
    # If the best tier was found without the other rows, their results may be out of date.
    found.class_of_all_tiers.refresh()
    whole = reject_by_row(found.view, found.outcomes, found.statuses)
    whole.extender_preemption = extender_preemption
    result = _preempt_by_tier(profile, whole, tiers, now, best)
    return None if result is None else BetterTierPreemption(_only(whole, better), result, wanting)


def wants_better_tiers(found: Feasible) -> bool:
    """Return whether a plugin wants preemption in better tiers for a pod that fits."""
    return found.preselected_row is None and bool(_wanting_plugins(found.plans))


def run_post_filter_plugins_by_tier(
    profile: Profile, rejection: Rejection, now: float
) -> PostFilterResult | None:
    """Run the PostFilter plugins for a pod that fits nowhere; tier by tier if a plugin wants that.

    As ``run_post_filter_plugins``.
    """
    if rejection.tiers and _wanting_plugins(rejection.plans):
        tiers = row_tiers(rejection.tiers, rejection.view.nodes)
        if tiers is not None:
            result = _preempt_by_tier(profile, rejection, tiers, now, int(tiers.max()) + 1)
            if result is not None:
                return result
    return run_post_filter_plugins(profile, rejection, rejection.view.world, now)


def _wanting_plugins(plans: Mapping[str, PodPlan]) -> frozenset[str]:
    """Return the plugins that want preemption before the next tier for this pod."""
    return frozenset(
        name
        for name, plan in plans.items()
        if isinstance(plan, Tiers) and plan.preempts_before_next_tier()
    )


def _preempt_by_tier(
    profile: Profile, rejection: Rejection, tiers: TierNumbers, now: float, end: int
) -> PostFilterResult | None:
    """Preempt in the tiers before ``end``, the best first; None if it helps in none of them.

    While victims terminate on the node that the pod is nominated to, no others are evicted.
    """
    nodes, pod = rejection.view.nodes, rejection.pod
    for tier in _tiers_to_try(rejection, tiers, end):
        only = _only(rejection, tiers == tier)
        result = run_post_filter_plugins(profile, only, rejection.view.world, now)
        if result is None:
            continue
        if result.victims_terminating:
            # They may terminate on a row that is no better than those where the pod fits.
            nominated = rejection.view.world.nominations.node_of(pod.uid)
            row = nodes.row_of.get(nominated or pod.pod.status.nominated_node_name)
            return result if row is not None and tiers[row] < end else None
        if result.code is Code.PASS and result.nominated_node:
            return result
    return None


def _tiers_to_try(rejection: Rejection, tiers: TierNumbers, end: int) -> Iterator[int]:
    tried = tiers[(rejection.codes == Code.UNSCHEDULABLE) & (tiers < end)]
    yield from np.bincount(tried).nonzero()[0].tolist()


def _only(rejection: Rejection, rows: NDArray[np.bool_]) -> Rejection:
    """Return the rejection of these rows alone; the others count as if they passed."""
    nodes = rejection.view.nodes
    statuses = rejection.statuses.resized(nodes.size)
    statuses.put_all((~rows).nonzero()[0], None)
    return replace(
        rejection,
        nodes=int(np.count_nonzero(rows & nodes.alive[: nodes.size])),
        codes=np.where(rows, rejection.codes, 0).astype(np.int8),
        plugin_of=np.where(rows, rejection.plugin_of, PASSED).astype(np.int8),
        statuses=statuses,
        rejecting_filters=None,
        reason_counts=None,
    )


def run_post_filter_plugins(
    profile: Profile, rejection: Rejection, world: World, now: float
) -> PostFilterResult | None:
    """Call the PostFilter plugins in order, until one returns a code other than UNSCHEDULABLE.

    After a result with ``unless_cheaper`` the others are called as well, and one result is chosen.
    Returns their combined result; None if the pod was not filtered, or there are no such plugins.
    """
    if rejection.error or not rejection.nodes or rejection.pod.excess:
        return None
    view = profile.view(rejection.pod, world, now)
    results: list[PostFilterResult] = []
    proposal: PostFilterResult | None = None
    for plugin in profile.plugins_at(Point.POST_FILTER):
        if _lacks_plan(plugin, rejection):
            # Another plugin ended PreFilter before this one; upstream has the same message.
            result = PostFilterResult(plugin.name, "not found", code=Code.ERROR)
        else:
            result = profile.meter.call(
                plugin.name, Point.POST_FILTER, plugin.post_filter, rejection, view
            )
        if result.unless_cheaper and proposal is None:
            # While the first success ended PostFilter, an important user of a device was evicted
            # although a cheap pod on another node only used CPU (decision 0032).
            proposal = result
            continue
        results.append(result)
        if result.code is not Code.UNSCHEDULABLE:
            break
    merged = _merged(results) if results else None
    if proposal is None or merged is None:
        return merged or proposal
    return _cheaper(proposal, merged, rejection, view)


def _cheaper(
    proposal: PostFilterResult, other: PostFilterResult, rejection: Rejection, view: View
) -> PostFilterResult:
    """Return the result whose victims cost less; ``other`` may have none.

    No pod is evicted while victims of an earlier preemption terminate.
    """
    chosen, tied = proposal, proposal.tied_nodes
    if other.victims_terminating:
        chosen, tied = other, other.tied_nodes
    elif other.code is Code.PASS and other.nominated_node:
        tiers = row_tiers(rejection.tiers, view.nodes)
        costs = [_cost(result, tiers, view) for result in (proposal, other)]
        if costs[1] < costs[0]:
            chosen, tied = other, other.tied_nodes
        elif costs[1] == costs[0]:
            tied = LazySequence(lambda: [*proposal.tied_nodes, *other.tied_nodes])
    return replace(
        chosen,
        calls=(*proposal.calls, *other.calls),
        events=(*proposal.events, *other.events),
        candidates=LazySequence(lambda: [*proposal.candidates, *other.candidates]),
        tied_nodes=tied,
        requeueing_plugins=proposal.requeueing_plugins | other.requeueing_plugins,
    )


def _cost(result: PostFilterResult, tiers: TierNumbers | None, view: View) -> PreemptionCost:
    node = result.nominated_node or ""
    tier = 0 if tiers is None else int(tiers[view.nodes.row_of[node]])
    return cost_of(Candidate(node, result.victims, result.violations), view.now, tier)


def _lacks_plan(plugin: Plugin, rejection: Rejection) -> bool:
    """Return whether a plugin needs its plan, but its ``pre_filter`` did not run."""
    if plugin.traits.post_filter_without_plan or not overrides(plugin, Plugin.pre_filter):
        return False
    return plugin.name not in rejection.pre_filtered


def _merged(results: list[PostFilterResult]) -> PostFilterResult:
    """Combine results: one that ended the calls decides, but all calls and events count.

    Otherwise messages are joined, and the last nomination counts.
    """
    last = results[-1]
    calls = tuple([call for r in results for call in r.calls])
    events = tuple([event for r in results for event in r.events])
    requeueing = frozenset().union(*(r.requeueing_plugins for r in results))
    if last.code is not Code.UNSCHEDULABLE:
        # Usually the other plugins have neither.
        complete = calls == last.calls and events == last.events
        return last if complete else replace(last, calls=calls, events=events)
    return PostFilterResult(
        plugin=", ".join(r.plugin for r in results),
        message=", ".join(r.message for r in results if r.message),
        nominated_node=next(
            (r.nominated_node for r in reversed(results) if r.nominated_node is not None), None
        ),
        victims=tuple(pod for r in results for pod in r.victims),
        calls=calls,
        code=last.code,
        events=events,
        victims_terminating=any(r.victims_terminating for r in results),
        requeueing_plugins=requeueing,
    )
