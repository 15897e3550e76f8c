"""Background tasks of the scheduler, kept so that a stop can wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.runtime.clock import Clock

Task = asyncio.Task[None]


class BackgroundTasks:
    """A set of running asyncio tasks."""

    def __init__(self) -> None:
        self._tasks: set[Task] = set()
        self._ended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> Task:
        """Start a coroutine as a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self.on_done)
        return task

    async def wait_for_one(self) -> None:
        """Wait until one of the tasks ends."""
        # asyncio.wait looks at every task each time one of them ends.
        self._ended.clear()
        await self._ended.wait()

    async def finish(self, clock: Clock, seconds: float) -> None:
        """Wait at most ``seconds`` for all tasks, then cancel those that still run."""
        tasks = set(self._tasks)
        if not tasks:
            return
        deadline = asyncio.create_task(clock.sleep(seconds))
        left = set(tasks)
        while left and not deadline.done():
            _, left = await asyncio.wait({deadline, *left}, return_when=asyncio.FIRST_COMPLETED)
            left.discard(deadline)
        for task in (deadline, *tasks):
            task.cancel()
        await asyncio.gather(deadline, *tasks, return_exceptions=True)

    def on_done(self, task: Task) -> None:
        """Forget a task that has ended."""
        self._tasks.discard(task)
        self._ended.set()
