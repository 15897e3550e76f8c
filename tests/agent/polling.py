"""Wait for what other threads and processes do."""

import asyncio


async def until(reached, seconds=30):
    """Wait for a condition, however slow the machine is."""
    async with asyncio.timeout(seconds):
        while not reached():
            await asyncio.sleep(0.005)
