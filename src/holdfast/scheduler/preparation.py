"""Compute what a scheduling cycle will read before it begins, so that it does not take seconds.

A scheduling cycle cannot pause. The first pod with a new claim may need thousands of searches for
devices, so these are done before, in short steps between which other tasks run. Then the cycle
finds their results. The world may change meanwhile; what became outdated is computed again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial

from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import rows_to_filter
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import PreparePlugin
from holdfast.framework.view import View
from holdfast.framework.world import World

log = logging.getLogger(__name__)

STEP_SECONDS = 0.002
"""Other tasks run after this time."""
_MAX_ROUNDS = 5
"""How often outdated results are computed again; then the cycle computes the rest."""


async def prepare_cycle(profile: Profile, pod: PodInfo, world: World, clock: Clock) -> bool:
    """Let the plugins compute in steps what they will read; return whether other tasks ran."""
    paused = False
    if not profile.plugins_at(PreparePlugin):
        return paused
    try:
        for _ in range(_MAX_ROUNDS):
            began, finished = clock.monotonic(), True
            for _ in prepare_in_steps(profile, pod, world, clock.now()):
                if clock.monotonic() - began > STEP_SECONDS:
                    await asyncio.sleep(0)
                    began, finished, paused = clock.monotonic(), False, True
            if finished:
                break
    except Exception:
        # The cycle will meet the same error, and handles it.
        log.debug("preparing the scheduling cycle of %s failed", pod.key, exc_info=True)
    return paused


def prepare_in_steps(profile: Profile, pod: PodInfo, world: World, now: float) -> Iterator[None]:
    """Compute what the cycle of a pod will read, with pauses in which the world may change."""
    view = View(world, pod, now)
    for plugin in profile.plugins_at(PreparePlugin):
        rows = partial(rows_to_filter, profile, pod, world, now, plugin.name)
        yield from plugin.prepare(pod, view, rows)
