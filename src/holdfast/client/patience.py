"""When a follower of a stream comes back after it ended."""

from __future__ import annotations

import random

from holdfast.client.backoff import Backoff
from holdfast.clock import Clock
from holdfast.errors import Expired, HoldfastError, Retryable

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
