"""What a scheduler tells Prometheus, under upstream's names, labels and buckets."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from holdfast.scheduler.series import Count, Level, Reading, Spread, collected, growing

_SECONDS = growing(0.001, 2, 15)
_SHORT = growing(0.0001, 2, 12)
_TINY = growing(0.00001, 1.5, 20)
_MANY_ATTEMPTS = 15
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
        self.attempts = Count(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod, by their result.", ("result", "profile"),
        )  # fmt: skip
        self.attempt_seconds = Spread(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, binding included.", _SECONDS, ("result", "profile"),
        )  # fmt: skip
        self.algorithm_seconds = Spread(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long deciding took.", _SECONDS,
        )  # fmt: skip
        self.point_seconds = Spread(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plugins of an extension point took; until Permit in one cycle of ten.",
            _SHORT, ("extension_point", "status", "profile"),
        )  # fmt: skip
        self.plugin_seconds = Spread(
            "scheduler_plugin_execution_duration_seconds",
            "How long one plugin took at one extension point, in one cycle of ten.",
            _TINY, ("plugin", "extension_point", "status"),
        )  # fmt: skip
        self.evaluations = Count(
            "scheduler_plugin_evaluation_total",
            "Pods, or pods on nodes, that a plugin was asked about.",
            ("plugin", "extension_point", "profile"),
        )  # fmt: skip
        self.attempts_needed = Spread(
            "scheduler_pod_scheduling_attempts",
            "How many attempts a pod needed that found its node.", growing(1, 2, 5),
        )  # fmt: skip
        self.waited = Spread(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the queue to the node, all attempts together.",
            growing(0.01, 2, 20), ("attempts",),
        )  # fmt: skip
        self.incoming = Count(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by what brought them there.", ("queue", "event"),
        )  # fmt: skip
        self.hint_seconds = Spread(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long a plugin's hint took.", _TINY, ("plugin", "event", "hint"),
        )  # fmt: skip
        self.event_seconds = Spread(
            "scheduler_event_handling_duration_seconds",
            "How long it took to weigh an event for the pods that wait.", _SHORT, ("event",),
        )  # fmt: skip
        self.preemption_attempts = Count(
            "scheduler_preemption_attempts_total", "Attempts to preempt pods for another.",
        )  # fmt: skip
        self.preemption_victims = Spread(
            "scheduler_preemption_victims", "Victims of one preemption.", growing(1, 2, 7),
        )  # fmt: skip
        self.eviction_seconds = Spread(
            "scheduler_preemption_goroutines_duration_seconds",
            "How long it took to ask all victims to leave.", growing(0.01, 2, 20), ("result",),
        )  # fmt: skip
        self.evictions = Count(
            "scheduler_preemption_goroutines_execution_total",
            "Preemptions carried out, by how that ended.", ("result",),
        )  # fmt: skip
        self.permit_seconds = Spread(
            "scheduler_permit_wait_duration_seconds",
            "How long placed pods waited for permission.", _SECONDS, ("result",),
        )  # fmt: skip
        self.after_flush = Count(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods placed only because they had waited too long without an event.",
        )  # fmt: skip
        self.volume_errors = Count(
            "scheduler_volume_scheduling_stage_error_total",
            "Failures to find, reserve or bind volumes.", ("operation",),
        )  # fmt: skip
        self._levels: list[Level] = []
        self.registry.register(self)

    def level(self, name: str, words: str, labels: tuple[str, ...], read: Reading) -> None:
        """Show a number that is read when the page is."""
        self._levels.append(Level(name, words, labels, read))

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
        own = [each for each in vars(self).values() if isinstance(each, Count | Spread)]
        return collected([*own, *self._levels])

    def page(self) -> bytes:
        """Render the metrics page as things are now."""
        return generate_latest(self.registry)
