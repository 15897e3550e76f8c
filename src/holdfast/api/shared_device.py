"""Device (scheduling.koordinator.sh/v1alpha1): the devices of a node that pods can share."""

from __future__ import annotations

import msgspec

from holdfast.api.meta import Condition, Object, Struct
from holdfast.api.pod import ResourceAmounts


class DeviceTopology(Struct, frozen=True):
    """The place of a device in the node; ``node_id`` -1: unknown NUMA node."""

    socket_id: int = msgspec.field(default=-1, name="socketID")
    node_id: int = msgspec.field(default=-1, name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")
    bus_id: str = msgspec.field(default="", name="busID")


class VirtualFunction(Struct, frozen=True):
    """A virtual function of a device."""

    minor: int = 0
    bus_id: str = msgspec.field(default="", name="busID")


class VirtualFunctionGroup(Struct, frozen=True):
    """Virtual functions with the same labels."""

    labels: dict[str, str] = {}
    vfs: tuple[VirtualFunction, ...] = ()


class DeviceInfo(Struct, frozen=True):
    """A GPU, an RDMA card or an FPGA, identified by its type and minor."""

    type: str = ""
    id: str = ""
    minor: int = 0
    module_id: int | None = msgspec.field(default=None, name="moduleID")
    health: bool = False
    labels: dict[str, str] = {}
    resources: ResourceAmounts = {}
    topology: DeviceTopology | None = None
    vf_groups: tuple[VirtualFunctionGroup, ...] = ()
    conditions: tuple[Condition, ...] = ()


class DeviceSpec(Struct, frozen=True):
    """The devices of a node."""

    devices: tuple[DeviceInfo, ...] = ()


class SharedDevices(Object, frozen=True):
    """The object of kind Device: the devices of the node with the same name."""

    spec: DeviceSpec = DeviceSpec()
