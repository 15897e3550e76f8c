"""Keep the NodeInventory of a node, or of the network, equal to the driver's inventory.

A driver of both generations divides the devices of a node: each is in its NodeInventory or in its
ResourceSlices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES, NodeInventory
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.resource import Resource, Untyped
from holdfast.api.scheme import NODES
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client
from holdfast.node.driverkit.classic_dra.inventory_conversion import choice_of, raw_spec
from holdfast.node.driverkit.inventory import CounterSet, Device, InvalidInventory, Item
from holdfast.node.driverkit.slice_publisher import SlicePublisher
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import AlreadyExists, HoldfastError, NotFound, Refused
from holdfast.runtime.repeated_log import Repeats
from holdfast.runtime.tasks import wait_for_first

RESYNC_SECONDS = 60.0
"""How often the stored inventory is compared with the wanted one."""
_BACKOFF = Backoff(first=0.2, limit=30.0)
_RAW: Untyped = Resource(
    NODE_INVENTORIES.group,
    NODE_INVENTORIES.version,
    NODE_INVENTORIES.plural,
    NODE_INVENTORIES.kind,
    dict,
)
IsStructured = Callable[[Device], bool]

log = logging.getLogger(__name__)


class NothingToPublish:
    """For a driver whose devices are not those of a node."""

    def __init__(self) -> None:
        self.problem = ""
        self.published = asyncio.Event()

    def publish(self, pools: Mapping[str, Sequence[Item]]) -> bool:
        """Publish nothing."""
        return False

    def resync(self) -> None:
        """Compare nothing."""

    async def run(self) -> None:
        """Wait until cancelled."""
        self.published.set()
        await asyncio.Event().wait()


class InventoryPublisher:
    """Publishes the devices of one node (or of the network) as a NodeInventory."""

    def __init__(
        self, client: Client, clock: Clock, driver: str, namespace: str, node: str
    ) -> None:
        self._client = client
        self._clock = clock
        self._driver = driver
        self._namespace = namespace
        self._node = node
        self._wanted: dict[str, Any] | None = None
        self._again = asyncio.Event()
        self._repeats = Repeats(now=clock.monotonic)
        self.on_stored: Callable[[dict[str, Any]], None] = lambda _stored: None
        """Called with the stored inventory when it is the wanted one."""
        self.problem = "the NodeInventory is not published yet"
        self.published = asyncio.Event()
        """Set while the stored inventory, as last seen, is the wanted one."""

    def publish(self, pools: Mapping[str, Sequence[Item]]) -> bool:
        """Publish devices from now on and return whether they changed; raises InvalidInventory."""
        if set(pools) - {self._node}:
            raise InvalidInventory("a driver with @driver.fits has no pools: return one list")
        return self.publish_devices(pools.get(self._node, ()))

    def publish_devices(self, items: Iterable[Item]) -> bool:
        """Do the same with a plain list."""
        wanted = raw_spec(self._driver, self._node, items, ready=True)
        if wanted == self._wanted:
            return False
        self._wanted = wanted
        self.published.clear()
        self._again.set()
        return True

    def resync(self) -> None:
        """Compare the stored inventory with the wanted one now."""
        self._again.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        failures = 0
        while True:
            self._again.clear()
            delay = RESYNC_SECONDS
            if self._wanted is not None:
                try:
                    await self._sync(self._wanted)
                    failures, self.problem = 0, ""
                    self.published.set()
                except HoldfastError as error:
                    failures += 1
                    delay = _BACKOFF.delay(failures)
                    self.problem = f"the NodeInventory cannot be published: {error}"
                    self._repeats.log(log, logging.WARNING, self.problem)
            await self._wait(delay)

    async def _wait(self, seconds: float) -> None:
        await wait_for_first(self._again.wait(), self._clock.sleep(seconds))

    async def _sync(self, wanted: dict[str, Any]) -> None:
        name = self._node or self._driver
        try:
            stored = await self._client.get(_RAW, name, self._namespace)
        except NotFound:
            await self._create(name, wanted)
            return
        spec = stored["spec"]
        if spec.get("driverName") != self._driver:
            raise Refused(
                f"NodeInventory {self._namespace}/{name} belongs to driver "
                f"{spec.get('driverName')}: give each driver its own namespace"
            )
        kept = {key: value for key, value in wanted.items() if value or key != "nodeName"}
        if {key: spec.get(key) for key in kept} != kept:
            meta = stored["metadata"]
            stored = await self._client.patch(
                _RAW,
                name,
                {"metadata": {"uid": meta["uid"]}, "spec": wanted},
                self._namespace,
            )
        self.on_stored(stored)

    async def _create(self, name: str, wanted: dict[str, Any]) -> None:
        meta: dict[str, Any] = {"name": name, "namespace": self._namespace}
        if self._node:
            node = await self._client.get(NODES, self._node)
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node.uid}
            meta["ownerReferences"] = [owner]
        raw = {
            "apiVersion": NODE_INVENTORIES.api_version,
            "kind": NODE_INVENTORIES.kind,
            "metadata": meta,
            "spec": wanted,
        }
        try:
            self.on_stored(await self._client.create(_RAW, raw, self._namespace))
        except AlreadyExists:
            self._again.set()


class DividedPublisher:
    """Publishes some devices of a node in ResourceSlices and the others in its NodeInventory.

    A device leaves the inventory first. It comes into a slice when the stored inventory neither
    lists nor books it; a booking that comes later finds a changed inventory and is refused.
    """

    def __init__(
        self,
        inventory: InventoryPublisher,
        slices: SlicePublisher,
        node: str,
        is_structured: IsStructured,
    ) -> None:
        self._inventory = inventory
        self._slices = slices
        self._node = node
        self._is_structured = is_structured
        self._structured: list[Device] = []
        self._sets: list[CounterSet] = []
        """Only structured devices consume counter sets."""
        self._stored: NodeInventory | None = None
        """The inventory as it is stored, if it is the wanted one."""
        self._is_known = False
        """Whether the stored inventory was seen; until then, slices of an earlier process stay."""
        self._free: set[str] = set()
        """Names of the devices in slices."""
        self.published = asyncio.Event()
        inventory.on_stored = self._on_stored

    @property
    def problem(self) -> str:
        """Why devices are not published, or ""."""
        return self._inventory.problem or self._slices.problem

    def publish(self, pools: Mapping[str, Sequence[Item]]) -> bool:
        """Publish devices from now on and return whether they changed; raises InvalidInventory."""
        classic: list[Item] = []
        structured: list[Device] = []
        sets: list[CounterSet] = []
        for item in pools.get(self._node, ()):
            if isinstance(item, CounterSet):
                sets.append(item)
            elif self._is_structured(item):
                structured.append(item)
            else:
                classic.append(item)
        if both := {one.name for one in structured} & {one.name for one in classic}:
            raise InvalidInventory(f'two devices have the name "{min(both)}"')
        self._slices.check({self._node: [*sets, *structured]})
        changed = self._inventory.publish({**pools, self._node: classic})
        self._structured, self._sets = structured, sets
        if changed:
            self._stored = None
        if self._publish_slices() < len(structured):
            self._inventory.resync()  # a booking may have ended
        return changed

    def resync(self) -> None:
        """Compare the stored devices with the current ones."""
        self._inventory.resync()
        self._slices.resync()

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._inventory.run())
            group.create_task(self._slices.run())
            await self._inventory.published.wait()
            await self._slices.published.wait()
            self.published.set()

    def _on_stored(self, raw: JsonObject) -> None:
        self._stored = convert_object(raw, NodeInventory)
        self._is_known = True
        self._publish_slices()

    def _publish_slices(self) -> int:
        """Publish the structured devices that the inventory does not have; return their number."""
        names = {device.name for device in self._structured}
        if self._stored is None:
            self._free &= names
        else:
            self._free = names - _names_in(self._stored)
        free = [device for device in self._structured if device.name in self._free]
        if self._is_known:
            self._slices.publish({self._node: [*self._sets, *free] if free else []})
        return len(free)


def _names_in(inventory: NodeInventory) -> set[str]:
    """Return the names of all devices that an inventory lists or claims have."""
    choices = [choice_of(claim) for claim in inventory.status.allocated.values()]
    return {
        *(device.name for device in inventory.spec.devices),
        *(name for choice in choices for name in choice.whole),
        *(share.device for choice in choices for share in choice.shares),
    }
