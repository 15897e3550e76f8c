"""Delete the ResourceSlices of drivers that are gone, so that no pod is sent to their devices."""

from __future__ import annotations

import asyncio
import logging
import random

from holdfast.api.scheme import RESOURCE_SLICES
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client
from holdfast.clock import Clock
from holdfast.errors import HoldfastError, NotFound

log = logging.getLogger(__name__)

GONE_SECONDS = 30.0
"""How long a driver may be away, for a restart, before its slices are deleted."""
_RETRY = Backoff(1.0, 300.0, jitter=0.2)


class DriverSlices:
    """Deletes slices of one node: all when the agent starts, later those of drivers gone 30 s."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._rng = random.Random(node)
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def delete_all(self) -> None:
        """Delete the slices of all drivers: none has registered yet, and some may never do."""
        await self._delete("")

    def usable_changed(self, driver: str, usable: bool) -> None:
        """Start or stop the countdown of a driver."""
        if usable:
            if task := self._pending.pop(driver, None):
                task.cancel()
        elif driver not in self._pending:
            task = asyncio.create_task(self._after_delay(driver), name=f"slices of {driver}")
            self._pending[driver] = task

    async def close(self) -> None:
        """Forget all countdowns."""
        tasks = list(self._pending.values())
        self._pending.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _after_delay(self, driver: str) -> None:
        await self._clock.sleep(GONE_SECONDS)
        await self._delete(driver)
        del self._pending[driver]

    async def _delete(self, driver: str) -> None:
        """Delete until it succeeded, as often as it takes."""
        selector = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        failures = 0
        while True:
            try:
                await self._client.delete_collection(RESOURCE_SLICES, field_selector=selector)
            except NotFound:
                return  # the server has no ResourceSlices at all
            except HoldfastError as error:
                failures += 1
                log.warning("cannot delete ResourceSlices (%s): %s", selector, error)
                await self._clock.sleep(_RETRY.delay(failures, self._rng))
            else:
                log.info("deleted ResourceSlices (%s)", selector)
                return
