"""The seam between the pods of a node and the devices they use.

The node agent calls every ``PodDevices``: claims prepared by DRA drivers, and device plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.api.pod import Pod
from holdfast.errors import HoldfastError

FAILED_PREPARE = "FailedPrepareDynamicResources"


class NotPrepared(HoldfastError):
    """The devices of a pod are not ready; the agent tries again unless ``permanent``.

    The message is that of the pod's event, whose reason is ``reason``.
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
    """What one container gets for its devices, before CDI names are resolved."""

    cdi_devices: tuple[str, ...] = ()
    """Qualified CDI names, each once, in the order of the container's claims."""
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    """Container paths of mounts that a device plugin asks for."""
    device_nodes: tuple[str, ...] = ()
    """Container paths of device nodes that a device plugin asks for."""


class PodDevices(Protocol):
    """Devices of the pods of one node. All calls may be repeated."""

    async def prepare(self, pod: Pod) -> None:
        """Prepare all devices of a pod, before its sandbox; raise NotPrepared."""

    def resume(self, pod: Pod) -> None:
        """Take up a pod that has its devices: an earlier agent has started its containers."""

    def container_devices(self, pod: Pod, container: str) -> ContainerDevices:
        """Return what a container of a prepared pod gets."""

    async def before_start(self, pod: Pod, container: str) -> None:
        """Do what is needed before each start of a container; raise NotPrepared."""

    async def unprepare(self, pod: Pod) -> None:
        """Release the devices of a pod whose containers have stopped; raise NotPrepared."""
