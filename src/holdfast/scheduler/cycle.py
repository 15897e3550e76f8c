"""One pod's turn: decide, enter the promises, hand over to binding; every step can be undone.

Nothing here waits. The decision is ``engine``'s, pure; what this adds is the order of things:
the pod is assumed on its node *before* the plugins enter their promises, so that no later
decision can take the same room, and a refusal withdraws everything in reverse.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import Feasible, feasible, rank
from holdfast.engine.decision_check import placement_faults, rejection_faults
from holdfast.engine.post_filter import run_post_filter_plugins
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import (
    Code,
    PermitPlugin,
    Placement,
    PostFilterResult,
    Reject,
    ReservePlugin,
)
from holdfast.framework.rejection import Rejection, fit_error_message
from holdfast.framework.world import World

CLEAR_NOMINATION = PostFilterResult("", nominated_node="")
"""Nothing is to be done, and no node is promised any more."""


@dataclass(frozen=True, slots=True)
class SchedulingFailure:
    """No node will do; ``effect`` is what the plugins want done about it."""

    message: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    effect: PostFilterResult | None = None
    error: bool = False
    """The attempt failed, not the pod: nobody is to blame, try again."""


def schedule_pod(
    profile: Profile, pod_info: PodInfo, world: World, now: float, rng: np.random.Generator
) -> Placement | SchedulingFailure:
    """Find the pod its node and hold the room, or say why not."""
    return select_and_assume(profile, feasible(profile, pod_info, world, now), world, now, rng)


def select_and_assume(
    profile: Profile,
    found: Feasible | Rejection,
    world: World,
    now: float,
    rng: np.random.Generator,
    *,
    points: NDArray[np.float64] | None = None,
) -> Placement | SchedulingFailure:
    """Take the best of the feasible nodes and hold the room there; ``points`` count besides."""
    if isinstance(found, Rejection):
        if world.auditor is not None:
            world.auditor.note_faults(rejection_faults(profile, found))
        return scheduling_failure(profile, found, world, now)
    placement = rank(profile, found, rng, points)
    placement.now = now
    if world.auditor is None:
        return _take(profile, world, placement)
    extended = points is not None
    world.auditor.note_faults(placement_faults(profile, found, placement, extended=extended))
    world.auditor.before_attempt()
    outcome = _take(profile, world, placement)
    world.auditor.after_attempt(outcome if isinstance(outcome, Placement) else None)
    return outcome


def _take(profile: Profile, world: World, placement: Placement) -> Placement | SchedulingFailure:
    """Hold the room a pod was given, with everybody's permission."""
    placement.nominated_node = world.nominations.node_of(placement.pod.uid)
    refusal = assume_and_reserve(profile, world, placement)
    if refusal is not None:
        return _refused("Reserve", *refusal)
    refusal = _permit(profile, world, placement)
    if refusal is not None:
        unreserve_and_forget(profile, world, placement)
        return _refused("Permit", *refusal)
    return placement


def assume_and_reserve(
    profile: Profile, world: World, placement: Placement
) -> tuple[str, Reject] | None:
    """Enter the pod and every plugin's promise in the ledgers; all of them or none."""
    world.assume(placement.pod, placement.row)
    try:
        for plugin in profile.plugins_run_for(ReservePlugin, placement.states):
            refusal = plugin.reserve(placement.states.get(plugin.name), placement)
            if refusal is not None:
                unreserve_and_forget(profile, world, placement)
                return plugin.name, refusal
    except Exception:
        unreserve_and_forget(profile, world, placement)
        raise
    return None


def unreserve_and_forget(profile: Profile, world: World, placement: Placement) -> None:
    """Withdraw everything ``assume_and_reserve`` entered, in reverse order."""
    for plugin in reversed(profile.plugins_run_for(ReservePlugin, placement.states)):
        plugin.unreserve(placement.states.get(plugin.name), placement)
    world.forget(placement.pod.uid)


def rejected_on_node(plugin: str, *reasons: str) -> SchedulingFailure:
    """Turn a pod away that had found its node but may not have it."""
    message = fit_error_message(1, Counter(reasons))
    return SchedulingFailure(message, frozenset({plugin}), frozenset(), CLEAR_NOMINATION)


def _permit(profile: Profile, world: World, placement: Placement) -> tuple[str, Reject] | None:
    """Ask every plugin for its permission; if one wants to wait, the pod does."""
    if not profile.plugins_at(PermitPlugin):
        return None
    seconds: dict[str, float] = {}
    try:
        for plugin in profile.plugins_run_for(PermitPlugin, placement.states):
            answer = plugin.permit(placement.states.get(plugin.name), placement, world.waiting)
            if isinstance(answer, Reject):
                return plugin.name, answer
            if answer is not None:
                seconds[plugin.name] = answer.seconds
    except Exception:
        unreserve_and_forget(profile, world, placement)
        raise
    if seconds:
        world.waiting.add(placement, seconds, placement.now)
    return None


def _refused(point: str, plugin: str, reject: Reject) -> SchedulingFailure:
    if reject.code is Code.ERROR:
        message = f'running {point} plugin "{plugin}": {", ".join(reject.reasons)}'
        return SchedulingFailure(message, frozenset(), frozenset(), error=True)
    scheduling_failure = rejected_on_node(plugin, *reject.reasons)
    pending = (
        scheduling_failure.unschedulable_plugins if reject.code is Code.PENDING else frozenset()
    )
    return replace(scheduling_failure, pending_plugins=pending)


def fit_error(rejection: Rejection, effect: PostFilterResult | None) -> str:
    """Write why no node will do and, after it, what came of trying to change that."""
    message = rejection.message()
    return f"{message} {effect.message}" if effect is not None and effect.message else message


def scheduling_failure(
    profile: Profile, rejection: Rejection, world: World, now: float
) -> SchedulingFailure:
    """Turn a pod away that fits nowhere, once the plugins have said what to do about it."""
    if rejection.code is Code.ERROR:
        return SchedulingFailure(rejection.message(), frozenset(), frozenset(), error=True)
    effect = run_post_filter_plugins(profile, rejection, world, now)
    if not rejection.nodes:
        effect = CLEAR_NOMINATION
    return SchedulingFailure(
        fit_error(rejection, effect),
        rejection.unschedulable_plugins,
        rejection.pending_plugins,
        effect,
    )
