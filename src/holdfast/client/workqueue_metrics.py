"""Metrics of work queues, under client-go's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from holdfast.runtime.metric_types import (
    CallbackMetric,
    CounterMetric,
    Histogram,
    collect_all,
    exponential_buckets,
)

_SECONDS = exponential_buckets(1e-8, 10, 12)


class WorkQueueMetrics(Collector):
    """The metrics of all named work queues of a process; ``now`` is their monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._queues: dict[str, list[NamedQueue]] = {}
        label = ("name",)
        self.adds = CounterMetric("workqueue_adds_total", "Keys added to a work queue.", label)
        self.retries = CounterMetric(
            "workqueue_retries_total", "Keys that were queued again, at once or later.", label
        )
        self.waited = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waited for a worker.",
            _SECONDS,
            label,
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds",
            "How long the processing of a key took.",
            _SECONDS,
            label,
        )
        self._callbacks = (
            CallbackMetric(
                "workqueue_depth",
                "Keys that wait for a worker.",
                label,
                self._read(sum, lambda queue: len(queue.waiting)),
            ),
            CallbackMetric(
                "workqueue_unfinished_work_seconds",
                "How long all keys in processing have been processed, in sum.",
                label,
                self._read(sum, lambda queue: sum(queue.running_seconds(self._now()))),
            ),
            CallbackMetric(
                "workqueue_longest_running_processor_seconds",
                "How long the longest processing of a key has been running.",
                label,
                self._read(max, lambda queue: max(queue.running_seconds(self._now()), default=0.0)),
            ),
        )

    def queue(self, name: str) -> NamedQueue:
        """Return the observer of a new queue; queues of the same name are counted together."""
        observer = NamedQueue(self, name)
        self._queues.setdefault(name, []).append(observer)
        return observer

    def collect(self) -> Iterable[Metric]:
        """Return the metric families of all metrics."""
        return collect_all((self.adds, self.retries, self.waited, self.worked, *self._callbacks))

    def _read(
        self, combine: Callable[[Iterable[float]], float], value: Callable[[NamedQueue], float]
    ) -> Callable[[], Mapping[str, float]]:
        return lambda: {name: combine(map(value, queues)) for name, queues in self._queues.items()}


class NamedQueue:
    """Observes one queue and counts under its name."""

    def __init__(self, metrics: WorkQueueMetrics, name: str) -> None:
        self._name = name
        self._adds = metrics.adds.cell(name)
        self._retries = metrics.retries.cell(name)
        self._metrics = metrics
        self.waiting: dict[str, float] = {}
        """When each waiting key was added."""
        self._running: dict[str, float] = {}

    def added(self, key: str, now: float) -> None:
        """Count a key that was queued."""
        self._adds[0] += 1
        self.waiting.setdefault(key, now)

    def started(self, key: str, now: float) -> None:
        """Observe how long a key has waited."""
        self._metrics.waited.observe(now - self.waiting.pop(key, now), self._name)
        self._running[key] = now

    def finished(self, key: str, now: float) -> None:
        """Observe how long a key was processed."""
        self._metrics.worked.observe(now - self._running.pop(key, now), self._name)

    def retried(self) -> None:
        """Count a key that was queued again."""
        self._retries[0] += 1

    def running_seconds(self, now: float) -> list[float]:
        """Return how long each key in processing has been processed."""
        return [now - began for began in self._running.values()]
