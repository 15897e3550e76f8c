"""The scheduling cycle of one pod: select a node, assume, run the Reserve and Permit plugins.

Nothing here waits for I/O. ``engine`` selects the node; this module changes the world. The pod is
assumed *before* the Reserve plugins run, so that no later decision uses the same resources, and a
rejection undoes every step in reverse order.

An exception at any step also undoes them: plugins may be the user's, and a pod that stays assumed
keeps its resources until the scheduler is restarted. ``unreserve`` is called for all plugins, also
those whose ``reserve`` did not run; that is why it must be idempotent.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.api.allocation_keys import recorded_allocations
from holdfast.scheduling.engine.decision import feasible, rank
from holdfast.scheduling.engine.decision_check import (
    better_tier_faults,
    placement_faults,
    rejection_faults,
)
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.post_filter import (
    preempt_in_better_tiers,
    run_post_filter_plugins_by_tier,
)
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import ExtenderPreemption
from holdfast.scheduling.framework.plugin import (
    Code,
    Placement,
    Plugin,
    PostFilterResult,
    Reject,
    finite_time,
)
from holdfast.scheduling.framework.points import Point, overrides
from holdfast.scheduling.framework.rejection import Rejection, fit_error_message
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)
CLEAR_NOMINATION = PostFilterResult("", nominated_node="")
"""No action, and the pod is not nominated to a node any more."""


@dataclass(frozen=True, slots=True)
class SchedulingFailure:
    """A pod got no node; ``post_filter_result`` is that of the PostFilter plugins."""

    message: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    post_filter_result: PostFilterResult | None = None
    error: bool = False
    """Whether the attempt ended in an error; then no plugin has rejected the pod."""
    retry_at: float | None = None
    """When the pod is tried again even without an event; seconds since the epoch."""
    condition_reason: str = ""
    """The reason of the pod's condition, if it is not Unschedulable."""
    first_pending: bool = False
    """Whether the pod begins to wait for another component: that is no failure, so no event."""
    in_pre_bind: bool = False
    """Whether a PreBind plugin rejected the pod: it fits, but waits for something else."""
    condition_event: str = ""
    """The message of the event of that reason: each reason of the plugin once."""


def schedule_pod(
    profile: Profile, view: View, rng: np.random.Generator
) -> Placement | SchedulingFailure:
    """Select a node and assume the pod of the view there, or return why not."""
    filter_result = feasible(profile, view)
    # Check the class first: asking about better tiers cost every pod 2 to 3 % of its decision.
    if isinstance(filter_result, Feasible) and filter_result.pod_class.parts.may_have_tiers:
        failure = failure_before_next_tier(profile, filter_result, view.now)
        if failure is not None:
            return failure
    return select_and_assume(profile, filter_result, view.world, view.now, rng)


def failure_before_next_tier(
    profile: Profile,
    feasible: Feasible,
    now: float,
    extender_preemption: ExtenderPreemption | None = None,
    *,
    extended: bool = False,
) -> SchedulingFailure | None:
    """Return the failure of a pod that preempts in a better tier instead of being placed.

    ``extended``: extenders were called, so feasible rows may be missing.
    """
    preemption = preempt_in_better_tiers(profile, feasible, now, extender_preemption)
    if preemption is None:
        return None
    rejection, auditor = preemption.rejection, feasible.view.world.auditor
    if auditor is not None and not extended:
        auditor.note_faults(better_tier_faults(profile, feasible, preemption))
    return SchedulingFailure(
        preemption.message(),
        preemption.unschedulable_plugins,
        rejection.pending_plugins,
        preemption.result,
        retry_at=rejection.retry_at,
    )


def select_and_assume(
    profile: Profile,
    filter_result: Feasible | Rejection,
    world: World,
    now: float,
    rng: np.random.Generator,
    *,
    points: NDArray[np.float64] | None = None,
) -> Placement | SchedulingFailure:
    """Assume the pod on the best feasible node; ``points`` of extenders are added to the scores.

    The world has an auditor only under ``--check-invariants``.
    """
    if isinstance(filter_result, Rejection):
        if world.auditor is not None:
            world.auditor.note_faults(rejection_faults(profile, filter_result))
        return scheduling_failure(profile, filter_result, now, rng)
    placement = rank(profile, filter_result, rng, points)
    placement.now = now
    if world.auditor is None:
        return _assume_and_permit(profile, world, placement)
    extended = points is not None
    world.auditor.note_faults(
        placement_faults(profile, filter_result, placement, extended=extended)
    )
    world.auditor.before_attempt()
    outcome = _assume_and_permit(profile, world, placement)
    world.auditor.after_attempt(outcome if isinstance(outcome, Placement) else None)
    return outcome


def _assume_and_permit(
    profile: Profile, world: World, placement: Placement
) -> Placement | SchedulingFailure:
    """Assume the pod and run the Reserve and Permit plugins; undo all of it on a rejection."""
    placement.nominated_node = world.nominations.node_of(placement.pod.uid)
    rejection = assume_and_reserve(profile, world, placement)
    if rejection is not None:
        return rejection_at("Reserve", *rejection)
    rejection = _permit(profile, world, placement)
    if rejection is not None:
        unreserve_and_forget(profile, world, placement)
        return rejection_at("Permit", *rejection)
    return placement


