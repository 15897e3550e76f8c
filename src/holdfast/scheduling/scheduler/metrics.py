"""The scheduler's Prometheus metrics, with upstream's names, labels and buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from holdfast.runtime.errors import Refused
from holdfast.runtime.metric_types import (
    CallbackMetric,
    CounterMetric,
    Histogram,
    Reading,
    collect_all,
    exponential_buckets,
)
from holdfast.scheduling.engine.profile import PluginMeter
from holdfast.scheduling.framework.plugin import Code, PostFilterResult, Reject, Skip, Wait
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue


class DurationRecorder(NamedTuple):
    """Records durations: ``now`` is a clock, ``record`` takes seconds and label values."""

    now: Callable[[], float] = lambda: 0.0
    record: Callable[..., None] = lambda *_: None


NO_DURATIONS = DurationRecorder()


_SECONDS = exponential_buckets(0.001, 2, 15)
_SHORT = exponential_buckets(0.0001, 2, 12)
_TINY = exponential_buckets(0.00001, 1.5, 20)
_MANY_ATTEMPTS = 15
_QUEUES = ("active", "backoff", "unschedulable", "gated")
_VOLUME_STAGES = {
    'running "VolumeBinding" filter plugin': "predicate",
    'running PreFilter plugin "VolumeBinding"': "predicate",
    'running Reserve plugin "VolumeBinding"': "assume",
    'running PreBind plugin "VolumeBinding"': "bind",
}
"""Start of an error message of VolumeBinding, and the stage it is counted under."""


class Metrics(Collector):
    """The metrics of one scheduler, with a separate registry: a process may run several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.attempts = CounterMetric(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod, by result.", ("result", "profile"),
        )  # fmt: skip
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of a scheduling attempt with its binding.", _SECONDS, ("result", "profile"),
        )  # fmt: skip
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the scheduling algorithm.", _SECONDS,
        )  # fmt: skip
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of all plugins of an extension point; up to Permit in one cycle of ten.",
            _SHORT, ("extension_point", "status", "profile"),
        )  # fmt: skip
        self.plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of one plugin at one extension point, in one cycle of ten.",
            _TINY, ("plugin", "extension_point", "status"),
        )  # fmt: skip
        self.evaluations = CounterMetric(
            "scheduler_plugin_evaluation_total",
            "Pods, or pairs of pod and node, that a plugin evaluated.",
            ("plugin", "extension_point", "profile"),
        )  # fmt: skip
        self.attempts_needed = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts of a pod until it was scheduled.", exponential_buckets(1, 2, 5),
        )  # fmt: skip
        self.waited = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from the first attempt of a pod until it was scheduled.",
            exponential_buckets(0.01, 2, 20), ("attempts",),
        )  # fmt: skip
        self.incoming = CounterMetric(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by event.", ("queue", "event"),
        )  # fmt: skip
        self.hint_seconds = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration of a plugin's queueing hint.", _TINY, ("plugin", "event", "hint"),
        )  # fmt: skip
        self.event_seconds = Histogram(
            "scheduler_event_handling_duration_seconds",
            "Duration of moving pods after an event.", _SHORT, ("event",),
        )  # fmt: skip
        self.preemption_attempts = CounterMetric(
            "scheduler_preemption_attempts_total", "Attempts to preempt pods.",
        )  # fmt: skip
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of one preemption.",
            exponential_buckets(1, 2, 7),
        )
        self.eviction_seconds = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Duration of deleting all victims.",
            exponential_buckets(0.01, 2, 20),
            ("result",),
        )
        self.evictions = CounterMetric(
            "scheduler_preemption_goroutines_execution_total",
            "Preemptions executed, by result.", ("result",),
        )  # fmt: skip
        self.permit_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "How long pods waited on Permit.", _SECONDS, ("result",),
        )  # fmt: skip
        self.after_flush = CounterMetric(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods scheduled after a timeout without an event.",
        )  # fmt: skip
        self.volume_errors = CounterMetric(
            "scheduler_volume_scheduling_stage_error_total",
            "Errors in finding, reserving or binding volumes.", ("operation",),
        )  # fmt: skip
        self.claim_creations = CounterMetric(
            "scheduler_resourceclaim_creates_total",
            "Claims created for extended resources of pods, by status.", ("status",),
        )  # fmt: skip
        self.conditional_allocations = CounterMetric(
            "scheduler_dra_bindingconditions_allocations_total",
            "Bindings that waited for binding conditions, by driver and status.",
            ("profile", "driver", "status"),
        )
        self.binding_condition_seconds = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "How long bindings waited for binding conditions.",
            exponential_buckets(0.1, 2, 14), ("profile", "driver", "status"),
        )  # fmt: skip
        self.ignored_allocations = CounterMetric(
            "holdfast_ignored_allocations_total",
            "Bound pods whose annotation about an allocation cannot be true, by key.",
            ("key",),
        )
        self._callbacks: list[CallbackMetric] = []
        self.registry.register(self)

    def add_callback(self, name: str, text: str, labels: tuple[str, ...], read: Reading) -> None:
        """Add a metric that is read when the page is rendered."""
        self._callbacks.append(CallbackMetric(name, text, labels, read))

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add a value to a metric, for plugins; a counter counts the call."""
        metric = self._by_name.get(name)
        if metric is None:
            raise Refused(f'the scheduler has no metric "{name}"')
        if isinstance(metric, CounterMetric):
            metric.add(*labels)
        else:
            metric.observe(value, *labels)

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """Count one attempt and its duration."""
        self.attempts.add(result, profile)
        self.attempt_seconds.observe(seconds, result, profile)

    def failed(self, profile: str, message: str, seconds: float) -> None:
        """Count an attempt that ended in an error; errors of volumes are also counted apart."""
        self.attempt("error", profile, seconds)
        for start, stage in _VOLUME_STAGES.items():
            if message.startswith(start):
                self.volume_errors.add(stage)

    def placed(self, attempts: int, seconds: float) -> None:
        """Count a scheduled pod with its attempts and the seconds since the first one."""
        self.attempts_needed.observe(attempts)
        label = f"{_MANY_ATTEMPTS}+" if attempts >= _MANY_ATTEMPTS else str(attempts)
        self.waited.observe(seconds, label)

    def evicted(self, seconds: float, result: str) -> None:
        """Count an executed preemption with its duration and result."""
        self.evictions.add(result)
        self.eviction_seconds.observe(seconds, result)

    def collect(self) -> Iterable[Metric]:
        """Return the metric families of all metrics."""
        return collect_all([*self._own(), *self._callbacks])

    @cached_property
    def _by_name(self) -> dict[str, CounterMetric | Histogram]:
        return {metric.name: metric for metric in self._own()}

    def _own(self) -> list[CounterMetric | Histogram]:
        return [m for m in vars(self).values() if isinstance(m, CounterMetric | Histogram)]

    def page(self) -> bytes:
        """Render the metrics page."""
        return generate_latest(self.registry)


def register_callback_metrics(
    metrics: Metrics,
    queue: SchedulingQueue,
    world: World,
    binding: Callable[[], int],
    informer_errors: Reading,
) -> None:
    """Add the metrics of the sizes of queue and cache.

    ``binding`` counts running binding cycles; ``informer_errors`` counts the objects that the
    informers or event handlers rejected.
    """
    add = metrics.add_callback

    def cached() -> dict[str, float]:
        pods = world.nodes.pods()
        assumed = sum(world.nodes.is_assumed(pod_info.uid) for pod_info, _ in pods)
        return {"nodes": world.nodes.node_count, "pods": len(pods), "assumed_pods": assumed}

    def pending() -> dict[str, float]:
        counts = queue.counts()
        return {place: counts[place] for place in _QUEUES}

    add(
        "scheduler_pending_pods", "Pending pods by queue.", ("queue",),
        pending,
    )  # fmt: skip
    add(
        "scheduler_unschedulable_pods",
        "Pending pods that a plugin rejected; one pod may count for several plugins.",
        ("plugin", "profile"), queue.unschedulable_by_plugin,
    )  # fmt: skip
    add(
        "scheduler_inflight_events", "Events stored for in-flight pods.",
        ("event",), queue.in_flight_events,
    )  # fmt: skip
    add(
        "scheduler_cache_size", "Nodes, pods and assumed pods in the scheduler's cache.",
        ("type",), cached,
    )  # fmt: skip
    add(
        "scheduler_goroutines", "Background tasks by operation.", ("operation",),
        lambda: {"binding": binding()},
    )  # fmt: skip
    add(
        "holdfast_objects_not_taken_in_total",
        "Objects that were unreadable, invalid or raised an error, since the start.",
        ("resource", "trouble"), informer_errors,
    )  # fmt: skip


SAMPLE_EVERY = 10
"""One cycle in this many is measured."""
SUCCESS, UNSCHEDULABLE = "Success", "Unschedulable"
R = TypeVar("R")


class Meter(PluginMeter):
    """Measures one cycle of ten, in which it is ``on``; ``binding`` measures PreBind and Bind."""

    def __init__(self, metrics: Metrics, timer: Callable[[], float]) -> None:
        self._metrics = metrics
        self._timer = timer
        self._cycles = 0
        self._spent: dict[Point, float] = {}
        self._status: dict[Point, str] = {}

    def begin(self) -> None:
        """Begin a cycle."""
        self._cycles += 1
        self.on = self._cycles % SAMPLE_EVERY == 0
        if self.on:
            self._spent, self._status = {}, {}

    def end(self, profile: str, *, placed: bool) -> None:
        """End the cycle and record the durations of its extension points."""
        if not self.on:
            return
        self.on = False
        if not placed and self._status.get(Point.FILTER):
            self._status[Point.FILTER] = UNSCHEDULABLE
        for point, seconds in self._spent.items():
            self._metrics.point_seconds.observe(
                seconds, point.upstream_name, self._status[point], profile
            )

    def counter(self, plugin: str, point: Point, profile: str) -> list[float]:
        """Return the cell of ``plugin_evaluation_total``."""
        return self._metrics.evaluations.cell(plugin, point.upstream_name, profile)

    def measure(self, plugin: str, point: Point, method: Callable[..., R], *arguments: Any) -> R:
        """Call a method of a plugin or its plan; record its duration and status."""
        began = self._timer()
        result = method(*arguments)
        seconds = self._timer() - began
        status = _status(result)
        self._metrics.plugin_seconds.observe(seconds, plugin, point.upstream_name, status)
        self._spent[point] = self._spent.get(point, 0.0) + seconds
        if self._status.setdefault(point, SUCCESS) == SUCCESS and status != Code.SKIP.upstream_name:
            self._status[point] = status
        return result


def _status(result: object) -> str:
    if isinstance(result, Reject | PostFilterResult):
        return result.code.upstream_name
    if isinstance(result, Skip):
        return Code.SKIP.upstream_name
    return Code.WAIT.upstream_name if isinstance(result, Wait) else SUCCESS
