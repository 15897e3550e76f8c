"""Expectations: the creations and deletions of a controller that its informer has not yet observed.

A controller that plans with a cache without its last creations would create them again. Therefore
it sets expectations before its writes and does not plan for that key until they are observed, or
until five minutes have passed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.runtime.clock import Clock

TIMEOUT_SECONDS = 300.0


@dataclass(slots=True)
class _Pending:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations:
    """Count, for each key, the creations and deletions that were not yet observed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, _Pending] = {}

    def expect(self, key: str, *, creations: int = 0, deletions: tuple[str, ...] = ()) -> None:
        """Expect writes; call this before them, as they may be observed before the response."""
        self._pending[key] = _Pending(self._clock.monotonic(), creations, set(deletions))

    def creation_observed(self, key: str) -> None:
        """Record that a creation was observed or has failed."""
        if pending := self._pending.get(key):
            pending.creations -= 1

    def deletion_observed(self, key: str, uid: str) -> None:
        """Record that a deletion was observed or has failed."""
        if pending := self._pending.get(key):
            pending.deletions.discard(uid)

    def satisfied(self, key: str) -> bool:
        """Return whether all expected writes of a key were observed or have timed out."""
        pending = self._pending.get(key)
        if pending is None:
            return True
        timed_out = self._clock.monotonic() - pending.since > TIMEOUT_SECONDS
        if timed_out or (pending.creations <= 0 and not pending.deletions):
            del self._pending[key]
            return True
        return False

    def forget(self, key: str) -> None:
        """Remove the expectations of a deleted object."""
        self._pending.pop(key, None)
