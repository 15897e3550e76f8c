"""How long to wait before trying again."""

from __future__ import annotations

import random
from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.errors import Expired, HoldfastError, Retryable


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


RECONNECT = Backoff(first=0.25, limit=30.0, jitter=1.0)
ENOUGH_FAILURES = 5


class Patience:
    """Say how long to wait before the next attempt to follow a stream.

    After a stream that brought something, or that lasted, and after the first 410, none: the
    server is well. After attempts that brought nothing, longer each time.
    """

    def __init__(self, clock: Clock, rng: random.Random, backoff: Backoff = RECONNECT) -> None:
        self._clock = clock
        self._rng = rng
        self._backoff = backoff
        self._failures = 0
        self._expired = False
        self._progressed = False
        self._began = clock.monotonic()

    @property
    def exhausted(self) -> bool:
        """So many attempts brought nothing that starting over may be the better idea."""
        return self._failures >= ENOUGH_FAILURES

    def begin(self) -> None:
        """An attempt starts."""
        self._began = self._clock.monotonic()
        self._progressed = False

    def progressed(self) -> None:
        """The attempt brought something."""
        self._progressed = True

    def after(self, failure: HoldfastError | None) -> float:
        """The attempt ended, cleanly or with a failure: how many seconds to wait now."""
        lasted = self._clock.monotonic() - self._began >= 1.0
        expired = isinstance(failure, Expired)
        well = self._progressed or lasted or (expired and not self._expired)
        self._expired = expired
        self._failures = 1 if well else self._failures + 1
        if well:
            return 0.0
        wait = self._backoff.delay(self._failures, self._rng)
        asked = failure.after if isinstance(failure, Retryable) else None
        return max(wait, asked or 0.0)
