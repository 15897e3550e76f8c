"""How long to wait before trying again."""

from __future__ import annotations

import random
from dataclasses import dataclass


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
