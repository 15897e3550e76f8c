"""A clock for tests: time passes only on request."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

IDLE_ROUNDS = 3
MOST_ROUNDS = 100_000


class VirtualClock:
    """A Clock that a test advances: ``await clock.advance(5)``.

    Sleeping tasks wake in the order of their deadlines; for equal deadlines, in the order of their
    ``sleep`` calls. The loop settles after each of them, so a test is deterministic. ``busy`` has
    functions that return whether work outside the loop, such as that of a writer thread, is
    unfinished.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._passed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._step = asyncio.Event()
        self.busy: list[Callable[[], bool]] = []

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Seconds since this clock was created."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), woken))
        await woken

    async def wait_for_step(self) -> None:
        """Wait until ``step`` is called."""
        await self._step.wait()

    async def step(self, seconds: float) -> None:
        """Change the time of day; no time passes, and no sleeping task wakes."""
        self._start += seconds
        step, self._step = self._step, asyncio.Event()
        step.set()
        await self.settle()

    async def advance(self, seconds: float) -> None:
        """Let time pass, and wake every task at its deadline."""
        end = self._passed + seconds
        await self.settle()
        while (deadline := self._next_deadline()) is not None and deadline <= end:
            self._passed = max(self._passed, deadline)
            heapq.heappop(self._sleepers)[2].set_result(None)
            await self.settle()
        self._passed = end
        await self.settle()

    def skip(self, seconds: float) -> None:
        """Let time pass without waking tasks, as if the machine had been off."""
        self._passed += seconds

    async def advance_until(self, reached: Callable[[], bool], limit: float = 3600.0) -> None:
        """Advance from deadline to deadline until ``reached()`` is true.

        Fails after ``limit`` seconds, or if no task sleeps and ``reached()`` is still false.
        """
        end = self._passed + limit
        await self.settle()
        while not reached():
            deadline = self._next_deadline()
            if deadline is None or deadline > end:
                raise AssertionError(f"not reached within {limit:g} s of virtual time: {reached}")
            await self.advance(deadline - self._passed)

    async def settle(self) -> None:
        """Run the loop until nothing more happens without time passing."""
        idle = 0
        for _ in range(MOST_ROUNDS):
            if any(busy() for busy in self.busy):
                idle = 0
                await asyncio.sleep(0.0002)
                continue
            await asyncio.sleep(0)
            idle = 0 if _ready() else idle + 1
            if idle >= IDLE_ROUNDS:
                return
        raise AssertionError("the event loop never becomes idle: something polls without sleeping")

    def _next_deadline(self) -> float | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None


def _ready() -> bool:
    """Return whether other callbacks are ready to run; asyncio's loop keeps them in a deque."""
    ready = getattr(asyncio.get_running_loop(), "_ready", ())
    return len(ready) > 0
