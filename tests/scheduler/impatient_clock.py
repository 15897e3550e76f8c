"""Preparations of a scheduling cycle that need a pause at every step."""

import asyncio

from holdfast.scheduler.preparation import prepare_cycle


class ImpatientClock:
    """A clock that has moved by a millisecond whenever it is read."""

    def __init__(self):
        self.reads = 0

    def now(self):
        return 1.8e9

    def monotonic(self):
        self.reads += 1
        return self.reads / 1000


async def prepare_and_count(profile, world, pod_info):
    """Prepare the cycle of a pod; return how often another task ran meanwhile."""
    runs = 0

    async def other():
        nonlocal runs
        while True:
            runs += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await prepare_cycle(profile, pod_info, world, ImpatientClock())
    task.cancel()
    return runs
