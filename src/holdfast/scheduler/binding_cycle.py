"""Placements on their way to being bound: permitted, written, told; or taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import Clock
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import ClusterEvent, Code, Placement, PreBindPlugin, runs_for
from holdfast.framework.waiting_pods import WaitingPod, WaitOutcome
from holdfast.framework.world import World
from holdfast.scheduler.background_tasks import BackgroundTasks, Task
from holdfast.scheduler.binding import (
    ApiCallRunner,
    BindFailed,
    BindOutcome,
    bind,
    post_bind,
    read_bind_outcome,
    undo,
)
from holdfast.scheduler.cycle import rejected_on_node, unreserve_and_forget
from holdfast.scheduler.event_handlers import with_node_name
from holdfast.scheduler.preemption import PREEMPTING
from holdfast.scheduler.queued_pods import QueuedPodInfo
from holdfast.scheduler.result_handler import ResultHandler

ROUNDING = 0.001
"""Seconds by which times of day, added and subtracted, may be off."""


@dataclass(frozen=True, slots=True)
class AssumedPod:
    """A pod of a profile with its place, which it took so many seconds to find."""

    queued: QueuedPodInfo
    profile: Profile
    placement: Placement
    took: float

    @property
    def slow(self) -> bool:
        """Whether plugins write, or wait for something, before the pod is bound."""
        preparing = self.profile.plugins_at(PreBindPlugin)
        return any(runs_for(plugin, self.placement) for plugin in preparing)


@dataclass(slots=True, eq=False)
class BindingTasks:
    """Every binding under way, by the pod's uid: one can be recalled, or waited for."""

    world: World
    background_tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    _under_way: dict[str, tuple[AssumedPod, Task]] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.background_tasks)

    def begin(self, assumed_pod: AssumedPod, work: Coroutine[Any, Any, None]) -> None:
        """Let a binding begin."""
        uid = assumed_pod.queued.uid
        task = self.background_tasks.start(work)
        self._under_way[uid] = (assumed_pod, task)
        task.add_done_callback(lambda _: self._under_way.pop(uid, None))

    async def cancel(self, uid: str, why: str) -> bool:
        """Stop a binding under way; tell whether the pod is without a node afterwards."""
        if uid not in self._under_way:
            return False
        assumed_pod, task = self._under_way[uid]
        placement = assumed_pod.placement
        placement.abort_reason = why
        waiting = self.world.waiting.get(uid)
        if waiting is not None:
            waiting.preempt(PREEMPTING, "preempted")
        await asyncio.wait({task})
        standing = self.world.nodes.pod(uid)
        return standing is None or standing[1] != placement.row

    async def wait_for_binding(self, uid: str) -> None:
        """Wait until a pod is bound, or is not; if something holds it up nobody waits for that."""
        if uid in self._under_way and self.world.waiting.get(uid) is None:
            assumed_pod, task = self._under_way[uid]
            if not assumed_pod.slow:
                await asyncio.wait({task})

    async def finish(self, clock: Clock, seconds: float) -> None:
        """Let those that write come to an end; for words that did not come nobody waits."""
        for pod in self.world.waiting:
            # Whoever decides next finds it without a node, as if we had never looked at it.
            self._under_way[pod.placement.pod.uid][1].cancel()
        await self.background_tasks.finish(clock, seconds)


