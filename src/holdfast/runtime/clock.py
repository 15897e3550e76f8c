"""Clocks: components take a Clock as an argument and never read the time themselves."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

STEP_CHECK_SECONDS = 2.0
STEP_SECONDS = 1.0
"""Smaller jumps are ignored: deadlines are rounded to seconds anyway."""


class Clock(Protocol):
    """The clock of components: ``SystemClock``, or ``testing.VirtualClock`` in tests."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        ...

    async def wait_for_step(self) -> None:
        """Wait until ``now`` jumps: the clock was set, or the machine was suspended.

        ``sleep`` and ``monotonic`` do not jump: code that waits for a time of day must compute its
        wait again.
        """
        ...


class SystemClock:
    """The clock of the operating system."""

    monotonic = staticmethod(time.monotonic)
    """Seconds that never go backwards. Not wrapped in a method: it is read for every event."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(seconds)

    async def wait_for_step(self) -> None:
        """Wait until the time of day jumps by a second or more; noticed within two seconds."""
        ahead = self.now() - self.monotonic()
        while True:
            await asyncio.sleep(STEP_CHECK_SECONDS)
            before, ahead = ahead, self.now() - self.monotonic()
            if abs(ahead - before) >= STEP_SECONDS:
                return
