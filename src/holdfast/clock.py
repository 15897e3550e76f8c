"""Time as an argument: whoever needs the time is given a Clock, never reads it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a component may ask about time. ``testing.VirtualClock`` is the other one."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellation wakes at once."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds)


def rfc3339(seconds: float) -> str:
    """Write a time as Kubernetes does, whole seconds.

    >>> rfc3339(0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Write a MicroTime (Leases, events): six digits.

    >>> rfc3339_micro(0.5)
    '1970-01-01T00:00:00.500000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> float:
    """Read any RFC 3339 time as seconds since the epoch.

    >>> parse_rfc3339('1970-01-01T01:00:00+01:00')
    0.0
    """
    return datetime.fromisoformat(text).timestamp()
