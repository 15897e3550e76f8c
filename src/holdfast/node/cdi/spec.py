"""The types of a CDI spec, up to version 1.1.0, and which version a spec needs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.api.meta import Struct

VERSIONS = (
    "0.1.0",
    "0.2.0",
    "0.3.0",
    "0.4.0",
    "0.5.0",
    "0.6.0",
    "0.7.0",
    "0.8.0",
    "1.0.0",
    "1.1.0",
)
"""The released versions, in order."""
_LOWEST_WRITTEN = "0.3.0"


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
    """Changes to a container: environment, device nodes, mounts, hooks and more."""

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
        """Return both edits; those of ``other`` come second."""
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
        """The environment by name; the later of two values counts.

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


def lowest_version(spec: CdiSpec) -> str:
    """Return the lowest version that has all fields of a spec; older runtimes accept it too."""
    return _highest(spec)[0]


def version_error(spec: CdiSpec) -> str:
    """Return why the version of a spec is wrong, or ""."""
    if spec.cdi_version not in VERSIONS:
        return f"must be one of {', '.join(VERSIONS)}"
    version, field = _highest(spec)
    if field and VERSIONS.index(version) > VERSIONS.index(spec.cdi_version):
        return f"must be at least {version}, because of {field}"
    return ""


def _highest(spec: CdiSpec) -> tuple[str, str]:
    return max(_required_versions(spec), key=lambda pair: VERSIONS.index(pair[0]))


def _required_versions(spec: CdiSpec) -> Iterator[tuple[str, str]]:
    """Yield the fields that a version added and the spec uses; first the lowest, without field."""
    yield _LOWEST_WRITTEN, ""
    if spec.annotations:
        yield "0.6.0", "annotations"
    if "." in spec.kind.partition("/")[2]:
        yield "0.6.0", "the dot in kind"
    yield from _of_edits(spec.container_edits, "containerEdits")
    for i, device in enumerate(spec.devices):
        at = f"devices[{i}]"
        if device.name[:1].isdigit():
            yield "0.5.0", f"the digit at the start of {at}.name"
        if device.annotations:
            yield "0.6.0", f"{at}.annotations"
        yield from _of_edits(device.container_edits, f"{at}.containerEdits")


def _of_edits(edits: ContainerEdits, at: str) -> Iterator[tuple[str, str]]:
    for i, mount in enumerate(edits.mounts):
        if mount.type:
            yield "0.4.0", f"{at}.mounts[{i}].type"
    for i, node in enumerate(edits.device_nodes):
        if node.host_path:
            yield "0.5.0", f"{at}.deviceNodes[{i}].hostPath"
    if edits.additional_gids:
        yield "0.7.0", f"{at}.additionalGids"
    if (rdt := edits.intel_rdt) is not None:
        yield "0.7.0", f"{at}.intelRdt"
        if rdt.schemata is not None:
            yield "1.1.0", f"{at}.intelRdt.schemata"
        if rdt.enable_monitoring:
            yield "1.1.0", f"{at}.intelRdt.enableMonitoring"
    if edits.net_devices:
        yield "1.1.0", f"{at}.netDevices"
