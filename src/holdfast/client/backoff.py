"""How long to wait before trying again, and trying again."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.errors import Expired, HoldfastError, Retryable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait ``first`` seconds, then ``factor`` times longer each time, at most ``limit``.

    ``jitter`` adds up to that fraction on top, so that many clients cut off at one moment do not
    all come back at one moment.
    """

    first: float
    limit: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, rng: random.Random | None = None) -> float:
        """Say how long to wait after that many failures in a row (one at least).

        >>> [Backoff(1, 5).delay(n) for n in (1, 2, 3, 4, 5000)]
        [1.0, 2.0, 4.0, 5, 5]
        """
        exponent = min(max(failures, 1) - 1, 64)
        seconds = min(self.first * self.factor**exponent, self.limit)
        return seconds * (1 + self.jitter * rng.random()) if self.jitter and rng else seconds


REQUEST_BACKOFF = Backoff(first=0.1, limit=5.0)
"""Between two tries of one request."""
RECONNECT_BACKOFF = Backoff(first=0.25, limit=30.0, jitter=1.0)
RELIST_AFTER_FAILURES = 5


@dataclass(slots=True)
class Retries:
    """The tries of one piece of work: how many are left, and the wait after each that failed.

    ``tries`` is how many there are, None for no end. ``as_asked``: a failure that says how long to
    wait is believed, and ``backoff`` counts for the others.
    """

    clock: Clock
    backoff: Backoff = REQUEST_BACKOFF
    tries: int | None = None
    honor_retry_after: bool = True
    failures: int = 0

    @property
    def any_left(self) -> bool:
        """Whether there is another try."""
        return self.tries is None or self.failures < self.tries

    async def wait(self, failure: HoldfastError) -> None:
        """Wait after a try that failed."""
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
    """Do something until it succeeds; the last of so many ``tries`` raises its failure.

    Other failures than ``on`` come through at once. ``tell`` hears of each that is waited for.
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
    """Say how long to wait before the next attempt to follow a stream.

    After a stream that brought something, or that lasted, and after the first 410, none: the
    server is well. After attempts that brought nothing, longer each time.
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
        """So many attempts brought nothing that starting over may be the better idea."""
        return self._failures >= RELIST_AFTER_FAILURES

    def attempt_started(self) -> None:
        """An attempt starts."""
        self._started_at = self._clock.monotonic()
        self._progressed = False

    def attempt_progressed(self) -> None:
        """The attempt brought something."""
        self._progressed = True

    def after(self, failure: HoldfastError | None) -> float:
        """The attempt ended, cleanly or with a failure: how many seconds to wait now."""
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
