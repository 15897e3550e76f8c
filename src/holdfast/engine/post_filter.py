"""Run the PostFilter plugins for a pod that fits on no node."""

from __future__ import annotations

from dataclasses import replace

from holdfast.engine.lazy_sequence import LazySequence
from holdfast.engine.preemption import PreemptionCost, cost_of
from holdfast.engine.profile import Profile
from holdfast.engine.tiers import TierNumbers, row_tiers
from holdfast.framework.plugin import Candidate, Code, Plugin, PostFilterResult
from holdfast.framework.points import Point, overrides
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.framework.world import World


def run_post_filter_plugins(
    profile: Profile, rejection: Rejection, world: World, now: float
) -> PostFilterResult | None:
    """Call the PostFilter plugins in order, until one returns a code other than UNSCHEDULABLE.

    After a result with ``unless_cheaper`` the others are called as well, and one of both is chosen.
    Returns their combined result; None if the pod was not filtered, or there are no such plugins.
    """
    if rejection.error or not rejection.nodes or rejection.pod.excess:
        return None
    view = profile.view(rejection.pod, world, now)
    results: list[PostFilterResult] = []
    proposal: PostFilterResult | None = None
    for plugin in profile.plugins_at(Point.POST_FILTER):
        if _lacks_plan(plugin, rejection):
            # Another plugin ended PreFilter before this one; upstream's message is this.
            result = PostFilterResult(plugin.name, "not found", code=Code.ERROR)
        else:
            result = profile.meter.call(
                plugin.name, Point.POST_FILTER, plugin.post_filter, rejection, view
            )
        if result.unless_cheaper and proposal is None:
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
