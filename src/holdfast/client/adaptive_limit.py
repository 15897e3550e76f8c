"""How many requests to keep in flight, learned from the responses.

No I/O and no clock: times go in, a number comes out.
"""

from __future__ import annotations

LOWEST, START, HIGHEST = 2, 8, 64
SLOW_SECONDS = 2.0
"""A response that takes longer counts as a sign of overload, like 429 and 503."""
LEAST_SAMPLES = 16
LEAST_GAIN = 1 / 3
"""An increase of the limit must raise throughput by this fraction of it, or is taken back."""
LONGEST_HOLD = 16
"""Rounds between two attempts to increase the limit, at most."""


class AdaptiveLimit:
    """A concurrency limit that grows while more requests in flight bring more throughput.

    A round ends after ``limit`` responses (16 at least) to requests sent under that limit while
    more work was waiting; the first ``limit`` of them are left out. Then the limit is doubled. If
    the mean latency of the next round shows that throughput hardly grew, the increase is taken
    back and tried again later, after twice as many rounds each time. Signs of overload halve the
    limit, once for all requests that were in flight together.

    Latencies are compared between adjacent rounds only: other clients of the same server, the
    scheduler's own binds among them, make it slower or faster at any time.
    """

    def __init__(self, start: int = START, *, lowest: int = LOWEST, highest: int = HIGHEST) -> None:
        self.limit = start
        self._lowest = lowest
        self._highest = highest
        self._changed = float("-inf")
        """When the limit last changed: requests sent earlier say nothing about it."""
        self._skip = 0
        """Responses to leave out until as many requests are in flight as the limit lets through."""
        self._samples = 0
        self._latencies = 0.0
        self._before: tuple[int, float] | None = None
        """The limit before the increase that is on trial, and the mean latency then."""
        self._hold = 0
        self._next_hold = 1

    def succeeded(self, sent: float, now: float, *, saturated: bool) -> None:
        """Take note of a response; ``saturated``: more work waits than the limit lets through."""
        if now - sent > SLOW_SECONDS:
            self.overloaded(sent, now)
        elif sent > self._changed:
            self._sample(now - sent if saturated else None, now)

    def overloaded(self, sent: float, now: float) -> None:
        """Take note of a 429, a 503, a time-out or a lost connection: halve the limit."""
        if sent > self._changed:
            self._wait_longer()
            self._change(max(self._lowest, self.limit // 2), now)

    def _sample(self, latency: float | None, now: float) -> None:
        if latency is None:
            self._samples, self._latencies = 0, 0.0
        elif self._skip:
            self._skip -= 1
        else:
            self._samples += 1
            self._latencies += latency
            if self._samples >= max(self.limit, LEAST_SAMPLES):
                self._end_round(now)

    def _end_round(self, now: float) -> None:
        latency = self._latencies / self._samples
        before, self._before = self._before, None
        self._samples, self._latencies = 0, 0.0
        if before is not None:
            if not self._worth_it(before, latency):
                self._wait_longer()
                self._change(before[0], now)
                return
            self._next_hold = 1
        if self._hold:
            self._hold -= 1
        elif self.limit < self._highest:
            trial = (self.limit, latency)
            self._change(min(2 * self.limit, self._highest), now)
            self._before = trial

    def _worth_it(self, before: tuple[int, float], latency: float) -> bool:
        limit, latency_before = before
        growth = self.limit / limit
        return growth * latency_before >= (1 + (growth - 1) * LEAST_GAIN) * latency

    def _wait_longer(self) -> None:
        self._hold = self._next_hold
        self._next_hold = min(2 * self._next_hold, LONGEST_HOLD)

    def _change(self, limit: int, now: float) -> None:
        self.limit, self._changed, self._before = limit, now, None
        self._samples, self._latencies, self._skip = 0, 0.0, limit
