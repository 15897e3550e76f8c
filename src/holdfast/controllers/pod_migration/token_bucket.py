"""A token bucket: a limit of how often something may happen."""

from __future__ import annotations


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
        if left < -1e-9:  # a token that is complete but for rounding
            return False
        self._tokens, self._at = left, now
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token."""
        missing = 1 - self.tokens(now)
        return missing / self.rate if missing > 1e-9 and self.rate else 0.0
