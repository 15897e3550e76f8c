"""Pods that extenders have a say about: asked beside the cycle, decided in an instant.

The cycle never waits for an extender. A pod that needs one stands in a line of its own, still in
flight as far as the queue is concerned, while other pods are placed. Extenders are told which nodes
would do; when they have answered, the world has moved on, so everything is looked at again: what
is feasible *now* is narrowed to what they allow, ranked and held at once. If that leaves nothing
but there are nodes they were not asked about, they are asked again.

The line is served one pod at a time, as extenders know it from kube-scheduler. One that binds pods
itself counts for itself: it hears of the next pod once the last one is bound.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import Feasible, feasible
from holdfast.engine.extender_results import ExtenderResults, Points, apply_extender_results
from holdfast.engine.profile import Profile
from holdfast.framework.extender import ExtenderFailed
from holdfast.framework.plugin import Placement
from holdfast.framework.rejection import Rejection
from holdfast.framework.world import World
from holdfast.scheduler.cycle import SchedulingFailure, scheduling_failure, select_and_assume
from holdfast.scheduler.extenders import Extenders
from holdfast.scheduler.queued_pods import QueuedPodInfo

log = logging.getLogger(__name__)

MAX_ROUNDS = 5
"""How often extenders are asked anew within one attempt because the cluster did not keep still."""
CHANGED_TOO_FAST = "the cluster changed faster than the extenders answered"

Outcome = Placement | SchedulingFailure
Conclude = Callable[[QueuedPodInfo, Outcome | None, float], None]
"""Carry an outcome out; None: nobody wants the pod placed any more. It took so many seconds."""


@dataclass(slots=True, eq=False)
class ExtenderQueue:
    """The line of pods that wait for extenders."""

    extenders: Extenders
    profiles: Mapping[str, Profile]
    world: World
    clock: Clock
    rng: np.random.Generator
    conclude: Conclude
    wait_for_binding: Callable[[str], Awaitable[None]]
    """Waits until a pod is bound, or is not, by uid."""
    _line: list[tuple[int, float, int, QueuedPodInfo]] = field(default_factory=list, init=False)
    _order: count[int] = field(default_factory=count, init=False)
    _worker: asyncio.Task[None] | None = field(default=None, init=False)

    def enter(self, queued: QueuedPodInfo) -> None:
        """Put a pod in the line: the more important first, then whoever waits longest."""
        place = (-queued.pod_info.priority, queued.since, next(self._order), queued)
        heapq.heappush(self._line, place)
        if self._worker is not None and self._worker.done():
            self._worker.result()  # a worker that failed did so over a defect: crash loudly
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._serve(), name="scheduler: extenders")

    async def stop(self) -> None:
        """Ask nobody any more; whoever stands in the line is still without a node."""
        self._line.clear()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})

    async def _serve(self) -> None:
        while self._line:
            *_, queued = heapq.heappop(self._line)
            began = self.clock.monotonic()
            try:
                outcome = await self._decide(queued)
            except ExtenderFailed as failure:
                outcome = _failed(str(failure))
            except Exception as bug:
                # One pod with an impossible field must not stop the others.
                log.exception("deciding for %s failed", queued.pod_info.key)
                outcome = _failed(str(bug) or repr(bug))
            self.conclude(queued, outcome, self.clock.monotonic() - began)
            if isinstance(outcome, Placement) and self.extenders.is_binder(outcome.pod):
                await self.wait_for_binding(queued.uid)

    async def _decide(self, queued: QueuedPodInfo) -> Outcome | None:
        for _ in range(MAX_ROUNDS):
            if _unwanted(queued):
                return None
            pod_info, found, opinion = queued.pod_info, self._feasible(queued), None
            if isinstance(found, Feasible):
                opinion = await self.extenders.filter_and_prioritize(found)
            if not _unchanged(queued, pod_info):
                continue
            heard = self._hear(queued, opinion)
            if isinstance(heard, Rejection):
                outcome = await self._turn_away(queued, opinion, heard)
            else:
                outcome = None if heard is None else self._place(queued, *heard)
            if outcome is not None:
                return outcome
        return None if _unwanted(queued) else _failed(CHANGED_TOO_FAST)

    def _feasible(self, queued: QueuedPodInfo) -> Feasible | Rejection:
        return feasible(self._profile(queued), queued.pod_info, self.world, self.clock.now())

    def _hear(
        self, queued: QueuedPodInfo, opinion: ExtenderResults | None
    ) -> tuple[Feasible, Points] | Rejection | None:
        """Put what was said to the world of now; None if they do not go together."""
        found = self._feasible(queued)
        if isinstance(found, Rejection):
            return found
        return None if opinion is None else apply_extender_results(found, opinion)

    def _place(self, queued: QueuedPodInfo, found: Feasible, points: Points) -> Outcome:
        now = self.clock.now()
        return select_and_assume(
            self._profile(queued), found, self.world, now, self.rng, points=points
        )

    async def _turn_away(
        self, queued: QueuedPodInfo, opinion: ExtenderResults | None, rejection: Rejection
    ) -> Outcome | None:
        """Turn the pod away; who is to be evicted for it, extenders may want to talk about."""
        profile, pod_info = self._profile(queued), queued.pod_info
        outcome = scheduling_failure(profile, rejection, self.world, self.clock.now())
        effect = outcome.effect
        if effect is None or not effect.victims or not self.extenders.supports_preemption(pod_info):
            return outcome
        agreement = await self.extenders.process_preemption(pod_info, effect.candidates)
        again = self._hear(queued, opinion) if _unchanged(queued, pod_info) else None
        if not isinstance(again, Rejection):
            return None
        again.extender_preemption = agreement
        outcome = scheduling_failure(profile, again, self.world, self.clock.now())
        evicts = outcome.effect is not None and bool(outcome.effect.victims)
        return None if agreement.accepted and not evicts else outcome

    def _profile(self, queued: QueuedPodInfo) -> Profile:
        return self.profiles[queued.pod_info.scheduler_name]


def _unwanted(queued: QueuedPodInfo) -> bool:
    """Tell whether the pod was deleted, or found a node without us, in the meantime."""
    return queued.removed or queued.pod_info.terminating


def _unchanged(queued: QueuedPodInfo, asked: PodInfo) -> bool:
    """Tell whether the pod is still what extenders were asked about."""
    now, then = queued.pod_info.pod, asked.pod
    return not _unwanted(queued) and (
        (now.spec, now.metadata.labels, now.metadata.annotations)
        == (then.spec, then.metadata.labels, then.metadata.annotations)
    )


def _failed(message: str) -> SchedulingFailure:
    return SchedulingFailure(message, frozenset(), frozenset(), error=True)
