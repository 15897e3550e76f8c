"""Metrics of the controllers, under the names of client-go and controller-runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from holdfast.client.workqueue_metrics import WorkQueueMetrics
from holdfast.runtime.metric_types import CallbackMetric, CounterMetric, Histogram, collect_all

_SECONDS: tuple[float, ...] = (
    *(0.005, 0.01, 0.025, 0.05),
    *(step / 20 for step in range(2, 10)),
    *(step / 10 for step in range(5, 10)),
    *(step / 4 for step in range(4, 8)),
    *(step / 2 for step in range(4, 10)),
    *(5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
"""controller-runtime's bounds of buckets."""


class ControllerMetrics(Collector):
    """The metrics of the controllers of one manager."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.queues = WorkQueueMetrics(now)
        self._results = CounterMetric(
            "controller_runtime_reconcile_total",
            "Reconciles of a controller, by result.",
            ("controller", "result"),
        )
        self._errors = CounterMetric(
            "controller_runtime_reconcile_errors_total",
            "Reconciles of a controller that failed.",
            ("controller",),
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile.",
            _SECONDS,
            ("controller",),
        )

        self._more: list[CounterMetric | Histogram | CallbackMetric] = []

    def add(self, *metrics: CounterMetric | Histogram | CallbackMetric) -> None:
        """Add the metrics of one controller."""
        self._more += metrics

    def reconciled(self, controller: str, seconds: float, *, failed: bool) -> None:
        """Count a reconcile with its duration and result."""
        self._results.add(controller, "error" if failed else "success")
        if failed:
            self._errors.add(controller)
        self._seconds.observe(seconds, controller)

    def collect(self) -> Iterable[Metric]:
        """Return the metric families of all metrics."""
        own = collect_all((self._results, self._errors, self._seconds, *self._more))
        return [*self.queues.collect(), *own]
