"""When a job may try again what was refused to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.client.backoff import Backoff

BACKOFF = Backoff(first=1.0, limit=10.0)


@dataclass(slots=True)
class JobRetries:
    """Refusals in a row, by the uid of a job; times are seconds of a monotonic clock.

    A job is reconciled whenever something about it changes; what was refused waits all the same.
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
        delay = BACKOFF.delay(count + 1)
        self._refused[uid] = count + 1, now + delay
        return delay

    def forget(self, uid: str) -> None:
        """Forget the refusals of a job that has had success, or is over."""
        self._refused.pop(uid, None)
