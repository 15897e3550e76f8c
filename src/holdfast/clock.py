"""Time as an argument: whoever needs the time is given a Clock, never reads it."""

from __future__ import annotations

import asyncio
import time
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
