"""The types of a CDI spec, up to version 1.1.0."""

from __future__ import annotations

import msgspec

from holdfast.api.meta import Struct


class DeviceNode(Struct, frozen=True):
    """A device node that the container gets."""

    path: str = ""
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class NetDevice(Struct, frozen=True):
    """A network interface of the host that is moved into the container."""

    host_interface_name: str = ""
    name: str = ""


class Mount(Struct, frozen=True):
    """A directory or file of the host that is mounted in the container."""

    host_path: str = ""
    container_path: str = ""
    type: str = ""
    options: tuple[str, ...] = ()


class Hook(Struct, frozen=True):
    """A program that the runtime calls at a step of the container's life."""

    hook_name: str = ""
    path: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class IntelRdt(Struct, frozen=True):
    """The class of Intel Resource Director Technology that the container joins."""

    clos_id: str = msgspec.field(default="", name="closID")
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False
    enable_cmt: bool = msgspec.field(default=False, name="enableCMT")
    enable_mbm: bool = msgspec.field(default=False, name="enableMBM")


class ContainerEdits(Struct, frozen=True):
    """What changes in a container: environment, device nodes, mounts, hooks and more."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self != ContainerEdits()

    def __add__(self, other: ContainerEdits) -> ContainerEdits:
        """Return both edits, those of ``other`` after these."""
        return ContainerEdits(
            env=self.env + other.env,
            device_nodes=self.device_nodes + other.device_nodes,
            net_devices=self.net_devices + other.net_devices,
            mounts=self.mounts + other.mounts,
            hooks=self.hooks + other.hooks,
            intel_rdt=other.intel_rdt or self.intel_rdt,
            additional_gids=self.additional_gids + other.additional_gids,
        )

    @property
    def environment(self) -> dict[str, str]:
        """The environment by name; of two values the later one counts.

        >>> ContainerEdits(env=("A=1", "B=x=y", "A=2")).environment
        {'A': '2', 'B': 'x=y'}
        """
        return {name: value for name, _, value in (pair.partition("=") for pair in self.env)}


class CdiDevice(Struct, frozen=True):
    """A device of a spec and the edits for containers that use it."""

    name: str = ""
    annotations: dict[str, str] = {}  # noqa: RUF012  msgspec copies mutable defaults
    container_edits: ContainerEdits = ContainerEdits()


class CdiSpec(Struct, frozen=True):
    """One CDI file: devices of a kind, and edits for containers that use any of them."""

    cdi_version: str = ""
    kind: str = ""
    annotations: dict[str, str] = {}  # noqa: RUF012
    devices: tuple[CdiDevice, ...] = ()
    container_edits: ContainerEdits = ContainerEdits()

    def qualified(self, device: CdiDevice) -> str:
        """Return the name by which containers request a device: ``vendor/class=name``."""
        return f"{self.kind}={device.name}"
