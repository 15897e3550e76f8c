"""Schedule the pods that extenders filter or prioritize, outside of the scheduling cycle.

The scheduling cycle never waits for an extender. A pod that needs one is added to a separate queue,
and is in flight for the scheduling queue, while other pods are scheduled. Extenders get the
feasible nodes. The world may change until they respond, so the feasible nodes are computed again
*then* and narrowed to those the extenders allow, and the pod is assumed on the best node at once.
If none is left but some feasible nodes were not sent to the extenders, they are called again.

The queue handles one pod at a time, as kube-scheduler does. If an extender binds a pod itself, the
queue waits for that binding, because the extender does its own accounting of resources.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from holdfast.runtime.clock import Clock
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.extender_results import (
    ExtenderResults,
    Points,
    apply_extender_results,
)
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import ExtenderFailed, ExtenderPreemption
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.cycle import (
    SchedulingFailure,
    failure_before_next_tier,
    scheduling_failure,
    select_and_assume,
)
from holdfast.scheduling.scheduler.extenders import Extenders
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)

MAX_ROUNDS = 5
"""How often extenders are called within one attempt because the cluster has changed."""
CHANGED_TOO_FAST = "the cluster changed faster than the extenders responded"

Outcome = Placement | SchedulingFailure
Narrowed = tuple[Feasible, Points] | Rejection
"""The rows that extenders allow, with their scores; or why there are none."""
HandleResult = Callable[[QueuedPodInfo, Outcome | None, float], None]
"""Called with the pod, the result (None: it needs no node any more) and the seconds taken."""


@dataclass(slots=True, eq=False)
class ExtenderQueue:
    """The pods that wait for extenders, by priority."""

    extenders: Extenders
    profiles: Mapping[str, Profile]
    world: World
    clock: Clock
    rng: np.random.Generator
    handle_result: HandleResult
    wait_for_binding: Callable[[str], Awaitable[None]]
    """Waits for the end of the binding cycle of the pod with this uid."""
    _heap: list[tuple[int, float, int, QueuedPodInfo]] = field(default_factory=list, init=False)
    _order: count[int] = field(default_factory=count, init=False)
    _worker: asyncio.Task[None] | None = field(default=None, init=False)

    def add(self, queued: QueuedPodInfo) -> None:
        """Add a pod: highest priority first, then the longest waiting."""
        entry = (-queued.pod_info.priority, queued.since, next(self._order), queued)
        heapq.heappush(self._heap, entry)
        if self._worker is not None and self._worker.done():
            self._worker.result()  # a worker fails only by a bug: raise it
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._run(), name="scheduler: extenders")

    async def stop(self) -> None:
        """Stop calling extenders; the pods in the queue stay without a node."""
        self._heap.clear()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})

    async def _run(self) -> None:
        while self._heap:
            *_, queued = heapq.heappop(self._heap)
            began = self.clock.monotonic()
            try:
                outcome = await self._decide(queued)
            except ExtenderFailed as failure:
                outcome = _failed(str(failure))
            except Exception as bug:
                # One pod with an invalid field must not stop the others.
                log.exception("scheduling %s failed", queued.pod_info.key)
                outcome = _failed(str(bug) or repr(bug))
            self.handle_result(queued, outcome, self.clock.monotonic() - began)
            if isinstance(outcome, Placement) and self.extenders.is_binder(outcome.pod):
                await self.wait_for_binding(queued.uid)

    async def _decide(self, queued: QueuedPodInfo) -> Outcome | None:
        for _ in range(MAX_ROUNDS):
            if _needs_no_node(queued):
                return None
            pod_info, filter_result, opinion = queued.pod_info, self._feasible(queued), None
            if isinstance(filter_result, Feasible):
                opinion = await self.extenders.filter_and_prioritize(filter_result)
            if not _unchanged(queued, pod_info):
                continue
            narrowed = self._narrow(queued, opinion)
            outcome = None
            if narrowed is not None:
                outcome = await self._place_or_preempt(queued, opinion, narrowed)
            if outcome is not None:
                return outcome
        return None if _needs_no_node(queued) else _failed(CHANGED_TOO_FAST)

    def _feasible(self, queued: QueuedPodInfo) -> Feasible | Rejection:
        profile = self._profile(queued)
        return feasible(profile, profile.view(queued.pod_info, self.world, self.clock.now()))

    def _narrow(self, queued: QueuedPodInfo, opinion: ExtenderResults | None) -> Narrowed | None:
        """Narrow the nodes feasible now by the extenders' results; None: call them again."""
        filter_result = self._feasible(queued)
        if isinstance(filter_result, Rejection):
            return filter_result
        return None if opinion is None else apply_extender_results(filter_result, opinion)

    async def _place_or_preempt(
        self, queued: QueuedPodInfo, opinion: ExtenderResults | None, narrowed: Narrowed
    ) -> Outcome | None:
        """Place the pod, or preempt; extenders may change the choice of victims."""
        pod_info, failure = queued.pod_info, self._failure(queued, narrowed)
        if not _evicts(failure) or not self.extenders.supports_preemption(pod_info):
            return failure or self._place(queued, narrowed)
        assert failure is not None
        assert failure.post_filter_result is not None
        agreement = await self.extenders.process_preemption(
            pod_info, failure.post_filter_result.candidates
        )
        again = self._narrow(queued, opinion) if _unchanged(queued, pod_info) else None
        if again is None or isinstance(again, Rejection) is not isinstance(narrowed, Rejection):
            return None
        failure = self._failure(queued, again, agreement)
        if agreement.accepted and not _evicts(failure):
            return None
        return failure or self._place(queued, again)

    def _failure(
        self,
        queued: QueuedPodInfo,
        narrowed: Narrowed,
        agreement: ExtenderPreemption | None = None,
    ) -> SchedulingFailure | None:
        """Run the PostFilter plugins, if the pod fits nowhere or preempts in a better tier."""
        profile, now = self._profile(queued), self.clock.now()
        if isinstance(narrowed, Rejection):
            narrowed.extender_preemption = agreement
            return scheduling_failure(profile, narrowed, now, self.rng)
        return failure_before_next_tier(profile, narrowed[0], now, agreement, extended=True)

    def _place(self, queued: QueuedPodInfo, narrowed: Narrowed) -> Outcome:
        assert not isinstance(narrowed, Rejection)
        feasible, points = narrowed
        now = self.clock.now()
        return select_and_assume(
            self._profile(queued), feasible, self.world, now, self.rng, points=points
        )

    def _profile(self, queued: QueuedPodInfo) -> Profile:
        return self.profiles[queued.pod_info.scheduler_name]


def _evicts(failure: SchedulingFailure | None) -> bool:
    result = None if failure is None else failure.post_filter_result
    return result is not None and bool(result.victims)


def _needs_no_node(queued: QueuedPodInfo) -> bool:
    """Tell whether the pod has been deleted or assigned to a node."""
    return queued.removed or queued.pod_info.terminating


def _unchanged(queued: QueuedPodInfo, sent: PodInfo) -> bool:
    """Tell whether the pod is still the one that was sent to the extenders."""
    now, then = queued.pod_info.pod, sent.pod
    return not _needs_no_node(queued) and (
        (now.spec, now.metadata.labels, now.metadata.annotations)
        == (then.spec, then.metadata.labels, then.metadata.annotations)
    )


def _failed(message: str) -> SchedulingFailure:
    return SchedulingFailure(message, frozenset(), frozenset(), error=True)
