"""A claim as the handlers of a driver get it, the edits that they return, and its CDI spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.devices import DeviceResult, ResourceClaim
from holdfast.api.quantity import AmountText
from holdfast.node.cdi.spec import (
    CdiDevice,
    CdiSpec,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
    NetDevice,
)
from holdfast.runtime.errors import HoldfastError


class Cdi:
    """Edits of a container; every method returns the edits with one added.

    >>> Cdi().env(GPU="0").device("/dev/gpu0").edits.env
    ('GPU=0',)
    """

    def __init__(self, edits: ContainerEdits | None = None) -> None:
        self.edits = edits or ContainerEdits()

    def env(self, **variables: str | int) -> Cdi:
        """Set environment variables."""
        return self._and(
            ContainerEdits(env=tuple(f"{name}={value}" for name, value in variables.items()))
        )

    def device(self, path: str, *, host_path: str = "", permissions: str = "") -> Cdi:
        """Add a device node, with another path on the host if ``host_path`` is given."""
        node = DeviceNode(path=path, host_path=host_path, permissions=permissions)
        return self._and(ContainerEdits(device_nodes=(node,)))

    def mount(
        self, host_path: str, container_path: str = "", *, options: Sequence[str] = ("ro", "bind")
    ) -> Cdi:
        """Mount a path of the host, read-only unless ``options`` say otherwise."""
        mount = Mount(
            host_path=host_path,
            container_path=container_path or host_path,
            options=tuple(options),
        )
        return self._and(ContainerEdits(mounts=(mount,)))

    def hook(self, name: str, path: str, *args: str) -> Cdi:
        """Call a program at a step such as ``createContainer``; ``args`` start with its name."""
        return self._and(ContainerEdits(hooks=(Hook(hook_name=name, path=path, args=args),)))

    def net_device(self, host_interface: str, name: str) -> Cdi:
        """Move a network interface of the host into the container, under a new name."""
        return self._and(
            ContainerEdits(net_devices=(NetDevice(host_interface_name=host_interface, name=name),))
        )

    def group(self, *gids: int) -> Cdi:
        """Add supplementary groups."""
        return self._and(ContainerEdits(additional_gids=gids))

    def __add__(self, other: Cdi) -> Cdi:
        return Cdi(self.edits + other.edits)

    def _and(self, more: ContainerEdits) -> Cdi:
        return Cdi(self.edits + more)


Prepared = Cdi | Sequence[Cdi] | Mapping[str, Cdi] | None
"""Edits for containers that use the claim, or one for each device, or by name of the request."""


class DriverError(HoldfastError):
    """A handler cannot do its work; the message is shown in the pod's event."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that a claim holds."""

    name: str
    pool: str
    request: str
    """The request of the claim that it serves, without the name of a subrequest."""
    config: tuple[Mapping[str, Any], ...] = ()
    """Parameters for this driver; those of the class come first, later ones take precedence."""
    consumed_capacity: Mapping[str, AmountText] = field(default_factory=dict)
    """The part of a shareable device that the claim holds."""
    share_id: str = ""
    """The id of the claim's share of a shareable device."""
    admin_access: bool = False
    """The claim only observes the device; another claim may hold it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with the devices that it holds of this driver."""

    namespace: str
    name: str
    uid: str
    devices: tuple[AllocatedDevice, ...]
    handle: Any = None
    """The data of the driver's controller for the node: a ``Handle``, or the author's text.

    Classic DRA only.
    """


def claim_of(claim: ResourceClaim, driver: str) -> Claim:
    """Return what a driver needs from a claim; raises DriverError if it is not allocated."""
    allocation = claim.status.allocation
    if allocation is None:
        raise DriverError(f"ResourceClaim {claim.key} is not allocated")
    devices = tuple(
        AllocatedDevice(
            name=result.device,
            pool=result.pool,
            request=_base(result.request),
            config=_config_of(result, allocation.devices.config),
            consumed_capacity=result.consumed_capacity,
            share_id=result.share_id or "",
            admin_access=bool(result.admin_access),
        )
        for result in allocation.devices.results
        if result.driver == driver
    )
    return Claim(claim.namespace, claim.name, claim.uid, devices)


def cdi_spec_of(driver: str, claim: Claim, prepared: Any) -> tuple[CdiSpec, list[list[str]]]:
    """Return the CDI spec of a prepared claim, and the qualified names for each of its devices.

    The spec has no devices if there are no edits. Raises DriverError for another type of result.
    """
    spec = CdiSpec(kind=f"k8s.{driver}/claim")
    prefix = f"claim-{claim.uid}"
    edits: dict[str, Cdi] = {}
    keys: list[str] = []
    if prepared is None or isinstance(prepared, Cdi):
        edits = {prefix: prepared or Cdi()}
        keys = [prefix] * len(claim.devices)
    elif isinstance(prepared, Mapping):
        edits = {f"{prefix}-{request}": cdi for request, cdi in prepared.items()}
        keys = [f"{prefix}-{device.request}" for device in claim.devices]
        unknown = sorted(set(edits) - set(keys))
        if unknown:
            names = ", ".join(key.removeprefix(f"{prefix}-") for key in unknown)
            raise DriverError(f"prepare returned edits for requests that are not there: {names}")
    elif isinstance(prepared, Sequence) and len(prepared) == len(claim.devices):
        keys = [f"{prefix}-{i}" for i in range(len(prepared))]
        edits = dict(zip(keys, prepared, strict=True))
    if not all(isinstance(cdi, Cdi) for cdi in edits.values()) or len(keys) != len(claim.devices):
        raise DriverError(
            "prepare must return Cdi, a Cdi for each device, a dict of Cdi by request, or None, "
            f"not {prepared!r}"
        )
    spec = CdiSpec(
        kind=spec.kind,
        devices=tuple(
            CdiDevice(name=name, container_edits=cdi.edits)
            for name, cdi in edits.items()
            if cdi.edits
        ),
    )
    named = {device.name: spec.qualified(device) for device in spec.devices}
    return spec, [[named[key]] if key in named else [] for key in keys]


def _base(request: str) -> str:
    return request.partition("/")[0]


def _config_of(
    result: DeviceResult, config: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Return the parameters that apply to the request of a result, for the driver of the result."""
    pairs = []
    for entry in config:
        opaque = entry.get("opaque") or {}
        requests = entry.get("requests") or ()
        applies = not requests or result.request in requests or _base(result.request) in requests
        if applies and opaque.get("driver") == result.driver:
            pairs.append((entry.get("source") == "FromClaim", opaque.get("parameters") or {}))
    return tuple(parameters for _, parameters in sorted(pairs, key=lambda pair: pair[0]))
