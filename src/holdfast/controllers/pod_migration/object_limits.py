"""Limits of how often pods of one workload, or of one namespace, are evicted."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api.meta import controller_of
from holdfast.api.pod import Pod
from holdfast.controllers.pod_migration.token_bucket import TokenBucket
from holdfast.migration.limits import Limit, max_of_workload
from holdfast.settings import MigrationSettings, ObjectLimit

WORKLOAD, NAMESPACE = "workload", "namespace"
MAX_BUCKETS = 10_000


class ObjectLimits:
    """A token bucket for each workload and namespace whose pods were evicted lately."""

    def __init__(self, settings: MigrationSettings) -> None:
        self._settings = settings
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def find_limit(self, pod: Pod, now: float) -> Limit | None:
        """Return the limit for which a pod has to wait the longest, or None."""
        seconds, kind = max(self._waits(pod, now), default=(0.0, ""))
        if seconds <= 0:
            return None
        message = f"as many pods of its {kind} as allowed were evicted lately"
        return Limit(f"objectLimiters_{kind}", message)

    def _waits(self, pod: Pod, now: float) -> Iterator[tuple[float, str]]:
        """Yield the seconds that a pod has to wait for each limit, and the limit's kind."""
        for (kind, name), _ in self._limits(pod):
            if (bucket := self._buckets.get((kind, name))) is not None:
                yield bucket.wait(now), kind

    def evicted(self, pod: Pod, replicas: int, now: float) -> None:
        """Count the eviction of a pod; ``replicas`` are those of its workload."""
        for key, limit in self._limits(pod):
            most = limit.max_migrating
            if key[0] == WORKLOAD:
                most = max_of_workload(replicas, self._most_of_workload(limit))
            if not isinstance(most, int):
                continue
            rate = most / limit.seconds
            bucket = self._buckets.get(key)
            if bucket is None:
                self._forget_full(now)
                bucket = self._buckets[key] = TokenBucket(rate, limit.burst, now)
            bucket.rate = rate
            bucket.take(now)

    def _most_of_workload(self, limit: ObjectLimit) -> int | str | None:
        own = limit.max_migrating
        return self._settings.max_per_workload if own is None else own

    def _limits(self, pod: Pod) -> Iterator[tuple[tuple[str, str], ObjectLimit]]:
        owner = controller_of(pod)
        for kind, name in ((WORKLOAD, owner.uid if owner else ""), (NAMESPACE, pod.namespace)):
            limit = self._settings.object_limits.get(kind)
            if limit is not None and limit.seconds > 0 and name:
                yield (kind, name), limit

    def _forget_full(self, now: float) -> None:
        """Remove the buckets of objects that nothing was evicted of for long."""
        if len(self._buckets) >= MAX_BUCKETS:
            kept = {key: b for key, b in self._buckets.items() if b.wait(now) > 0}
            self._buckets = kept
