"""What follows from an attempt: back into the queue with a reason, or done with for good."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from holdfast.client.client import Client
from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import HoldfastError
from holdfast.framework.plugin import PostFilterResult
from holdfast.framework.world import World
from holdfast.scheduler.background_tasks import BackgroundTasks
from holdfast.scheduler.binding import send_call
from holdfast.scheduler.cycle import SchedulingFailure
from holdfast.scheduler.metrics import Metrics
from holdfast.scheduler.preemption import PREEMPTING, PreemptionExecutor
from holdfast.scheduler.queued_pods import QueuedPodInfo
from holdfast.scheduler.scheduling_queue import SchedulingQueue
from holdfast.scheduler.status_reporter import StatusReporter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResultHandler:
    """Tells the queue, the world and the users what came of an attempt."""

    client: Client
    clock: Clock
    world: World
    queue: SchedulingQueue
    reporter: StatusReporter
    metrics: Metrics
    preemption_executor: PreemptionExecutor
    background_tasks: BackgroundTasks

    def on_permitted(self, queued: QueuedPodInfo) -> None:
        """The pod has its room. From here on a failure is nobody's fault but the attempt's."""
        self.queue.done(queued.uid)

    def on_bound(self, queued: QueuedPodInfo, took: float) -> None:
        """The pod is on its node; finding that and binding it took so many seconds."""
        self.metrics.attempt("scheduled", queued.pod_info.scheduler_name, took)
        began = queued.since if queued.initial_attempt_time is None else queued.initial_attempt_time
        self.metrics.placed(queued.attempts, self.clock.monotonic() - began)
        if queued.flushed:
            self.metrics.after_flush.add()

    def on_unschedulable(
        self, queued: QueuedPodInfo, outcome: SchedulingFailure, took: float
    ) -> None:
        """The pod waits for something to happen, unless it was the attempt that failed."""
        if outcome.error:
            self.on_error(queued, outcome.message, took)
            return
        pod_info, effect = queued.pod_info, outcome.effect
        self.metrics.attempt("unschedulable", pod_info.scheduler_name, took)
        # The promise is made and the gate closed before the pod is back in the queue.
        work = [] if effect is None else self._take_effect(pod_info, effect)
        self.queue.requeue_unschedulable(
            queued, outcome.unschedulable_plugins, outcome.pending_plugins, self.clock.monotonic()
        )
        self.reporter.failed(pod_info, outcome.message)
        promised = self.world.nominations.node_of(pod_info.uid)
        self.background_tasks.start(
            self.reporter.mark_unscheduled(
                pod_info, "Unschedulable", outcome.message, nominated=promised
            )
        )
        for part in work:
            self.background_tasks.start(part)

    def on_error(self, queued: QueuedPodInfo, message: str, took: float = 0.0) -> None:
        """Nobody is to blame: the pod is tried again after a while."""
        pod_info = queued.pod_info
        self.metrics.failed(pod_info.scheduler_name, message, took)
        self.world.nominations.clear(pod_info.uid)
        self.queue.requeue_after_error(queued, self.clock.monotonic())
        self.reporter.failed(pod_info, message)
        self.background_tasks.start(
            self.reporter.mark_unscheduled(pod_info, "SchedulerError", message, nominated="")
        )

    def _take_effect(
        self, pod_info: PodInfo, effect: PostFilterResult
    ) -> list[Coroutine[Any, Any, None]]:
        """Do at once what a plugin wants done that needs no writing; answers the rest."""
        for reason, message in effect.events:
            self.reporter.warn(pod_info, reason, message)
        if PREEMPTING in effect.plugin:
            self.metrics.preemption_attempts.add()
        if effect.nominated_node is not None:
            self.world.nominations.set(pod_info, effect.nominated_node)
        work = []
        if effect.victims:
            self.metrics.preemption_victims.observe(len(effect.victims))
            work = self.preemption_executor.begin(pod_info, effect)
        return [*work, self._carry_out(effect)] if effect.calls else work

    async def _carry_out(self, effect: PostFilterResult) -> None:
        try:
            for call in effect.calls:
                await send_call(self.client, call)
        except HoldfastError as failure:
            log.warning("%s: %s", effect.plugin, failure)
