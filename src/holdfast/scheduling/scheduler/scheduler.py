"""The scheduler as a component: its parts, the scheduling loop, start, health and stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from holdfast.client.adaptive_limit import START
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.runtime.clock import Clock
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.scheduling.engine.audit import Auditor
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import EXTENDER, ExtenderConfig
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.api_call_runner import ApiCallRunner
from holdfast.scheduling.scheduler.background_tasks import BackgroundTasks
from holdfast.scheduling.scheduler.binding_cycle import AssumedPod, BindingCycle, BindingTasks
from holdfast.scheduling.scheduler.cycle import (
    SchedulingFailure,
    schedule_pod,
    with_calls_before_eviction,
)
from holdfast.scheduling.scheduler.delayed_reports import UnclaimedObjects, UnreadyPods
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.scheduling.scheduler.extender_queue import ExtenderQueue
from holdfast.scheduling.scheduler.extenders import Extenders
from holdfast.scheduling.scheduler.ignored_allocations import report_ignored
from holdfast.scheduling.scheduler.informers import SchedulerInformers
from holdfast.scheduling.scheduler.metrics import (
    DurationRecorder,
    Meter,
    Metrics,
    register_callback_metrics,
)
from holdfast.scheduling.scheduler.object_metrics import PolicyMetrics, ReservationMetrics
from holdfast.scheduling.scheduler.preemption import PreemptionExecutor
from holdfast.scheduling.scheduler.preparation_turns import Preparations
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.scheduling.scheduler.queueing_hints import QueueingHints
from holdfast.scheduling.scheduler.reservation_handlers import ReservationEventHandlers
from holdfast.scheduling.scheduler.reservation_status_writes import ReservationStatusWrites
from holdfast.scheduling.scheduler.resizing import Resizer
from holdfast.scheduling.scheduler.result_handler import ResultHandler
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.scheduling.scheduler.status_reporter import StatusReporter
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.features import Features
from holdfast.state.devices.inventory import Inventory

log = logging.getLogger(__name__)

YIELD_AFTER_SECONDS = 0.002
"""How long scheduling may occupy the event loop before informers and bindings run."""
PAUSES_A_STEP = 4
"""While pods arrive that need no preparation, one preparation step is taken after this many pauses
of scheduling."""
TURNS_BETWEEN_STEPS = 8
"""How often other tasks run between two steps: from its watch event to its Binding a pod passes
through several tasks, and would wait for a step at each of them. With one turn it was bound after
4.4 ms of CPU time; with eight, after 2.4 ms."""
SHORTEST_WAIT_SECONDS = 0.001
"""How long the queue's timer sleeps at least: the time of day may lag behind the timer."""
STOP_SECONDS = 5.0
"""How long ``stop`` waits for running writes."""
MAX_BINDINGS = START
"""How many binding cycles may write at the same time; at this number the scheduling loop waits for
one to end. Those that wait, for example for a volume, are not counted. There are as many event
writers, so that on a busy server the last event is stored soon after the last bind. With 128,
events got a small part of a busy server, and each connection cost a TLS handshake of 1.3 ms."""
BATCH = 8
"""How many binding cycles have to end before the scheduling loop goes on after MAX_BINDINGS:
pods that are scheduled one after the other cost less CPU time each (measured)."""


