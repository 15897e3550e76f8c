"""Adapt the number of requests in flight to the latency and the errors of the server.

No I/O and no clock: the caller passes times and reads the limit.

No fixed number of event writers suits every server. With 8 writers and 128 binds in flight the last
event was stored long after the last bind, at 74 to 76 % of the rate of a program that only writes
bindings and events. A number that is right for an idle server overloads a busy one. So the number
follows what the server shows: its errors, and whether latency grows with the number of requests.

Latency alone misleads below the start value. At a limit of 2 each response took longer than twice
the lowest latency, because other clients kept the server busy, and the limit stayed at 2 for as
long as they did. So below the start value, only signs of overload keep the limit from growing.
"""

from __future__ import annotations

LOWEST, START, HIGHEST = 2, 32, 64
SLOW_SECONDS = 2.0
"""A response slower than this counts as overload, like 429 and 503."""
QUEUEING = 2.0
"""Requests are queueing in the server if the mean latency is this many times the lowest one."""
REMEMBER_SECONDS = 600.0
"""How long the lowest latency is remembered."""
LEAST_SAMPLES = 16
LONGEST_HOLD = 16


class AdaptiveLimit:
    """A concurrency limit that grows while the server responds fast and falls on overload.

    A round is ``limit`` responses (at least 16) while more work waits; after a change of the limit,
    the first ``limit`` responses are ignored. A round doubles the limit, unless the limit is at
    least the start value and the mean latency shows that requests queue in the server. Below the
    start value the latency is ignored, because other clients may cause it.

    Overload halves the limit, once for all requests that were in flight together. The limit then
    stays for one round, and for twice as many (at most 16) each time it overloads the server again.
    """

    def __init__(self, start: int = START) -> None:
        self.limit = self._start = start
        self._changed = float("-inf")
        """When the limit last changed; responses to requests sent earlier are ignored."""
        self._skip = start
        """Responses still to ignore, until the number of requests in flight matches the limit."""
        self._samples = 0
        self._latencies = 0.0
        self._lowest_latency = float("inf")
        self._lowest_seen = 0.0
        self._on_trial = False
        """Whether the limit has grown and no round has ended since."""
        self._hold = 0
        self._next_hold = 1

    def succeeded(self, sent: float, now: float, *, saturated: bool) -> None:
        """Record a successful response; ``saturated`` means that more work waits for the limit."""
        latency = now - sent
        if latency > SLOW_SECONDS:
            self.overloaded(sent, now)
            return
        if latency <= self._lowest_latency or now > self._lowest_seen + REMEMBER_SECONDS:
            self._lowest_latency, self._lowest_seen = latency, now
        if not saturated:
            self._samples, self._latencies = 0, 0.0
        elif sent > self._changed:
            self._sample(latency, now)

    def overloaded(self, sent: float, now: float) -> None:
        """Halve the limit after a 429, a 503, a timeout or a lost connection."""
        if sent > self._changed:
            self._hold = self._next_hold
            self._next_hold = min(2 * self._next_hold, LONGEST_HOLD)
            self._change(max(LOWEST, self.limit // 2), now)

    def _sample(self, latency: float, now: float) -> None:
        if self._skip:
            self._skip -= 1
            return
        self._samples += 1
        self._latencies += latency
        if self._samples >= max(self.limit, LEAST_SAMPLES):
            mean = self._latencies / self._samples
            self._samples, self._latencies = 0, 0.0
            self._end_round(mean, now)

    def _end_round(self, latency: float, now: float) -> None:
        if self._on_trial:
            self._on_trial, self._next_hold = False, 1
        if self._hold:
            self._hold -= 1
        elif self.limit < self._start or (
            self.limit < HIGHEST and latency <= QUEUEING * self._lowest_latency
        ):
            self._change(min(2 * self.limit, HIGHEST), now)
            self._on_trial = True

    def _change(self, limit: int, now: float) -> None:
        self.limit, self._changed, self._on_trial = limit, now, False
        self._samples, self._latencies, self._skip = 0, 0.0, limit
