"""Container edits for the devices of a node's pods: prepared by parts of the node, then resolved.

The node agent calls every ``DeviceProvider``: claims prepared by DRA drivers, and device plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.api.pod import Pod
from holdfast.node.agent.runtime import NotStarted
from holdfast.node.cdi.registry import CdiRegistry, UnresolvableDevice
from holdfast.node.cdi.spec import ContainerEdits
from holdfast.runtime.errors import HoldfastError

FAILED_PREPARE = "FailedPrepareDynamicResources"


class NotPrepared(HoldfastError):
    """The devices of a pod are not ready; the agent tries again unless ``permanent``.

    The message becomes the pod's event, with the reason ``reason``.
    """

    def __init__(
        self,
        message: str,
        reason: str = FAILED_PREPARE,
        *,
        permanent: bool = False,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.permanent = permanent


def failed_prepare(why: object) -> str:
    """Return the message for claims that cannot be prepared."""
    return f"Failed to prepare dynamic resources: {why}"


def failed_unprepare(why: object) -> NotPrepared:
    """Return the failure of claims that cannot be unprepared now."""
    return NotPrepared(
        f"Failed to unprepare dynamic resources: {why}", "FailedUnprepareDynamicResources"
    )


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The devices and edits of one container, before CDI names are resolved."""

    cdi_devices: tuple[str, ...] = ()
    """Qualified CDI names, each once, in the order of the container's claims."""
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    """Container paths of mounts that a device plugin asks for."""
    device_nodes: tuple[str, ...] = ()
    """Container paths of device nodes that a device plugin asks for."""


class DeviceProvider(Protocol):
    """Devices of the pods of one node. All calls may be repeated."""

    async def prepare(self, pod: Pod) -> None:
        """Prepare all devices of a pod, before its sandbox; raise NotPrepared."""

    def resume(self, pod: Pod) -> None:
        """Take over a pod that has its devices: an earlier agent has started its containers."""

    def container_devices(self, pod: Pod, container: str) -> ContainerDevices:
        """Return the devices and edits of a container of a prepared pod."""

    async def before_start(self, pod: Pod, container: str) -> None:
        """Do what is needed before each start of a container; raise NotPrepared."""

    async def unprepare(self, pod: Pod) -> None:
        """Release the devices of a pod whose containers have stopped; raise NotPrepared."""


@dataclass(frozen=True, slots=True)
class DeviceEdits:
    """The edits of one container for all its devices."""

    defaults: dict[str, str] = field(default_factory=dict)
    """Variables of device plugins; the container's own take precedence."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables of CDI; they take precedence over the container's own."""
    mounts: tuple[str, ...] = ()
    device_nodes: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != DeviceEdits()

    @property
    def unapplied(self) -> str:
        """The edits that only a real container can get, in words; "" if there are none."""
        parts = (
            ("mounts", self.mounts), ("device nodes", self.device_nodes), ("hooks", self.hooks),
            ("other edits", self.other),
        )  # fmt: skip
        return "; ".join(f"{name} {', '.join(values)}" for name, values in parts if values)

    def shown(self) -> dict[str, Any]:
        """Return all edits for an annotation."""
        shown = {
            "env": self.defaults | self.env, "mounts": self.mounts,
            "deviceNodes": self.device_nodes, "hooks": self.hooks, "other": self.other,
        }  # fmt: skip
        return {name: value for name, value in shown.items() if value}


def resolve_devices(devices: Iterable[ContainerDevices], registry: CdiRegistry) -> DeviceEdits:
    """Resolve the devices and edits of a container; raise NotStarted."""
    parts = list(devices)
    names = tuple(dict.fromkeys(name for each in parts for name in each.cdi_devices))
    try:
        edits = registry.resolve(names) if names else ContainerEdits()
    except UnresolvableDevice as error:
        raise NotStarted(f"CDI device injection failed: {error}") from error
    defaults: dict[str, str] = {}
    for each in reversed(parts):
        defaults |= each.env
    other = [f"network interface {n.host_interface_name}" for n in edits.net_devices]
    other += [f"group {gid}" for gid in edits.additional_gids]
    other += ["Intel RDT"] if edits.intel_rdt else []
    return DeviceEdits(
        defaults, edits.environment,
        mounts=(*(p for d in parts for p in d.mounts), *(m.container_path for m in edits.mounts)),
        device_nodes=(
            *(p for d in parts for p in d.device_nodes), *(n.path for n in edits.device_nodes)
        ),
        hooks=tuple(f"{hook.hook_name} {hook.path}" for hook in edits.hooks), other=tuple(other),
    )  # fmt: skip
