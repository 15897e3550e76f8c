"""One pod's turn: decide, enter the promises, hand over to binding; every step can be undone.

Nothing here waits. The decision is ``framework``'s, pure; what this adds is the order of things:
the pod is assumed on its node *before* the plugins enter their promises, so that no later
decision can take the same room, and a refusal withdraws everything in reverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import Code, Effect, Placement, Reject, Reserves, concerned
from holdfast.framework.profile import Profile
from holdfast.framework.rejection import Rejection
from holdfast.framework.runner import after_reject, feasible, rank
from holdfast.framework.world import World

UNPROMISED = Effect("", nominate="")
"""Nothing is to be done, and no node is promised any more."""


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """No node will do; ``effect`` is what the plugins want done about it."""

    message: str
    rejectors: frozenset[str]
    pending_on: frozenset[str]
    effect: Effect | None = None
    error: bool = False
    """The attempt failed, not the pod: nobody is to blame, try again."""


def attempt(
    profile: Profile, facts: PodFacts, world: World, now: float, rng: np.random.Generator
) -> Placement | TurnedAway:
    """Find the pod its node and hold the room, or say why not."""
    outcome = feasible(profile, facts, world, now)
    if isinstance(outcome, Rejection):
        return _turned_away(profile, outcome, world, now)
    placement = rank(profile, outcome, rng)
    placement.now = now
    refusal = hold(profile, world, placement)
    if refusal is None:
        return placement
    plugin, reject = refusal
    words = ", ".join(reject.reasons)
    if reject.code is Code.ERROR:
        message = f'running Reserve plugin "{plugin}": {words}'
        return TurnedAway(message, frozenset(), frozenset(), error=True)
    message = f"0/1 nodes are available: 1 {words}."
    return TurnedAway(message, frozenset({plugin}), frozenset(), UNPROMISED)


def hold(profile: Profile, world: World, placement: Placement) -> tuple[str, Reject] | None:
    """Enter the pod and every plugin's promise in the ledgers; all of them or none."""
    world.assume(placement.pod, placement.row)
    try:
        for plugin in profile.having(Reserves):
            if not concerned(plugin, placement):
                continue
            refusal = plugin.reserve(placement.states.get(plugin.name), placement)
            if refusal is not None:
                release(profile, world, placement)
                return plugin.name, refusal
    except Exception:
        release(profile, world, placement)
        raise
    return None


def release(profile: Profile, world: World, placement: Placement) -> None:
    """Withdraw everything ``hold`` entered, in reverse order."""
    for plugin in reversed(profile.having(Reserves)):
        if concerned(plugin, placement):
            plugin.unreserve(placement.states.get(plugin.name), placement)
    world.forget(placement.pod.uid)


def fit_error(rejection: Rejection, effect: Effect | None) -> str:
    """Write why no node will do and, after it, what came of trying to change that."""
    message = rejection.message()
    return f"{message} {effect.message}" if effect is not None and effect.message else message


def _turned_away(profile: Profile, rejection: Rejection, world: World, now: float) -> TurnedAway:
    if rejection.code is Code.ERROR:
        return TurnedAway(rejection.message(), frozenset(), frozenset(), error=True)
    effect = after_reject(profile, rejection, world, now)
    if not rejection.nodes:
        effect = UNPROMISED
    return TurnedAway(
        fit_error(rejection, effect),
        rejection.rejectors,
        rejection.pending_on,
        effect,
    )
