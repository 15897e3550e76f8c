"""What a scheduler tells Prometheus, under upstream's names, labels and buckets.

A pod moves a dozen counters and histograms. prometheus_client writes the page; the cells are plain
Python, because everything happens on one loop and needs no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from holdfast.framework.world import World
from holdfast.scheduler.scheduling_queue import SchedulingQueue

LabelValues = tuple[str, ...]
Reading = Callable[[], Mapping[Any, float]]
"""Label values (a tuple, or just the one) to a number."""


class DurationRecorder(NamedTuple):
    """A clock, and who is told how many seconds something took, with its label values."""

    read: Callable[[], float] = lambda: 0.0
    tell: Callable[..., None] = lambda *_: None


NO_DURATIONS = DurationRecorder()


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds of buckets, each so many times the one before.

    >>> growing(1, 2, 4)
    (1, 2, 4, 8)
    """
    return tuple(start * factor**i for i in range(count))


class Counter:
    """A counter, by label values; ``name`` ends in ``_total``."""

    __slots__ = ("_cells", "_help", "_labels", "_name")

    def __init__(self, name: str, words: str, labels: Sequence[str] = ()) -> None:
        self._name, self._help, self._labels = name, words, labels
        self._cells: dict[LabelValues, list[float]] = {} if labels else {(): [0.0]}

    def cell(self, *labels: str) -> list[float]:
        """One number in a list, for whoever counts often."""
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = [0.0]
        return cell

    def add(self, *labels: str) -> None:
        """Count one."""
        self.cell(*labels)[0] += 1

    def collect(self) -> Metric:
        """Tell the metrics page."""
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, cell in self._cells.items():
            if cell[0] or not labels:
                family.add_metric(labels, cell[0])
        return family


class Histogram:
    """A histogram, by label values."""

    __slots__ = ("_bounds", "_cells", "_help", "_labels", "_name")

    def __init__(
        self, name: str, words: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self._name, self._help, self._labels = name, words, labels
        self._bounds = bounds
        self._cells: dict[LabelValues, list[float]] = {}
        """How many fell into each bucket, then into none of them, then the sum."""
        if not labels:
            self._cells[()] = self._empty()

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = self._empty()
        cell[bisect_left(self._bounds, value)] += 1
        cell[-1] += value

    def collect(self) -> Metric:
        """Tell the metrics page."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, (*cells, total) in self._cells.items():
            sums, so_far = [], 0.0
            for bound, number in zip(bounds, cells, strict=True):
                so_far += number
                sums.append((bound, so_far))
            family.add_metric(labels, sums, total)
        return family

    def _empty(self) -> list[float]:
        return [0.0] * (len(self._bounds) + 2)


class CallbackMetric:
    """A number that is read when somebody asks: a counter if its name says so, else a gauge."""

    __slots__ = ("_help", "_labels", "_name", "read")

    def __init__(self, name: str, words: str, labels: Sequence[str], read: Reading) -> None:
        self._name, self._help, self._labels = name, words, labels
        self.read = read

    def collect(self) -> Metric:
        """Tell the metrics page."""
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = kind(self._name, self._help, labels=self._labels)
        for labels, value in self.read().items():
            family.add_metric((labels,) if isinstance(labels, str) else labels, value)
        return family


def collect_all(series: Iterable[Counter | Histogram | CallbackMetric]) -> Iterable[Metric]:
    """Tell the metrics page of all of them."""
    return [each.collect() for each in series]


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
"""How a failure of VolumeBinding begins, and which stage that is."""


class Metrics(Collector):
    """One registry a scheduler, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod, by their result.", ("result", "profile"),
        )  # fmt: skip
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, binding included.", _SECONDS, ("result", "profile"),
        )  # fmt: skip
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long deciding took.", _SECONDS,
        )  # fmt: skip
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plugins of an extension point took; until Permit in one cycle of ten.",
            _SHORT, ("extension_point", "status", "profile"),
        )  # fmt: skip
        self.plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "How long one plugin took at one extension point, in one cycle of ten.",
            _TINY, ("plugin", "extension_point", "status"),
        )  # fmt: skip
        self.evaluations = Counter(
            "scheduler_plugin_evaluation_total",
            "Pods, or pods on nodes, that a plugin was asked about.",
            ("plugin", "extension_point", "profile"),
        )  # fmt: skip
        self.attempts_needed = Histogram(
            "scheduler_pod_scheduling_attempts",
            "How many attempts a pod needed that found its node.", exponential_buckets(1, 2, 5),
        )  # fmt: skip
        self.waited = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the queue to the node, all attempts together.",
            exponential_buckets(0.01, 2, 20), ("attempts",),
        )  # fmt: skip
        self.incoming = Counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by what brought them there.", ("queue", "event"),
        )  # fmt: skip
        self.hint_seconds = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long a plugin's hint took.", _TINY, ("plugin", "event", "hint"),
        )  # fmt: skip
        self.event_seconds = Histogram(
            "scheduler_event_handling_duration_seconds",
            "How long it took to weigh an event for the pods that wait.", _SHORT, ("event",),
        )  # fmt: skip
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts_total", "Attempts to preempt pods for another.",
        )  # fmt: skip
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of one preemption.",
            exponential_buckets(1, 2, 7),
        )
        self.eviction_seconds = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "How long it took to ask all victims to leave.",
            exponential_buckets(0.01, 2, 20),
            ("result",),
        )
        self.evictions = Counter(
            "scheduler_preemption_goroutines_execution_total",
            "Preemptions carried out, by how that ended.", ("result",),
        )  # fmt: skip
        self.permit_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "How long placed pods waited for permission.", _SECONDS, ("result",),
        )  # fmt: skip
        self.after_flush = Counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods placed only because they had waited too long without an event.",
        )  # fmt: skip
        self.volume_errors = Counter(
            "scheduler_volume_scheduling_stage_error_total",
            "Failures to find, reserve or bind volumes.", ("operation",),
        )  # fmt: skip
        self._levels: list[CallbackMetric] = []
        self.registry.register(self)

    def level(self, name: str, words: str, labels: tuple[str, ...], read: Reading) -> None:
        """Show a number that is read when the page is."""
        self._levels.append(CallbackMetric(name, words, labels, read))

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """Count one attempt and how long it took."""
        self.attempts.add(result, profile)
        self.attempt_seconds.observe(seconds, result, profile)

    def failed(self, profile: str, message: str, seconds: float) -> None:
        """Count an attempt that failed; volumes have a counter of their own."""
        self.attempt("error", profile, seconds)
        for words, stage in _VOLUME_STAGES.items():
            if message.startswith(words):
                self.volume_errors.add(stage)

    def placed(self, attempts: int, seconds: float) -> None:
        """Count a pod that is on its node, after so many attempts and seconds."""
        self.attempts_needed.observe(attempts)
        label = f"{_MANY_ATTEMPTS}+" if attempts >= _MANY_ATTEMPTS else str(attempts)
        self.waited.observe(seconds, label)

    def evicted(self, seconds: float, result: str) -> None:
        """Count a preemption that was carried out, or failed to be."""
        self.evictions.add(result)
        self.eviction_seconds.observe(seconds, result)

    def collect(self) -> Iterable[Metric]:
        """Tell everything there is."""
        own = [each for each in vars(self).values() if isinstance(each, Counter | Histogram)]
        return collect_all([*own, *self._levels])

    def page(self) -> bytes:
        """Render the metrics page as things are now."""
        return generate_latest(self.registry)


