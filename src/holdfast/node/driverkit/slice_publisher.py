"""Keep the ResourceSlices of a driver in the API server equal to its inventory.

A sync always compares all slices with the whole inventory, and reads the slices from the server.
The informer only tells that something changed: a plan from a stale cache would create a slice
twice, and devices of the same name in one pool make the pool invalid.

A server may drop fields, for example those of a feature gate that is off. In a literal comparison
such a slice would differ for ever and be written again at each sync. So the server's version of a
content is accepted for that content (``_accepted``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from holdfast.api.decode import JsonObject
from holdfast.api.resource import Resource, Untyped
from holdfast.api.scheme import NODES, RESOURCE_SLICES
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client
from holdfast.client.informer import Informer
from holdfast.node.driverkit.inventory import Item
from holdfast.node.driverkit.slices import (
    SliceOwner,
    SlicePlan,
    check_pools,
    content_of,
    contents_of,
    dropped_fields,
    plan_pool,
)
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Conflict, HoldfastError, NotFound
from holdfast.runtime.repeated_log import Repeats
from holdfast.runtime.tasks import wait_for_first

RESYNC_SECONDS = 30.0
"""The time after a change of the slices until they are compared with the inventory again."""
_BACKOFF = Backoff(first=0.5, limit=30.0)
_SLICES: Untyped = Resource(
    RESOURCE_SLICES.group,
    RESOURCE_SLICES.version,
    RESOURCE_SLICES.plural,
    RESOURCE_SLICES.kind,
    dict,
    namespaced=False,
)

log = logging.getLogger(__name__)


class Publisher(Protocol):
    """Publishes the devices of a node."""

    published: asyncio.Event

    @property
    def problem(self) -> str:
        """Why they are not published, or ""."""
        ...

    def publish(self, pools: Mapping[str, Sequence[Item]]) -> bool:
        """Publish devices from now on and return whether they changed."""
        ...

    def resync(self) -> None:
        """Compare what is stored with the devices now."""
        ...

    async def run(self) -> None:
        """Publish until cancelled."""
        ...


class SlicePublisher:
    """Publishes the pools of one driver on one node; ``problem`` says why it cannot, or ""."""

    def __init__(self, client: Client, clock: Clock, driver: str, node: str) -> None:
        self._client = client
        self._clock = clock
        self._driver = driver
        self._node = node
        self._wanted: dict[str, list[JsonObject]] | None = None
        self._accepted: dict[str, tuple[JsonObject, JsonObject]] = {}
        self._selector = f"spec.driver={driver},spec.nodeName={node}"
        self._informer = Informer(
            client,
            _SLICES,
            clock=clock,
            fields=self._selector,
            on_event=lambda *_change: self._schedule(RESYNC_SECONDS),
        )
        self._due: float | None = None
        self._rescheduled = asyncio.Event()
        self._repeats = Repeats(now=clock.monotonic)
        self.problem = "the ResourceSlices are not published yet"
        self.dropped: tuple[str, ...] = ()
        """Fields that the server did not store, such as those of a disabled feature gate."""
        self.published = asyncio.Event()
        """Set while the stored slices, as last seen, are those of the inventory."""

    def publish(self, pools: Mapping[str, Sequence[Item]]) -> bool:
        """Publish pools from now on and return whether they changed; raises InvalidInventory."""
        wanted = self.check(pools)
        if wanted == self._wanted:
            return False
        self._wanted = wanted
        self.published.clear()
        self._schedule(0.0)
        self._rescheduled.set()  # even if a resync without an inventory is due
        return True

    def check(self, pools: Mapping[str, Sequence[Item]]) -> dict[str, list[JsonObject]]:
        """Return the contents of slices; raises InvalidInventory."""
        wanted = {name: contents_of(items) for name, items in pools.items()}
        check_pools(SliceOwner(self._driver, self._node, ""), wanted)
        return wanted

    def resync(self) -> None:
        """Compare the slices with the inventory now."""
        self._schedule(0.0)

    async def run(self) -> None:
        """Publish until cancelled."""
        self._informer.start()
        failures = 0
        try:
            while True:
                await self._wait()
                try:
                    await self._sync()
                except HoldfastError as error:
                    failures += 1
                    self.problem = f"ResourceSlices cannot be published: {error}"
                    self._repeats.log(log, logging.WARNING, self.problem)
                    self._schedule(_BACKOFF.delay(failures))
                else:
                    failures, self.problem = 0, ""
                    self.published.set()
        finally:
            await self._informer.stop()

    def _schedule(self, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if self._due is None or due < self._due:
            self._due = due
            self._rescheduled.set()

    async def _wait(self) -> None:
        """Wait until a sync is due."""
        while self._due is None or self._wanted is None or self._due > self._clock.monotonic():
            self._rescheduled.clear()
            ends: list[Coroutine[Any, Any, object]] = [self._rescheduled.wait()]
            if self._due is not None and self._wanted is not None:
                ends.append(self._clock.sleep(self._due - self._clock.monotonic()))
            await wait_for_first(*ends)
        self._due = None

    async def _sync(self) -> None:
        wanted = self._wanted or {}
        owner = SliceOwner(self._driver, self._node, await self._node_uid())
        listing = await self._client.list(_SLICES, fields=self._selector)
        stored: dict[str, list[JsonObject]] = {name: [] for name in wanted}
        for raw in listing.items:
            stored.setdefault(raw["spec"].get("pool", {}).get("name", ""), []).append(raw)
        for pool, slices in stored.items():
            contents = wanted.get(pool, ())
            await self._write(plan_pool(owner, pool, contents, slices, self._accepted))

    async def _node_uid(self) -> str:
        try:
            return (await self._client.get(NODES, self._node)).uid
        except NotFound as error:
            raise HoldfastError(f"there is no Node {self._node}: check --node-name") from error

    async def _write(self, plan: SlicePlan) -> None:
        for raw in plan.delete:
            meta = raw["metadata"]
            self._accepted.pop(meta["name"], None)
            with suppress(NotFound, Conflict):
                await self._client.delete(_SLICES, meta["name"], uid=meta["uid"])
        for raw in plan.update:
            self._compare(raw, await self._client.update(_SLICES, raw))
        for raw in plan.create:
            self._compare(raw, await self._client.create(_SLICES, raw))

    def _compare(self, sent: JsonObject, stored: JsonObject) -> None:
        """Report fields that the server dropped, and accept that they are missing."""
        wanted, stored_content = content_of(sent), content_of(stored)
        dropped = tuple(dropped_fields(wanted, stored_content))
        if dropped:
            self._accepted[stored["metadata"]["name"]] = (wanted, stored_content)
            self.dropped = tuple(dict.fromkeys((*self.dropped, *dropped)))
            fields = ", ".join(dropped[:5]) + (", …" if len(dropped) > 5 else "")
            self._repeats.log(
                log, logging.WARNING, f"the API server did not store these fields: {fields}"
            )
