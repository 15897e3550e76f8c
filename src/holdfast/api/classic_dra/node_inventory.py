"""NodeInventory: a classic driver's devices on a node, and the claims that have them.

The node part of the driver writes ``spec``, its controller writes ``status``.
"""

from __future__ import annotations

from typing import Any

from holdfast.api.classic_dra.names import OWN_GROUP, VERSION
from holdfast.api.devices import Device
from holdfast.api.meta import Object, Struct
from holdfast.api.quantity import AmountText
from holdfast.api.resource import Resource


class NodeAnswer(Struct, frozen=True):
    """The answer of the driver's node part about an allocation that it makes itself."""

    begun: bool = False
    """Whether the author's function was called, or is about to be; stored before the call."""
    refused: str = ""
    """Why the node cannot be used; then nothing is allocated."""
    result: str = ""
    """The result of the author's function, as JSON; empty if it has not returned."""

    @property
    def is_final(self) -> bool:
        """Whether it is allocated or refused."""
        return bool(self.refused or self.result)


class NodeInventorySpec(Struct, frozen=True):
    """The devices, as the driver's node part reports them."""

    driver_name: str = ""
    node_name: str = ""
    """The node; empty for devices that every node can use."""
    ready: bool = False
    devices: tuple[Device, ...] = ()
    answers: dict[str, NodeAnswer] = {}
    """By uid of the claim; only drivers that allocate on nodes write them."""


class BookedShare(Struct, frozen=True):
    """A part of a device."""

    device: str = ""
    capacity: dict[str, AmountText] = {}


class BookedClaim(Struct, frozen=True):
    """The devices and parts of devices that one claim has."""

    namespace: str = ""
    name: str = ""
    devices: tuple[str, ...] = ()
    """Devices that no other claim may have a part of."""
    shares: tuple[BookedShare, ...] = ()
    shared: bool = False
    """Whether several pods may use the claim at a time."""
    granted: int | None = None
    data: Any = None
    """Other data that the driver chose."""
    parameters: Any = None
    class_parameters: Any = None
    """Parameters of the claim and of its class, if the driver has a function that allocates."""
    begun: bool = False
    """Whether the controller has called ``allocate``, or is about to; stored before the call."""
    result: str = ""
    """The result of the function that allocates, as JSON; empty if it has not returned."""

    @property
    def has_nothing(self) -> bool:
        """Whether an optional claim got nothing: there is nothing to allocate or release."""
        return self.granted == 0 and not self.devices and not self.shares


class NodeInventoryStatus(Struct, frozen=True):
    """The claims that have devices, by uid."""

    allocated: dict[str, BookedClaim] = {}


class NodeInventory(Object, frozen=True):
    """One driver's devices on the node that it is named after, or on the network."""

    spec: NodeInventorySpec = NodeInventorySpec()
    status: NodeInventoryStatus = NodeInventoryStatus()

    @property
    def is_deleted(self) -> bool:
        """Whether it is being deleted, as happens when its node is deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_usable(self) -> bool:
        """Whether new claims may get its devices."""
        return self.spec.ready and not self.is_deleted


NODE_INVENTORIES: Resource[NodeInventory] = Resource(
    OWN_GROUP,
    VERSION,
    "nodeinventories",
    "NodeInventory",
    NodeInventory,
    categories=("classic-dra",),
    subresources=("status",),
)