def register_callback_metrics(
    metrics: Metrics,
    queue: SchedulingQueue,
    world: World,
    binding: Callable[[], int],
    troubles: Reading,
) -> None:
    """Show on the metrics page how full the queue, the picture and the loop are.

    ``binding`` counts the bindings under way, ``troubles`` the objects that were not taken in.
    """
    level = metrics.level

    def cached() -> dict[str, float]:
        pods = world.nodes.pods()
        assumed = sum(world.nodes.is_assumed(pod_info.uid) for pod_info, _ in pods)
        return {"nodes": world.nodes.node_count, "pods": len(pods), "assumed_pods": assumed}

    def pending() -> dict[str, float]:
        counts = queue.counts()
        return {place: counts[place] for place in _QUEUES}

    level(
        "scheduler_pending_pods", "Pods that wait, by the queue they wait in.", ("queue",),
        pending,
    )  # fmt: skip
    level(
        "scheduler_unschedulable_pods",
        "Waiting pods that a plugin rejected; one pod may count for several.",
        ("plugin", "profile"), queue.unschedulable_by_plugin,
    )  # fmt: skip
    level(
        "scheduler_inflight_events", "Events remembered for pods that are being tried.",
        ("event",), queue.in_flight_events,
    )  # fmt: skip
    level(
        "scheduler_cache_size", "Nodes, pods and assumed pods in the scheduler's picture.",
        ("type",), cached,
    )  # fmt: skip
    level(
        "scheduler_goroutines", "Work under way beside deciding.", ("operation",),
        lambda: {"binding": binding()},
    )  # fmt: skip
    level(
        "holdfast_objects_not_taken_in_total",
        "Objects that could not be read, made no sense, or met a defect, since the start.",
        ("resource", "trouble"), troubles,
    )  # fmt: skip
