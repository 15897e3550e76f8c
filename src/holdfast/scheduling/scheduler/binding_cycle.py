"""The binding cycle: wait on Permit, bind, report; or unreserve and requeue the pod.

A failed request says nothing about what is stored: the response may be lost although the write
succeeded. So after every failure the pod is read, until the server responds. Before, a pod that
was on its node could lose its claims to others.

Unreserving a pod frees resources, which is an event for other pods, but never for the pod itself:
its own attempts would requeue it without end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from holdfast.runtime.clock import Clock
from holdfast.runtime.metric_types import Histogram
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    ClusterEvent,
    Code,
    Placement,
    PostFilterResult,
)
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.waiting_pods import WaitingPod, WaitOutcome
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.api_call_runner import ApiCallRunner
from holdfast.scheduling.scheduler.background_tasks import BackgroundTasks, Task
from holdfast.scheduling.scheduler.binding import (
    BindFailed,
    BindOutcome,
    EndedPending,
    bind,
    post_bind,
    pre_binders,
    read_bind_outcome,
    undo,
)
from holdfast.scheduling.scheduler.cycle import rejected_on_node, rejection_at, unreserve_and_forget
from holdfast.scheduling.scheduler.event_handlers import with_node_name
from holdfast.scheduling.scheduler.preemption import PREEMPTING
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.scheduling.scheduler.result_handler import ResultHandler
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.scheduling.scheduler.status_reporter import StatusReporter

log = logging.getLogger(__name__)
ROUNDING = 0.001
"""Rounding error of sums and differences of times of day; seconds."""


class AssumedPod(msgspec.Struct, frozen=True):
    """A pod at the start of its binding cycle; its scheduling cycle took ``took`` seconds."""

    queued: QueuedPodInfo
    profile: Profile
    placement: Placement
    took: float

    @property
    def has_pre_bind(self) -> bool:
        """Whether PreBind plugins write or wait before the pod is bound."""
        reservers = self.profile.reservers(Point.PRE_BIND, self.placement)
        try:
            return any([plan.pre_bind_pre_flight(self.placement) for _, plan in reservers])
        except Exception:
            log.exception("asking what %s does before its bind failed", self.placement.pod.key)
            return True

    @property
    def needs_nomination(self) -> bool:
        """Whether the scheduler must write the expected node before PreBind.

        A plan has something to do there, and the first of these does not write it itself.
        """
        try:
            plans = [plan for _, plan in pre_binders(self.profile, self.placement)]
            if not plans or any([plan.may_end_pending(self.placement) for plan in plans]):
                return False
            return not plans[0].writes_nominated_node(self.placement)
        except Exception:
            log.exception("asking whether %s needs a nomination failed", self.placement.pod.key)
            return False

    @property
    def may_end_pending(self) -> bool:
        """Whether a PreBind plugin may end the attempt: the pod stays in flight until then."""
        reservers = self.profile.reservers(Point.PRE_BIND, self.placement)
        try:
            return any([plan.may_end_pending(self.placement) for _, plan in reservers])
        except Exception:
            # One plugin with a bug must not stop the others; the pod only keeps its events.
            log.exception("asking whether %s may end pending failed", self.placement.pod.key)
            return True


class BindingTasks(BackgroundTasks):
    """The running binding cycles by the pod's uid: each can be cancelled or awaited."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._by_uid: dict[str, tuple[AssumedPod, Task]] = {}
        self._uid_of: dict[Task, str] = {}

    def start_binding(self, assumed_pod: AssumedPod, work: Coroutine[Any, Any, None]) -> None:
        """Start the binding cycle of a pod."""
        uid = assumed_pod.queued.uid
        task = self.start(work)
        self._by_uid[uid] = (assumed_pod, task)
        self._uid_of[task] = uid

    def on_done(self, task: Task) -> None:
        """Forget a binding cycle that has ended."""
        super().on_done(task)
        uid = self._uid_of.pop(task)
        # The pod may have been requeued and be in its next binding cycle already. Without the entry
        # of that cycle it could not be preempted while it waits on Permit.
        if uid in self._by_uid and self._by_uid[uid][1] is task:
            del self._by_uid[uid]

    async def cancel(self, uid: str, why: str) -> bool:
        """Cancel a binding cycle and wait for its end; return whether the pod got no node."""
        if uid not in self._by_uid:
            return False
        assumed_pod, task = self._by_uid[uid]
        placement = assumed_pod.placement
        placement.abort_reason = why
        waiting = self.world.waiting.get(uid)
        if waiting is not None:
            waiting.preempt(PREEMPTING, "preempted")
        await asyncio.wait({task})
        entry = self.world.nodes.pod(uid)
        return entry is None or entry[1] != placement.row

    async def wait_for_binding(self, uid: str) -> None:
        """Wait for the end of a binding cycle, unless Permit or PreBind plugins may delay it."""
        if uid in self._by_uid and self.world.waiting.get(uid) is None:
            assumed_pod, task = self._by_uid[uid]
            if not assumed_pod.has_pre_bind:
                await asyncio.wait({task})

    async def finish(self, clock: Clock, seconds: float) -> None:
        """Wait at most ``seconds`` for all binding cycles; cancel those that wait on Permit."""
        for pod in self.world.waiting:
            # The pod has no node: the next scheduler schedules it from the start.
            self._by_uid[pod.placement.pod.uid][1].cancel()
        await super().finish(clock, seconds)


