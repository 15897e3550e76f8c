"""Time as an argument: whoever needs the time is given a Clock, never reads it."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

STEP_CHECK_SECONDS = 2.0
STEP_SECONDS = 1.0
"""Smaller jumps are left alone: deadlines are rounded to seconds anyway."""


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

    async def wait_for_step(self) -> None:
        """Wait until ``now`` jumps: the clock was set, or the machine slept.

        ``sleep`` and ``monotonic`` do not notice that: code that waits for a time of day must look
        again.
        """
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

    async def wait_for_step(self) -> None:
        """Wait until the time of day jumps by a second or more; noticed within two seconds."""
        ahead = self.now() - self.monotonic()
        while True:
            await asyncio.sleep(STEP_CHECK_SECONDS)
            before, ahead = ahead, self.now() - self.monotonic()
            if abs(ahead - before) >= STEP_SECONDS:
                return