@dataclass(frozen=True, slots=True)
class BindingCycle:
    """Takes placements through their binding cycle."""

    call_runner: ApiCallRunner
    result_handler: ResultHandler
    tasks: BindingTasks

    @property
    def writing(self) -> int:
        """How many are writing; those that wait for something are not counted."""
        return len(self.tasks) - self.call_runner.asleep

    def begin(self, assumed_pod: AssumedPod) -> None:
        """Bind a pod that has its room, once it is permitted."""
        if self.result_handler.world.waiting.get(assumed_pod.queued.uid) is None:
            self.result_handler.on_permitted(assumed_pod.queued)
        self.result_handler.queue.activate(assumed_pod.placement.pods_to_activate)
        self.tasks.begin(assumed_pod, self._bind(assumed_pod))

    async def _bind(self, assumed_pod: AssumedPod) -> None:
        placement, result_handler = assumed_pod.placement, self.result_handler
        began = self.call_runner.clock.monotonic() - assumed_pod.took
        waiting = result_handler.world.waiting.get(assumed_pod.queued.uid)
        if (assumed_pod.slow or waiting is not None) and not placement.pod.is_reserve_pod:
            await result_handler.reporter.write_nominated_node(placement.pod, placement.node)
        if waiting is not None and not await self._permitted(assumed_pod, waiting):
            return
        try:
            await bind(self.call_runner, assumed_pod.profile, placement)
        except BindFailed as failure:
            found = await read_bind_outcome(
                result_handler.client,
                result_handler.clock,
                result_handler.world,
                assumed_pod.queued.pod_info,
            )
            if found.node != placement.node:
                await undo(self.call_runner, placement, failure)
                took = self.call_runner.clock.monotonic() - began
                self._take_back(assumed_pod, found, str(failure), took)
                return
            # The answer was lost, the write was not: the promise stands.
        result_handler.on_bound(assumed_pod.queued, self.call_runner.clock.monotonic() - began)
        result_handler.reporter.scheduled(placement)
        await post_bind(self.call_runner, assumed_pod.profile, placement)
        result_handler.queue.activate(placement.pods_to_activate)

    async def _permitted(self, assumed_pod: AssumedPod, pod: WaitingPod) -> bool:
        """Wait for a word about the pod, and do what a bad one means."""
        queued, result_handler, clock = (
            assumed_pod.queued,
            self.result_handler,
            self.call_runner.clock,
        )
        began = clock.monotonic()
        try:
            word = await self.call_runner.idle(wait_on_permit(clock, pod))
        finally:
            result_handler.world.waiting.remove(queued.uid)
        result_handler.metrics.permit_seconds.observe(
            clock.monotonic() - began, word.code.upstream_name
        )
        if word.code is Code.PASS:
            result_handler.on_permitted(queued)
            return True
        unreserve_and_forget(assumed_pod.profile, result_handler.world, pod.placement)
        if word.code is Code.ERROR:
            self._room_came_back(pod.placement)
            result_handler.on_error(queued, f"waiting on permit for pod: {word.message}")
            return False
        result_handler.on_unschedulable(
            queued, rejected_on_node(word.plugin, word.message), assumed_pod.took
        )
        # Told last: the room it gave up itself must not send it round in circles.
        self._room_came_back(pod.placement, lambda other: other.uid != queued.uid)
        return False

    def _take_back(
        self, assumed_pod: AssumedPod, found: BindOutcome, message: str, took: float
    ) -> None:
        """Give the room back to everybody and the pod, if it still waits, another try.

        News may have overtaken the answer we have: a pod that is no longer assumed is gone, or on
        a node, since.
        """
        queued, world = assumed_pod.queued, self.result_handler.world
        waits = world.nodes.is_assumed(queued.uid)
        unreserve_and_forget(assumed_pod.profile, world, assumed_pod.placement)
        if found.waiting is not None and waits:
            queued.pod_info = found.waiting
            self.result_handler.on_error(queued, message, took)
        self._room_came_back(assumed_pod.placement)

    def _room_came_back(
        self, placement: Placement, only: Callable[[QueuedPodInfo], bool] = lambda _: True
    ) -> None:
        gone = with_node_name(placement.pod.pod, placement.node)
        event = ClusterEvent("AssignedPod", "Delete", gone, None)
        self.result_handler.queue.requeue_for_event(event, self.call_runner.clock.monotonic(), only)


async def wait_on_permit(clock: Clock, pod: WaitingPod) -> WaitOutcome:
    """Wait until the pod is allowed, rejected or preempted, or a plugin's time is up."""
    heard = asyncio.Event()
    # Deadlines are times of day as of the decision; a clock that is set meanwhile moves none.
    ahead = clock.now() - clock.monotonic()
    pod.on_end = heard.set
    word = asyncio.create_task(heard.wait())
    try:
        while pod.outcome is None:
            seconds = max(0.0, pod.next_deadline() - ahead - clock.monotonic())
            timer = asyncio.create_task(clock.sleep(seconds))
            try:
                await asyncio.wait({word, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
            pod.expire(ahead + clock.monotonic() + ROUNDING)
    finally:
        word.cancel()
    return pod.outcome