@dataclass(frozen=True, slots=True)
class BindingCycle:
    """Runs binding cycles in the background."""

    call_runner: ApiCallRunner
    tasks: BindingTasks
    world: World
    queue: SchedulingQueue
    reporter: StatusReporter
    result_handler: ResultHandler
    permit_seconds: Histogram
    """How long pods waited on Permit, by result."""

    @property
    def writing(self) -> int:
        """Count the binding cycles that write; those that wait are left out.

        Those in PreBind plugins count half: such a pod needs several requests for one event, one
        after the other, so that about as many requests are in flight as with other pods. When they
        were counted in full, 66 to 78 pods with a device were bound per second on a busy server;
        now 160 are.
        """
        runner = self.call_runner
        return len(self.tasks) - runner.idle - max(0, runner.pre_binding - runner.idle) // 2

    def start(self, assumed_pod: AssumedPod) -> None:
        """Start the binding cycle of an assumed pod."""
        if self.world.waiting.get(assumed_pod.queued.uid) is None:
            self._on_permitted(assumed_pod)
        if assumed_pod.placement.pods_to_activate:
            self.queue.activate(assumed_pod.placement.pods_to_activate)
        self.tasks.start_binding(assumed_pod, self._bind(assumed_pod))

    async def _bind(self, assumed_pod: AssumedPod) -> None:
        placement, result_handler = assumed_pod.placement, self.result_handler
        began = self.call_runner.clock.monotonic() - assumed_pod.took
        waiting = self.world.waiting.get(assumed_pod.queued.uid)
        nominates = waiting is not None or assumed_pod.needs_nomination
        if nominates and not placement.pod.is_reserve_pod:
            await self.reporter.write_nominated_node(placement.pod, placement.node)
        if waiting is not None and not await self._wait_on_permit(assumed_pod, waiting):
            return
        try:
            await bind(self.call_runner, assumed_pod.profile, placement)
        except EndedPending as ended:
            await self._requeue_pending(assumed_pod, ended)
            return
        except BindFailed as failure:
            outcome = await read_bind_outcome(
                self.call_runner.client,
                self.call_runner.clock,
                self.world,
                assumed_pod.queued.pod_info,
            )
            if outcome.node != placement.node:
                placement.pod_is_deleted = not outcome.node and outcome.pending is None
                await undo(self.call_runner, placement, failure)
                took = self.call_runner.clock.monotonic() - began
                self._requeue_unbound(assumed_pod, outcome, failure, took)
                return
            # Only the response was lost: the pod is bound.
        result_handler.on_bound(assumed_pod.queued, self.call_runner.clock.monotonic() - began)
        self.reporter.scheduled(placement)
        await post_bind(self.call_runner, assumed_pod.profile, placement)
        if placement.pods_to_activate:
            self.queue.activate(placement.pods_to_activate)

    async def _wait_on_permit(self, assumed_pod: AssumedPod, pod: WaitingPod) -> bool:
        """Wait on Permit; if the pod is rejected, unreserve and requeue it and return False."""
        queued, result_handler = assumed_pod.queued, self.result_handler
        clock = self.call_runner.clock
        began = clock.monotonic()
        try:
            result = await self.call_runner.wait_idle(wait_on_permit(clock, pod))
        finally:
            self.world.waiting.remove(queued.uid)
        self.permit_seconds.observe(clock.monotonic() - began, result.code.upstream_name)
        if result.code is Code.PASS:
            self._on_permitted(assumed_pod)
            return True
        unreserve_and_forget(assumed_pod.profile, self.world, pod.placement)
        if result.code is Code.ERROR:
            self._requeue_others(pod.placement)
            result_handler.on_error(queued, f"waiting on permit for pod: {result.message}")
            return False
        result_handler.on_unschedulable(
            queued, rejected_on_node(result.plugin, result.message), assumed_pod.took
        )
        # Requeue the others last: its own freed resources must not requeue the pod itself.
        self._requeue_others(pod.placement, lambda other: other.uid != queued.uid)
        return False

    def _on_permitted(self, assumed_pod: AssumedPod) -> None:
        if not assumed_pod.may_end_pending:
            self.result_handler.on_permitted(assumed_pod.queued)

    async def _requeue_pending(self, assumed_pod: AssumedPod, ended: EndedPending) -> None:
        """Unreserve a pod whose PreBind plugin waits for an event, and requeue it.

        The pod was in flight until now: it is requeued for events since its pop, too.
        """
        queued, placement = assumed_pod.queued, assumed_pod.placement
        world = self.world
        placement.pod_is_deleted = queued.removed and world.nodes.pod(queued.uid) is None
        await undo(self.call_runner, placement, ended)
        unreserve_and_forget(assumed_pod.profile, world, placement)
        if queued.removed:
            self.queue.done(queued.uid)
        else:
            failure = rejection_at("PreBind", ended.plugin, ended.reject)
            # Pods were evicted for a nominated pod: it keeps what they have freed.
            nominated = (
                placement.nominated_node if placement.nominated_node == placement.node else ""
            )
            failure = replace(
                failure,
                first_pending=queued.rejections == 0,
                post_filter_result=PostFilterResult("", nominated_node=nominated),
            )
            self.result_handler.on_unschedulable(queued, failure, assumed_pod.took)
        # Requeue the others last: its own freed resources must not requeue the pod itself.
        self._requeue_others(placement, lambda other: other.uid != queued.uid)

    def _requeue_unbound(
        self, assumed_pod: AssumedPod, outcome: BindOutcome, failure: BindFailed, took: float
    ) -> None:
        """Unreserve a pod that was not bound, and requeue it if it is still to be scheduled.

        The informer may be ahead of ``outcome``: a pod that is no longer assumed was deleted or
        assigned to a node since.
        """
        queued, world = assumed_pod.queued, self.world
        assumed = world.nodes.is_assumed(queued.uid)
        unreserve_and_forget(assumed_pod.profile, world, assumed_pod.placement)
        if outcome.pending is not None and assumed:
            queued.pod_info = outcome.pending
            if failure.rejected is None:
                self.result_handler.on_error(queued, str(failure), took)
            else:
                rejection = replace(rejection_at("PreBind", *failure.rejected), in_pre_bind=True)
                self.result_handler.on_unschedulable(queued, rejection, took)
        else:
            self.queue.done(queued.uid)
        # Pods that PreBind rejected fit without these resources: two would requeue each other for
        # ever.
        self._requeue_others(assumed_pod.placement, lambda other: not other.rejected_in_pre_bind)

    def _requeue_others(
        self, placement: Placement, only: Callable[[QueuedPodInfo], bool] = lambda _: True
    ) -> None:
        deleted = with_node_name(placement.pod.pod, placement.node)
        event = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, deleted, None)
        self.queue.requeue_for_event(event, self.call_runner.clock.monotonic(), only)


async def wait_on_permit(clock: Clock, pod: WaitingPod) -> WaitOutcome:
    """Wait until the pod is allowed, rejected or preempted, or a plugin's timeout ends."""
    decided = asyncio.Event()
    # Deadlines are times of day at the decision; setting the clock since must not move them.
    ahead = clock.now() - clock.monotonic()
    pod.on_end = decided.set
    decision = asyncio.create_task(decided.wait())
    try:
        while pod.outcome is None:
            seconds = max(0.0, pod.next_deadline() - ahead - clock.monotonic())
            timer = asyncio.create_task(clock.sleep(seconds))
            try:
                await asyncio.wait({decision, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
            pod.expire(ahead + clock.monotonic() + ROUNDING)
    finally:
        decision.cancel()
    return pod.outcome
