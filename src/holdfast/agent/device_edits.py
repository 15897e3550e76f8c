"""What a container gets for its devices: CDI names resolved, and what cannot be applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.agent.pod_devices import ContainerDevices
from holdfast.agent.runtime import NotStarted
from holdfast.cdi.registry import CdiRegistry, UnresolvableDevice
from holdfast.cdi.spec import ContainerEdits


@dataclass(frozen=True, slots=True)
class DeviceEdits:
    """The edits of one container for all its devices."""

    defaults: dict[str, str] = field(default_factory=dict)
    """Variables of device plugins; the container's own count more."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables of CDI; they count more than the container's own."""
    mounts: tuple[str, ...] = ()
    device_nodes: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != DeviceEdits()

    @property
    def unapplied(self) -> str:
        """What only a container can have, in words; "" if there is nothing."""
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
    """Resolve what the parts of a node give a container; raise NotStarted."""
    found = list(devices)
    names = tuple(dict.fromkeys(name for each in found for name in each.cdi_devices))
    try:
        edits = registry.resolve(names) if names else ContainerEdits()
    except UnresolvableDevice as error:
        raise NotStarted(f"CDI device injection failed: {error}") from error
    defaults: dict[str, str] = {}
    for each in reversed(found):
        defaults |= each.env
    other = [f"network interface {n.host_interface_name}" for n in edits.net_devices]
    other += [f"group {gid}" for gid in edits.additional_gids]
    other += ["Intel RDT"] if edits.intel_rdt else []
    return DeviceEdits(
        defaults, edits.environment,
        mounts=(*(p for d in found for p in d.mounts), *(m.container_path for m in edits.mounts)),
        device_nodes=(
            *(p for d in found for p in d.device_nodes), *(n.path for n in edits.device_nodes)
        ),
        hooks=tuple(f"{hook.hook_name} {hook.path}" for hook in edits.hooks), other=tuple(other),
    )  # fmt: skip