def assume_and_reserve(
    profile: Profile, world: World, placement: Placement
) -> tuple[str, Reject] | None:
    """Assume the pod and run the Reserve plugins; undo all of it if one rejects the pod."""
    world.assume(placement.pod, placement.row)
    try:
        for name, plan in profile.reservers(Point.RESERVE, placement):
            rejection = profile.meter.call(name, Point.RESERVE, plan.reserve, placement)
            if rejection is not None:
                unreserve_and_forget(profile, world, placement)
                return name, rejection
    except Exception:
        unreserve_and_forget(profile, world, placement)
        raise
    if placement.pod.pod.metadata.annotations:
        _empty_foreign_allocations(placement)
    if placement.annotations and not placement.pod.is_reserve_pod:
        world.recorded.expect(placement.pod.uid, placement.node, placement.annotations)
    return None


def _empty_foreign_allocations(placement: Placement) -> None:
    """Empty the annotations of allocations that the pod was created with but does not have.

    The ledgers would read them back after a restart. A Binding can overwrite an annotation but not
    remove it. The plugins do not do this: one that has nothing to do for a pod that requests no GPU
    kept the GPUs that the pod's creator had written.
    """
    for key in recorded_allocations(placement.pod.pod.metadata.annotations):
        placement.annotations.setdefault(key, "")


def unreserve_and_forget(profile: Profile, world: World, placement: Placement) -> None:
    """Undo ``assume_and_reserve`` in reverse order."""
    for _, plan in reversed(profile.reservers(Point.RESERVE, placement)):
        plan.unreserve(placement)
    world.recorded.unexpect(placement.pod.uid)
    world.forget(placement.pod.uid)


def rejected_on_node(plugin: str, *reasons: str) -> SchedulingFailure:
    """Return the failure of a pod that a plugin rejected after its node was selected."""
    message = fit_error_message(1, Counter(reasons))
    return SchedulingFailure(message, frozenset({plugin}), frozenset(), CLEAR_NOMINATION)


def _permit(profile: Profile, world: World, placement: Placement) -> tuple[str, Reject] | None:
    """Run the Permit plugins; if one returns Wait, add the pod to the waiting pods."""
    if not profile.plugins_at(Point.PERMIT):
        return None
    seconds: dict[str, float] = {}
    try:
        for plugin in profile.plugins_for(Point.PERMIT, placement.plans):
            result = profile.meter.call(
                plugin.name, Point.PERMIT, plugin.permit, placement, world.waiting
            )
            if isinstance(result, Reject):
                return plugin.name, result
            if result is not None:
                seconds[plugin.name] = result.seconds
    except Exception:
        unreserve_and_forget(profile, world, placement)
        raise
    if seconds:
        world.waiting.add(placement, seconds, placement.now)
    return None


def rejection_at(point: str, plugin: str, reject: Reject) -> SchedulingFailure:
    """Return the failure of a pod that a plugin rejected at a point after the node was selected."""
    if reject.code is Code.ERROR:
        message = f'running {point} plugin "{plugin}": {", ".join(reject.reasons)}'
        return SchedulingFailure(message, frozenset(), frozenset(), error=True)
    failure = rejected_on_node(plugin, *reject.reasons)
    pending = failure.unschedulable_plugins if reject.code is Code.PENDING else frozenset()
    return replace(failure, pending_plugins=pending, retry_at=finite_time(reject.retry_at))


def fit_error(rejection: Rejection, result: PostFilterResult | None) -> str:
    """Return why the pod fits no node, followed by the message of the PostFilter plugins."""
    message = rejection.message()
    return f"{message} {result.message}" if result is not None and result.message else message


def with_calls_before_eviction(
    profile: Profile, pod: PodInfo, failure: SchedulingFailure, world: World, now: float
) -> SchedulingFailure:
    """Add what PostFilter plugins write before the victims of a preemption are evicted."""
    result = failure.post_filter_result
    if result is None or not (result.victims and result.nominated_node):
        return failure
    try:
        calls = [
            call
            for plugin in profile.plugins_at(Point.POST_FILTER)
            if overrides(plugin, Plugin.calls_before_eviction)
            for call in plugin.calls_before_eviction(pod, result.nominated_node, world, now)
        ]
    except Exception as bug:
        log.exception("preparing the evictions for %s failed", pod.key)
        return SchedulingFailure(str(bug) or repr(bug), frozenset(), frozenset(), error=True)
    if not calls:
        return failure
    return replace(failure, post_filter_result=replace(result, calls=(*result.calls, *calls)))


def scheduling_failure(
    profile: Profile, rejection: Rejection, now: float, rng: np.random.Generator
) -> SchedulingFailure:
    """Run the PostFilter plugins for a pod that fits no node, and return the failure."""
    if rejection.code is Code.ERROR:
        return SchedulingFailure(rejection.message(), frozenset(), frozenset(), error=True)
    rejection.rng = rng
    result = run_post_filter_plugins_by_tier(profile, rejection, now)
    if not rejection.nodes:
        result = CLEAR_NOMINATION
    requeueing = frozenset() if result is None else result.requeueing_plugins
    failure = SchedulingFailure(
        fit_error(rejection, result),
        rejection.unschedulable_plugins | requeueing,
        rejection.pending_plugins,
        result,
        retry_at=rejection.retry_at,
    )
    reason = rejection.condition_reason()
    if reason is None:
        return failure
    # The plugin's events requeue the pod, too, although another plugin may have rejected every node
    # first: after a cap is raised the reason is outdated, and autoscalers act on it.
    plugins = failure.unschedulable_plugins | {reason.plugin}
    return replace(
        failure,
        unschedulable_plugins=plugins,
        condition_reason=reason.reason,
        condition_event=reason.message,
    )
