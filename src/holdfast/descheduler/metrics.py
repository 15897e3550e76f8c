"""The metrics of the descheduler."""

from __future__ import annotations

from holdfast.metric_types import CounterMetric, Histogram, MetricCollector, exponential_buckets


class DeschedulerMetrics(MetricCollector):
    """Cycles and moves."""

    def __init__(self) -> None:
        self.moves = CounterMetric(
            "holdfast_descheduler_moves_total",
            "Pods that should move, by policy and what was done: created, exists, dry-run.",
            ("policy", "result"),
        )
        self.cycles = CounterMetric(
            "holdfast_descheduler_cycles_total", "Cycles, by result: success, error.", ("result",)
        )
        self.seconds = Histogram(
            "holdfast_descheduler_cycle_duration_seconds",
            "Time from the start of a cycle to its last write.",
            exponential_buckets(0.001, 4, 8),
        )
        super().__init__(self.moves, self.cycles, self.seconds)
