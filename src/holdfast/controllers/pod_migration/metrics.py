"""Metrics of migrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.api.koordinator_names import EVICT_TRIGGER
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.runtime.metric_types import CallbackMetric


class MigrationMetrics:
    """Evictions, under the name of upstream's descheduler, and jobs by phase."""

    def __init__(self, jobs: Mapping[str, PodMigrationJob]) -> None:
        self._jobs = jobs
        self._evictions: Counter[tuple[str, str, str, str]] = Counter()
        self.all = (
            # A counter, but without the suffix that prometheus_client adds to counters.
            CallbackMetric(
                "descheduler_pods_evicted",
                "Evictions of pods that migrate, by result (success or error), trigger, namespace "
                "and node.",
                ("result", "strategy", "namespace", "node"),
                lambda: self._evictions,
            ),
            CallbackMetric(
                "holdfast_pod_migration_jobs",
                "PodMigrationJobs by phase.",
                ("phase",),
                lambda: Counter(job.phase for job in self._jobs.values()),
            ),
        )

    def evicted(self, job: PodMigrationJob, pod: Pod, *, refused: bool = False) -> None:
        """Count an eviction, or one that was refused."""
        strategy = job.metadata.annotations.get(EVICT_TRIGGER, "")
        result = "error" if refused else "success"
        self._evictions[result, strategy, pod.namespace, pod.spec.node_name] += 1
