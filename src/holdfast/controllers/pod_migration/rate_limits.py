"""Decide when a job may continue: limits on the rate of evictions, and backoff after a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.api.meta import controller_of
from holdfast.api.pod import Pod
from holdfast.client.backoff import Backoff
from holdfast.runtime.settings import MigrationSettings, ObjectLimit
from holdfast.state.migration.limits import Limit, max_of_workload

WORKLOAD, NAMESPACE = "workload", "namespace"
MAX_BUCKETS = 10_000
_BACKOFF = Backoff(first=1.0, limit=10.0)


class TokenBucket:
    """Tokens that are refilled at a rate, up to ``burst`` of them; times are seconds."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self._burst = max(burst, 1)
        self._tokens = float(self._burst)
        self._at = now

    def tokens(self, now: float) -> float:
        """Return how many tokens there are.

        >>> bucket = TokenBucket(rate=10, burst=1, now=0.0)
        >>> bucket.take(0.0), bucket.tokens(0.05), bucket.take(0.05), bucket.take(0.1)
        (True, 0.5, False, True)
        """
        return min(self._burst, self._tokens + max(now - self._at, 0.0) * self.rate)

    def take(self, now: float) -> bool:
        """Take a token, and return whether there was one."""
        left = self.tokens(now) - 1
        if left < -1e-9:  # a token that is complete except for rounding
            return False
        self._tokens, self._at = left, now
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token."""
        missing = 1 - self.tokens(now)
        return missing / self.rate if missing > 1e-9 and self.rate else 0.0


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
        """Remove full buckets: no pod of these objects was evicted for long."""
        if len(self._buckets) >= MAX_BUCKETS:
            kept = {key: b for key, b in self._buckets.items() if b.wait(now) > 0}
            self._buckets = kept


@dataclass(slots=True)
class JobRetries:
    """Refusals in a row, by the uid of a job; times are seconds of a monotonic clock.

    A job is reconciled whenever something about it changes; a refused action still waits.
    """

    _refused: dict[str, tuple[int, float]] = field(default_factory=dict)

    def seconds_to_wait(self, uid: str, now: float) -> float:
        """Return how long a job has to wait; 0 if it may try now.

        >>> retries = JobRetries()
        >>> retries.refused("a", 10.0), retries.refused("a", 11.0)
        (1.0, 2.0)
        >>> retries.seconds_to_wait("a", 12.5), retries.seconds_to_wait("b", 12.5)
        (0.5, 0.0)
        """
        _, at = self._refused.get(uid, (0, now))
        return max(at - now, 0.0)

    def refused(self, uid: str, now: float) -> float:
        """Count a refusal, and return the seconds until the next attempt."""
        count, _ = self._refused.get(uid, (0, now))
        delay = _BACKOFF.delay(count + 1)
        self._refused[uid] = count + 1, now + delay
        return delay

    def forget(self, uid: str) -> None:
        """Forget the refusals of a job that had success or has ended."""
        self._refused.pop(uid, None)
