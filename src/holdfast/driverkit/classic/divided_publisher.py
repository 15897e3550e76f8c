"""Divide the devices of a node between the generations: each is in one inventory or slice only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from holdfast.api.classic_node_inventory import NodeInventory
from holdfast.api.decode import convert_object
from holdfast.driverkit.classic.inventory_objects import choice_of
from holdfast.driverkit.classic.inventory_publisher import InventoryPublisher
from holdfast.driverkit.inventory import CounterSet, Device, InvalidInventory, Item, Raw
from holdfast.driverkit.slice_publisher import SlicePublisher

IsStructured = Callable[[Device], bool]


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
        """Only structured devices consume of counter sets."""
        self._stored: NodeInventory | None = None
        """The inventory as it is stored, if it is the wanted one."""
        self._is_known = False
        """Whether the stored inventory was seen; before, slices of an earlier process stay."""
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
        """Compare what is stored with the devices now."""
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

    def _on_stored(self, raw: Raw) -> None:
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
