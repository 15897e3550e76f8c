"""Compute what a scheduling cycle will read before it begins, so that it does not take seconds.

A scheduling cycle cannot pause. The first pod with a new claim may need thousands of searches for
devices, the first preemption ranks all pods. This is done before, in short steps between which
other tasks run. Then the cycle finds the results. The world may change meanwhile; what became
outdated is computed again.

Usually the pods behind wait, so that pods are scheduled in their order. A search may take as long
as the filter timeout, though: after LONG_SECONDS it goes on in the background, and they do not
wait any more.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial

from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.preparation import prepare_in_steps
from holdfast.engine.profile import Profile
from holdfast.framework.world import World
from holdfast.scheduler.queued_pods import QueuedPodInfo

log = logging.getLogger(__name__)

STEP_SECONDS = 0.002
"""Other tasks run after this time."""
LONG_SECONDS = 0.5
"""For this time pods wait for the preparation of one before them."""
_MAX_ROUNDS = 5
"""How often outdated results are computed again; then the cycle computes the rest."""
Steps = Iterator[None]


async def prepare_cycle(
    profile: Profile,
    pod: PodInfo,
    world: World,
    clock: Clock,
    *,
    stops: Callable[[], bool] = lambda: False,
    remaining: Steps | None = None,
) -> bool:
    """Let the plugins compute in steps what they will read; return whether it came to its end.

    It ends early when ``stops`` returns True after a pause. ``remaining`` are the steps of a first
    round that needs a pause now.
    """
    for _ in range(_MAX_ROUNDS):
        try:
            if remaining is None:
                remaining = prepare_in_steps(profile, pod, world, clock.now())
                if _advance(remaining, clock):
                    break
        except Exception:
            _log_failure(pod)
            break  # the cycle will meet the same error, and handles it
        try:
            while True:
                await asyncio.sleep(0)
                if stops():
                    return False
                if _advance(remaining, clock):
                    break
        except Exception:
            _log_failure(pod)  # what it read may have been outdated
        # The world may have changed in the pauses.
        remaining = None
    return True


def _advance(steps: Steps, clock: Clock) -> bool:
    """Take steps until a pause is due; return whether they have ended."""
    pause_at = clock.monotonic() + STEP_SECONDS
    return all(clock.monotonic() < pause_at for _ in steps)


def _log_failure(pod: PodInfo) -> None:
    """Log an error of a plugin in a preparation; the cycle handles it if it occurs there again."""
    log.debug("preparing the scheduling cycle of %s failed", pod.key, exc_info=True)


class Preparations:
    """Prepares the cycles of pods; long preparations go on while other pods are scheduled.

    There is one in the background at a time: pods with equal claims find the results of the first.
    A pod is in flight for the scheduling queue meanwhile. ``on_ready`` is called when ``pop``
    returns it.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        world: World,
        clock: Clock,
        on_ready: Callable[[], None],
    ) -> None:
        self._profiles = profiles
        self._world = world
        self._clock = clock
        self._on_ready = on_ready
        self._waiting: deque[QueuedPodInfo] = deque()
        self._prepared: deque[QueuedPodInfo] = deque()
        self._popped: QueuedPodInfo | None = None
        self._worker: asyncio.Task[None] | None = None

    def pop(self) -> QueuedPodInfo | None:
        """Return a pod that was prepared in the background, or None."""
        self._popped = self._prepared.popleft() if self._prepared else None
        return self._popped

    def begin(self, queued: QueuedPodInfo) -> Steps | None:
        """Prepare the cycle of a pod until a pause is needed; return the remaining steps, if any.

        Most pods need no pause, and no coroutine.
        """
        if queued.removed:
            return None
        pod_info = queued.pod_info
        profile = self._profiles[pod_info.scheduler_name]
        steps = prepare_in_steps(profile, pod_info, self._world, self._clock.now())
        try:
            return None if _advance(steps, self._clock) else steps
        except Exception:
            _log_failure(pod_info)
            return None

    async def finish(self, queued: QueuedPodInfo, steps: Steps) -> bool:
        """Take the remaining steps; return False if ``pop`` will return the pod later.

        Then they go on in the background. A pod that was there is not moved there again.
        """
        end = math.inf if queued is self._popped else self._clock.monotonic() + LONG_SECONDS
        finished = await self._prepare(queued, lambda: self._clock.monotonic() > end, steps)
        if not finished:
            self._waiting.append(queued)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.create_task(self._run(), name="scheduler: preparations")
        return finished

    async def stop(self) -> None:
        """Stop the preparation in the background; its pods stay without a node."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})

    async def _run(self) -> None:
        while self._waiting:
            queued = self._waiting.popleft()
            await self._prepare(queued, partial(getattr, queued, "removed"))
            self._prepared.append(queued)
            self._on_ready()

    def _prepare(
        self, queued: QueuedPodInfo, stops: Callable[[], bool], remaining: Steps | None = None
    ) -> Awaitable[bool]:
        pod_info = queued.pod_info
        profile = self._profiles[pod_info.scheduler_name]
        return prepare_cycle(
            profile, pod_info, self._world, self._clock, stops=stops, remaining=remaining
        )
