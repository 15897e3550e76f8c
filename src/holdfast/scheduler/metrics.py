"""Counters of the scheduler under upstream's names, for its /metrics page."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_ATTEMPT_SECONDS = [0.001 * 2**i for i in range(15)]
_VICTIMS = [2**i for i in range(7)]


class Metrics:
    """One registry a scheduler, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Number of attempts to schedule pods, by the result.",
            ["result", "profile"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds.",
            ["result", "profile"],
            buckets=_ATTEMPT_SECONDS,
            registry=self.registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue they wait in.",
            ["queue"],
            registry=self.registry,
        )
        self._cache = Gauge(
            "scheduler_cache_size",
            "Number of nodes, pods and assumed pods in the scheduler's picture.",
            ["type"],
            registry=self.registry,
        )
        self._incoming = Counter(
            "scheduler_queue_incoming_pods",
            "Number of pods that entered a queue, by queue and by what brought them there.",
            ["queue", "event"],
            registry=self.registry,
        )
        self._unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "Number of waiting pods that a plugin rejected; one pod may count for several.",
            ["plugin", "profile"],
            registry=self.registry,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts",
            "Number of times preemption was tried for a pod.",
            registry=self.registry,
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Number of victims of a preemption.",
            buckets=_VICTIMS,
            registry=self.registry,
        )
        self.scheduled_after_flush = Counter(
            "scheduler_pod_scheduled_after_flush",
            "Number of pods placed only because they had waited too long without an event.",
            registry=self.registry,
        )
        self._permit_wait = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "How long placed pods waited for permission to be bound, by how that ended.",
            ["result"],
            buckets=_ATTEMPT_SECONDS,
            registry=self.registry,
        )
        self._entered: dict[tuple[str, str], Counter] = {}
        self._series: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """Count one attempt and how long deciding took."""
        series = self._series.get((result, profile))
        if series is None:
            labels = (result, profile)
            series = (self._attempts.labels(*labels), self._seconds.labels(*labels))
            self._series[labels] = series
        series[0].inc()
        series[1].observe(seconds)

    def permit_waited(self, result: str, seconds: float) -> None:
        """Count a pod that waited for permission, and how long."""
        self._permit_wait.labels(result).observe(seconds)

    def entered(self, queue: str, event: str) -> None:
        """Count a pod that entered a queue."""
        series = self._entered.get((queue, event))
        if series is None:
            series = self._entered[queue, event] = self._incoming.labels(queue, event)
        series.inc()

    def page(
        self,
        pending: Mapping[str, int],
        blamed: Mapping[tuple[str, str], int],
        sizes: Mapping[str, int],
    ) -> bytes:
        """Render the metrics page with the gauges as they are now."""
        self._unschedulable.clear()
        for labels, number in blamed.items():
            self._unschedulable.labels(*labels).set(number)
        for queue, number in pending.items():
            self._pending.labels(queue).set(number)
        for kind, number in sizes.items():
            self._cache.labels(kind).set(number)
        return generate_latest(self.registry)