class Scheduler:
    """Schedules the pods and reservations of its profiles.

    ``backoff`` is the initial and the maximum backoff of a pod; seconds.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        profiles: Mapping[str, Profile],
        *,
        extenders: Sequence[ExtenderConfig] = (),
        seed: int | None = None,
        check_invariants: bool = False,
        backoff: tuple[float, float] = (1.0, 10.0),
        feature_gates: FeatureGates | None = None,
    ) -> None:
        gates = feature_gates or FeatureGates()
        self._client, self._clock = client, clock
        self._ready = asyncio.Event()
        self.synced = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._rng = np.random.default_rng(seed)  # noqa: TID251 - the only random generator
        self.metrics = Metrics()
        self._meter = Meter(self.metrics, clock.monotonic)
        self.profiles = {
            name: replace(profile, meter=self._meter) for name, profile in profiles.items()
        }
        self._background_tasks = BackgroundTasks()
        self.recorder = EventRecorder(client, clock)
        self._reporter = StatusReporter(client, self.recorder, clock)
        self.world = self._make_world(gates, check_invariants=check_invariants)
        self.extenders = Extenders(extenders, client, clock, self.world)
        self._make_queue(backoff)
        self._make_informers(gates)
        self._make_binding()
        self._extender_queue = ExtenderQueue(
            self.extenders, self.profiles, self.world, clock, self._rng, self._handle_result,
            self._bindings.wait_for_binding,
        )  # fmt: skip
        self.metrics.registry.register(ReservationMetrics(self.informers.reservations))
        self.metrics.registry.register(PolicyMetrics(self.world))
        register_callback_metrics(
            self.metrics,
            self.queue,
            self.world,
            self._bindings.__len__,
            self.informers.informer_set.error_counts,
        )

    def _make_world(self, gates: FeatureGates, *, check_invariants: bool) -> World:
        nodes = NodeTable()
        world = World(
            nodes,
            devices=Inventory(nodes, Features.of(gates)),
            ignores_resource=self._ignores_resource,
            auditor=Auditor if check_invariants else None,
        )
        world.recorded.on_ignored = lambda ignored: report_ignored(
            ignored, self.metrics, self._reporter.warn_of_object
        )
        return world

    def _make_queue(self, backoff: tuple[float, float]) -> None:
        """Make the queue, and the parts that handle pods before their cycle."""
        clock, metrics = self._clock, self.metrics
        queueing_hints = QueueingHints(
            self.profiles,
            self.world,
            clock.now,
            {EXTENDER} if self.extenders else (),
            DurationRecorder(clock.monotonic, metrics.hint_seconds.observe),
        )
        self._unready = UnreadyPods(
            clock.monotonic,
            queueing_hints.gating_rejection,
            lambda pod_info, message: self._background_tasks.start(
                self._reporter.mark_unready(
                    pod_info, message, nominated=self.world.nominations.node_of(pod_info.uid)
                )
            ),
        )
        self.queue = SchedulingQueue(
            queueing_hints,
            on_ready=self._ready.set,
            on_move=metrics.incoming.add,
            on_gated=self._unready.add,
            initial_backoff=backoff[0],
            maximum_backoff=backoff[1],
        )
        self._preparations = Preparations(
            self.profiles, self.world, clock, lambda queued: self.queue.done(queued.uid)
        )

    def _make_informers(self, gates: FeatureGates) -> None:
        """Make the informers, and the handlers that bring their events to world and queue."""
        client, clock, reporter = self._client, self._clock, self._reporter
        self._unclaimed = UnclaimedObjects(
            self.profiles,
            lambda obj: self.informers.newest(obj),  # noqa: PLW0108 - they are made below
            reporter.warn_of_object,
        )
        self._event_handlers = EventHandlers(
            self.world,
            self.queue,
            self.profiles.__contains__,
            clock.monotonic,
            DurationRecorder(clock.monotonic, self.metrics.event_seconds.observe),
            on_unclaimed=self._unclaimed.add,
        )
        writes = ReservationStatusWrites(
            client, self.recorder, self._background_tasks.start, "Resizing"
        )
        self._resizer = Resizer(client, clock, self.world, writes)
        reservations = ReservationEventHandlers(
            self._event_handlers,
            lambda pod_info, message: self._background_tasks.start(
                reporter.reject_reservation(pod_info, message)
            ),
            self._resizer,
        )
        self.informers = SchedulerInformers(
            client, clock, self._event_handlers, reservations, gates
        )

    def _make_binding(self) -> None:
        """Make the parts that handle pods after their cycle: results, evictions, bindings."""
        client, clock, metrics = self._client, self._clock, self.metrics
        self._bindings = BindingTasks(self.world)
        preemption_executor = PreemptionExecutor(
            client, clock, self.world, self.queue, self._reporter, self._bindings.cancel,
            DurationRecorder(clock.monotonic, metrics.evicted),
        )  # fmt: skip
        self._result_handler = ResultHandler(
            client,
            clock,
            self.world,
            self.queue,
            self._reporter,
            metrics,
            preemption_executor,
            self._background_tasks,
            self.informers.expect,
        )
        call_runner = ApiCallRunner(
            client,
            clock,
            self.extenders,
            durations=DurationRecorder(clock.monotonic, metrics.point_seconds.observe),
            record_event=self._reporter.note,
            observe=metrics.observe,
            expect=self.informers.expect,
        )
        self._binding_cycle = BindingCycle(
            call_runner,
            self._bindings,
            self.world,
            self.queue,
            self._reporter,
            self._result_handler,
            metrics.permit_seconds,
        )

    @property
    def healthy(self) -> bool:
        """Whether every task of the scheduler still runs."""
        return not self.failure_reason

    @property
    def failure_reason(self) -> str:
        """Which task has stopped, and with which error; "" while all run."""
        if not self._loops:
            return "scheduling has not started"
        for task in self._loops:
            if task.done():
                cause = None if task.cancelled() else task.exception()
                return f"the task {task.get_name()!r} has stopped: {cause!r}"
        return ""

    async def start(self) -> None:
        """Start the informers, wait until they have synced, then start to schedule."""
        self.recorder.start()
        await self.informers.start()
        await self.extenders.start()
        self.synced.set()
        self._resizer.begin()
        self._loops = [
            asyncio.create_task(self._schedule_pods(), name="scheduler: schedule pods"),
            asyncio.create_task(self._flush_queue(), name="scheduler: flush queue"),
            asyncio.create_task(self.informers.follow_taint_rules(), name="scheduler: taint rules"),
            # The scheduler stops with its informers: it must not schedule against stale state.
            asyncio.create_task(self.informers.wait_for_failure(), name="scheduler: informers"),
        ]

    async def wait(self) -> None:
        """Wait until a task of the scheduler ends; raises its error."""
        await asyncio.gather(*self._loops)

    async def stop(self) -> None:
        """Stop scheduling, wait a few seconds for running bindings, write the last events."""
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._extender_queue.stop()
        await asyncio.gather(
            self._bindings.finish(self._clock, STOP_SECONDS),
            self._background_tasks.finish(self._clock, STOP_SECONDS),
        )
        await self.extenders.stop()
        await self.informers.stop()
        await self.recorder.stop()

    async def _schedule_pods(self) -> None:
        while True:
            await self._ready.wait()
            began, pauses = self._clock.monotonic(), 0
            while True:
                # Pods that need no step go first: a tenant decides how many steps its pods need.
                # But they do not keep the others waiting for ever.
                queued = self._pop_from_queue() if pauses < PAUSES_A_STEP else None
                if queued is not None:
                    self._begin_attempt(queued)
                elif self._preparations:
                    self._take_step()
                    pauses = 0
                else:
                    break
                if self._binding_cycle.writing >= MAX_BINDINGS:
                    while self._binding_cycle.writing > MAX_BINDINGS - BATCH:
                        await self._bindings.wait_for_one()
                    began = self._clock.monotonic()
                elif self._clock.monotonic() - began > YIELD_AFTER_SECONDS:
                    for _ in range(TURNS_BETWEEN_STEPS if self._preparations else 1):
                        await asyncio.sleep(0)
                    began, pauses = self._clock.monotonic(), pauses + bool(self._preparations)
            self._ready.clear()

    def _begin_attempt(self, queued: QueuedPodInfo) -> None:
        """Schedule a pod, unless its cycle needs steps before; then others are scheduled first."""
        view = self._preparations.begin(queued)
        if view is None:
            self.queue.postpone(queued)
        else:
            self.schedule_one(queued, view)

    def _take_step(self) -> None:
        """Take one step of a preparation; schedule its pod if it was the last one."""
        ended = self._preparations.step()
        if ended is not None:
            queued = ended.queued
            self.queue.resume(queued)
            profile = self.profiles[queued.pod_info.scheduler_name]
            self.schedule_one(queued, profile.view(queued.pod_info, self.world, self._clock.now()))

    def _pop_from_queue(self) -> QueuedPodInfo | None:
        queued = self.queue.pop(self._clock.monotonic())
        if queued is not None and queued.attempts == 1:
            self._reporter.warn_of_groups(queued.pod_info)
        return queued

    async def _flush_queue(self) -> None:
        while True:
            now = self._clock.monotonic()
            wait = 1.0 - now % 1.0
            if (retry := self.queue.next_retry) is not None:
                wait = min(wait, max(retry - self._clock.now(), SHORTEST_WAIT_SECONDS))
            await self._clock.sleep(wait)
            self.queue.flush(self._clock.monotonic(), self._clock.now())
            self._unclaimed.flush(self._clock.monotonic())
            self._unready.flush()
            self._resizer.retry()

    def schedule_one(self, queued: QueuedPodInfo, view: View) -> None:
        """Run the scheduling cycle of one pod; extenders and binding run in the background."""
        pod_info = queued.pod_info
        if queued.removed:
            self.queue.done(pod_info.uid)
            return
        if pod_info.terminating:
            self.queue.done(pod_info.uid)
            self._reporter.failed(pod_info, f"skip schedule deleting pod: {pod_info.key}")
            return
        if self.extenders and self.extenders.is_interested(pod_info):
            self._extender_queue.add(queued)
            return
        profile = self.profiles[pod_info.scheduler_name]
        began = self._clock.monotonic()
        self._meter.begin()
        try:
            outcome = schedule_pod(profile, view, self._rng)
        except Exception as failure:
            # One pod with an invalid field must not stop the others.
            log.exception("scheduling %s failed", pod_info.key)
            self._meter.on = False
            self._result_handler.on_error(queued, str(failure) or repr(failure))
            return
        took = self._clock.monotonic() - began
        self.metrics.algorithm_seconds.observe(took)
        self._meter.end(pod_info.scheduler_name, placed=isinstance(outcome, Placement))
        self._handle_result(queued, outcome, took)

    def _handle_result(
        self, queued: QueuedPodInfo, outcome: Placement | SchedulingFailure | None, took: float
    ) -> None:
        """Handle the result of an attempt; None: the pod needs no node any more."""
        if self.world.auditor is not None:
            self.world.auditor.raise_faults()
        if outcome is None:
            self.queue.done(queued.uid)
        elif isinstance(outcome, SchedulingFailure):
            profile = self.profiles[queued.pod_info.scheduler_name]
            outcome = with_calls_before_eviction(
                profile, queued.pod_info, outcome, self.world, self._clock.now()
            )
            self._result_handler.on_unschedulable(queued, outcome, took)
        else:
            self._start_binding(queued, outcome, took)

    def _start_binding(self, queued: QueuedPodInfo, placement: Placement, took: float) -> None:
        profile = self.profiles[queued.pod_info.scheduler_name]
        self._binding_cycle.start(AssumedPod(queued, profile, placement, took))
        if placement.nominated_node and placement.nominated_node != placement.node:
            self._event_handlers.nomination_ended(queued.pod_info, placement.nominated_node)

    def _ignores_resource(self, resource: str) -> bool:
        return any(profile.ignores_resource(resource) for profile in self.profiles.values())

    def metrics_page(self) -> bytes:
        """Render /metrics."""
        return self.metrics.page()
