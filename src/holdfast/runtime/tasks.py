"""Wait for several coroutines at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def wait_for_first(*parts: Coroutine[Any, Any, object]) -> None:
    """Wait until the first of several coroutines ends, and cancel the others; raises its error."""
    tasks = {asyncio.create_task(part) for part in parts}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
