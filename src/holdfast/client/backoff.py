"""Backoff between attempts, and retry loops that use it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Expired, HoldfastError, Retryable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff: ``first`` seconds, then ``factor`` times longer, at most ``limit``.

    ``jitter`` adds a random part of the delay, up to that fraction, so that clients that are
    disconnected together do not reconnect together.
    """

    first: float
    limit: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, rng: random.Random | None = None) -> float:
        """Return the delay in seconds after this many consecutive failures (at least one).

        >>> [Backoff(1, 5).delay(n) for n in (1, 2, 3, 4, 5000)]
        [1.0, 2.0, 4.0, 5, 5]
        """
        exponent = min(max(failures, 1) - 1, 64)
        seconds = min(self.first * self.factor**exponent, self.limit)
        return seconds * (1 + self.jitter * rng.random()) if self.jitter and rng else seconds


REQUEST_BACKOFF = Backoff(first=0.1, limit=5.0)
"""Between two attempts of one request."""
RECONNECT_BACKOFF = Backoff(first=0.25, limit=30.0, jitter=1.0)
RELIST_AFTER_FAILURES = 5


@dataclass(slots=True)
class Retries:
    """Count the failed attempts of an operation and wait after each.

    ``tries`` is the maximum number of attempts, None for no limit. With ``honor_retry_after`` the
    delay that a failure asks for replaces the one of ``backoff``.
    """

    clock: Clock
    backoff: Backoff = REQUEST_BACKOFF
    tries: int | None = None
    honor_retry_after: bool = True
    failures: int = 0

    @property
    def any_left(self) -> bool:
        """Whether another attempt is allowed."""
        return self.tries is None or self.failures < self.tries

    async def wait(self, failure: HoldfastError) -> None:
        """Count a failed attempt and wait before the next."""
        self.failures += 1
        asked = failure.after if self.honor_retry_after and isinstance(failure, Retryable) else None
        await self.clock.sleep(asked or self.backoff.delay(self.failures))


async def retry(
    work: Callable[[], Awaitable[T]],
    clock: Clock,
    backoff: Backoff = REQUEST_BACKOFF,
    *,
    tries: int | None = None,
    on: type[HoldfastError] = Retryable,
    honor_retry_after: bool = True,
    on_failure: Callable[[HoldfastError], None] = lambda _failure: None,
) -> T:
    """Call ``work`` until it succeeds and return its result; the last of ``tries`` attempts raises.

    Only failures of type ``on`` are retried. ``on_failure`` is called before each wait.
    """
    retries = Retries(clock, backoff, None if tries is None else tries - 1, honor_retry_after)
    while True:
        try:
            return await work()
        except on as failure:
            if not retries.any_left:
                raise
            on_failure(failure)
            await retries.wait(failure)


class ReconnectBackoff:
    """Backoff between the attempts of an informer to list and watch.

    There is no delay after an attempt that received an event or lasted a second, nor after the
    first 410: the server works. After other attempts the delay grows.
    """

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._expired = False
        self._progressed = False
        self._started_at = clock.monotonic()

    @property
    def should_relist(self) -> bool:
        """Whether enough attempts failed in a row that the next one should list again."""
        return self._failures >= RELIST_AFTER_FAILURES

    def attempt_started(self) -> None:
        """Record the start of an attempt."""
        self._started_at = self._clock.monotonic()
        self._progressed = False

    def attempt_progressed(self) -> None:
        """Record that the attempt received an event."""
        self._progressed = True

    def next_delay(self, failure: HoldfastError | None) -> float:
        """Record the end of an attempt and return the seconds to wait before the next."""
        lasted = self._clock.monotonic() - self._started_at >= 1.0
        expired = isinstance(failure, Expired)
        well = self._progressed or lasted or (expired and not self._expired)
        self._expired = expired
        self._failures = 1 if well else self._failures + 1
        if well:
            return 0.0
        wait = RECONNECT_BACKOFF.delay(self._failures, self._rng)
        asked = failure.after if isinstance(failure, Retryable) else None
        return max(wait, asked or 0.0)
