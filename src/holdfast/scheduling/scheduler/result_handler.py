"""Handle the result of a scheduling attempt: update queue, world and metrics, and report it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.api.meta import Object
from holdfast.client.client import Client
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import NotFound
from holdfast.scheduling.framework.plugin import ApiCall, PostFilterResult
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.api_call_runner import send_call
from holdfast.scheduling.scheduler.background_tasks import BackgroundTasks
from holdfast.scheduling.scheduler.cycle import SchedulingFailure
from holdfast.scheduling.scheduler.metrics import Metrics
from holdfast.scheduling.scheduler.preemption import PREEMPTING, PreemptionExecutor
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.scheduling.scheduler.status_reporter import StatusReporter
from holdfast.state.columns.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class ResultHandler:
    """Applies the result of an attempt to queue, world, metrics and the pod's status.

    ``expect`` tells whether the event of an object from a response is still to come.
    """

    client: Client
    clock: Clock
    world: World
    queue: SchedulingQueue
    reporter: StatusReporter
    metrics: Metrics
    preemption_executor: PreemptionExecutor
    background_tasks: BackgroundTasks
    expect: Callable[[Any], bool]

    def on_permitted(self, queued: QueuedPodInfo) -> None:
        """End the scheduling cycle of an assumed pod; a failure after this counts as an error."""
        self.queue.done(queued.uid)

    def on_bound(self, queued: QueuedPodInfo, took: float) -> None:
        """Count a bound pod; scheduling and binding cycle took ``took`` seconds."""
        self.queue.done(queued.uid)
        self.metrics.attempt("scheduled", queued.pod_info.scheduler_name, took)
        began = queued.since if queued.initial_attempt_time is None else queued.initial_attempt_time
        self.metrics.placed(queued.attempts, self.clock.monotonic() - began)
        if queued.flushed:
            self.metrics.after_flush.add()

    def on_unschedulable(
        self, queued: QueuedPodInfo, failure: SchedulingFailure, took: float
    ) -> None:
        """Requeue a pod that fits no node, report why, and start its preemption if there is one.

        If PostFilter plugins have calls to send, the pod stays in flight until they are sent:
        events that occur until then are evaluated when it is requeued.
        """
        result = failure.post_filter_result
        if failure.error:
            self.on_error(queued, failure.message, took)
        elif result is not None and result.calls:
            self.background_tasks.start(self._send_and_requeue(queued, failure, result.calls, took))
        else:
            self._requeue_unschedulable(queued, failure, took)

    async def _send_and_requeue(
        self,
        queued: QueuedPodInfo,
        failure: SchedulingFailure,
        calls: Sequence[ApiCall],
        took: float,
    ) -> None:
        """Send the calls of PostFilter plugins; if one fails, the attempt ended in an error.

        Objects from responses are stored in the world: the next attempt may come before the watch.
        An object that the watch has already reported is not stored: it may be deleted by now. A
        reservation that was stored again after its deletion held its resources until the scheduler
        was restarted.
        """
        error = ""
        for call in calls:
            try:
                stored = await send_call(self.client, call)
                if isinstance(stored, Object) and self.expect(stored):
                    self.world.upsert(stored)
            except NotFound:
                # Such an object is deallocated or deleted already.
                continue
            except Exception as cause:
                error = f"running PostFilter plugins: {cause or repr(cause)}"
                break
        if queued.removed:
            self.queue.done(queued.uid)
        elif error:
            self.on_error(queued, error, took)
        else:
            self._requeue_unschedulable(queued, failure, took)

    def _requeue_unschedulable(
        self, queued: QueuedPodInfo, failure: SchedulingFailure, took: float
    ) -> None:
        pod_info, result = queued.pod_info, failure.post_filter_result
        self.metrics.attempt("unschedulable", pod_info.scheduler_name, took)
        # The nomination is set and the pod is gated before it is requeued: it must not be tried
        # again while its victims are being evicted.
        work = [] if result is None else self._apply(pod_info, result)
        self.queue.requeue_unschedulable(
            queued,
            failure.unschedulable_plugins,
            failure.pending_plugins,
            self.clock.monotonic(),
            retry_at=failure.retry_at,
            in_pre_bind=failure.in_pre_bind,
        )
        if not failure.first_pending:
            self.reporter.failed(pod_info, failure.message)
        if failure.condition_reason:
            self.reporter.warn(pod_info, failure.condition_reason, failure.condition_event)
        nominated = self.world.nominations.node_of(pod_info.uid)
        self.background_tasks.start(
            self.reporter.mark_unscheduled(
                pod_info,
                failure.condition_reason or "Unschedulable",
                failure.message,
                nominated=nominated,
            )
        )
        for part in work:
            self.background_tasks.start(part)

    def on_error(self, queued: QueuedPodInfo, message: str, took: float = 0.0) -> None:
        """Requeue a pod whose attempt ended in an error, and report the error."""
        pod_info = queued.pod_info
        self.metrics.failed(pod_info.scheduler_name, message, took)
        self.world.nominations.clear(pod_info.uid)
        self.queue.requeue_after_error(queued, self.clock.monotonic())
        self.reporter.failed(pod_info, message)
        self.background_tasks.start(
            self.reporter.mark_unscheduled(pod_info, "SchedulerError", message, nominated="")
        )

    def _apply(
        self, pod_info: PodInfo, result: PostFilterResult
    ) -> list[Coroutine[Any, Any, None]]:
        """Apply the parts of a PostFilter result that need no I/O; return the writes to do."""
        for reason, message in result.events:
            self.reporter.warn(pod_info, reason, message)
        if PREEMPTING in result.plugin or result.victims:
            self.metrics.preemption_attempts.add()
        if result.nominated_node is not None:
            self.world.nominations.set(pod_info, result.nominated_node)
        if not result.victims:
            return []
        self.metrics.preemption_victims.observe(len(result.victims))
        return self.preemption_executor.prepare(pod_info, result)
