"""One pod's turn: decide, enter the promises, hand over to binding; every step can be undone.

Nothing here waits. The decision is ``framework``'s, pure; what this adds is the order of things:
the pod is assumed on its node *before* the plugins enter their promises, so that no later
decision can take the same room, and a refusal withdraws everything in reverse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import Code, Effect, Placement, Reject, Reserves
from holdfast.framework.profile import Profile
from holdfast.framework.rejection import Rejection
from holdfast.framework.runner import after_reject, feasible, rank
from holdfast.framework.world import World


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """No node will do; ``effect`` is what the plugins want done about it."""

    message: str
    rejectors: frozenset[str]
    pending_on: frozenset[str]
    effect: Effect | None = None
    retry_at: float | None = None
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
    return TurnedAway(f"0/1 nodes are available: 1 {words}.", frozenset({plugin}), frozenset())


def hold(profile: Profile, world: World, placement: Placement) -> tuple[str, Reject] | None:
    """Enter the pod and every plugin's promise in the ledgers; all of them or none."""
    world.assume(placement.pod, placement.row)
    try:
        for plugin in profile.having(Reserves):
            if plugin.name not in placement.states:
                continue
            refusal = plugin.reserve(placement.states[plugin.name], placement)
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
        if plugin.name in placement.states:
            plugin.unreserve(placement.states[plugin.name], placement)
    world.forget(placement.pod.uid)


def _turned_away(profile: Profile, rejection: Rejection, world: World, now: float) -> TurnedAway:
    if rejection.code is Code.ERROR:
        return TurnedAway(rejection.message(), frozenset(), frozenset(), error=True)
    effect = after_reject(profile, rejection, world, now)
    message = rejection.message()
    if effect is not None and effect.evict:
        message = f"{message} {_would_help(effect)}"
        effect = replace(effect, nominate=None)
    elif effect is not None and effect.message:
        message = f"{message} {effect.message}"
    return TurnedAway(
        message, rejection.rejectors, rejection.pending_on, effect, rejection.retry_at
    )


def _would_help(effect: Effect) -> str:
    """Say what preemption found; nominating a node nobody is evicted from would only block it."""
    victims = ", ".join(victim.key for victim in effect.evict)
    return (
        f"preemption: evicting {victims} from {effect.nominate} would make room, "
        "but carrying out preemption is not built yet."
    )
