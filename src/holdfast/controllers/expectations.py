"""Remember own writes until the informer has shown them.

A reconciler that plans from a cache which does not yet contain its last creations would create
them a second time. So it announces what it is about to do, and does not plan for that key again
until the news has come back (or five minutes have passed: the news was lost, plan anew).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.clock import Clock

TIMEOUT_SECONDS = 300.0


@dataclass(slots=True)
class _Pending:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations:
    """Count, for each key, the creations and deletions whose news is still to come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, _Pending] = {}

    def expect(self, key: str, *, creations: int = 0, deletions: tuple[str, ...] = ()) -> None:
        """Announce writes before making them; news may arrive before the answer does."""
        self._pending[key] = _Pending(self._clock.monotonic(), creations, set(deletions))

    def creation_observed(self, key: str) -> None:
        """Note that one creation was seen, or has failed and will never be."""
        if pending := self._pending.get(key):
            pending.creations -= 1

    def deletion_observed(self, key: str, uid: str) -> None:
        """Note that one deletion was seen, or has failed and will never be."""
        if pending := self._pending.get(key):
            pending.deletions.discard(uid)

    def satisfied(self, key: str) -> bool:
        """Tell whether the cache is known to contain every own write for the key."""
        pending = self._pending.get(key)
        if pending is None:
            return True
        late = self._clock.monotonic() - pending.since > TIMEOUT_SECONDS
        if late or (pending.creations <= 0 and not pending.deletions):
            del self._pending[key]
            return True
        return False

    def forget(self, key: str) -> None:
        """Drop everything about a key whose object is gone."""
        self._pending.pop(key, None)
