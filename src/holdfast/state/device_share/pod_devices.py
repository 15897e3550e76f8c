"""Read what a pod asks of shared devices: its requests, and annotations that guide the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from holdfast.api import koordinator_names as names
from holdfast.api.labels import Selector, from_selector
from holdfast.api.meta import LabelSelector, Struct
from holdfast.api.pod import Pod
from holdfast.api.quantity import AmountText, units
from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.requests import RESOURCES, SharedDeviceRequest, device_requests

APPLY_FOR_ALL, REQUESTS_AS_COUNT = "ApplyForAll", "RequestsAsCount"
DEVICE_LEVEL, PCIE_LEVEL = "DeviceLevel", "PCIeLevel"
SCOPES: Mapping[str, int] = {"": 0, "Node": 1, "NUMANode": 2, "PCIe": 3, "Device": 4}
"""Topology scopes, from the widest to the narrowest."""
_STRATEGIES = ("", APPLY_FOR_ALL, REQUESTS_AS_COUNT)
_EXCLUSIVE_POLICIES = ("", DEVICE_LEVEL, PCIE_LEVEL)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeviceHint:
    """How devices of one type are chosen; ``vf_selector``: a virtual function of each is needed."""

    selector: Selector | None = None
    vf_selector: Selector | None = None
    strategy: str = ""
    required_scope: str = ""
    exclusive: str = ""


NO_HINT = DeviceHint()


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The GPUs of the pod must be a partition: the best ones only, with this bandwidth."""

    restricted: bool = False
    bandwidth: int = 0


@dataclass(frozen=True, slots=True)
class RequestedDevices:
    """The request of a pod for shared devices; pods with the same request have equal values.

    ``joint`` are the types to allocate close to one another; the first of them decides.
    """

    requests: tuple[SharedDeviceRequest, ...]
    hints: tuple[tuple[str, DeviceHint], ...] = ()
    joint: tuple[str, ...] = ()
    same_pcie: bool = False
    partition: PartitionSpec | None = None
    isolation_provider: str = ""

    def hint(self, kind: str) -> DeviceHint:
        """Return the hint for a type of device."""
        return next((hint for of, hint in self.hints if of == kind), NO_HINT)

    @property
    def gpus(self) -> SharedDeviceRequest | None:
        """Return the request for GPUs."""
        return next((one for one in self.requests if one.type == "gpu"), None)


class _Hint(Struct, frozen=True):
    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = msgspec.field(default=None, name="vfSelector")
    allocate_strategy: str = ""
    required_topology_scope: str = ""
    exclusive_policy: str = ""


class _Joint(Struct, frozen=True):
    device_types: tuple[str, ...] = ()
    required_scope: str = ""


class _Partition(Struct, frozen=True):
    allocate_policy: str = ""
    ring_bus_bandwidth: AmountText = 0


def pod_devices(pod: Pod, request: Mapping[str, int]) -> RequestedDevices | None:
    """Return what the pod asks of shared devices, None for nothing; raise BadRequest if invalid.

    ``request`` is the sum over its containers, in whole units.
    """
    requests = device_requests(request)
    if not requests:
        return None
    annotations = pod.metadata.annotations
    hints = _hints(annotations)
    joint = _decode(annotations, names.DEVICE_JOINT_ALLOCATE, "DeviceJointAllocate", _Joint)
    asked = RequestedDevices(requests, hints)
    if joint is not None:
        asked = replace(
            asked,
            joint=tuple(
                kind
                for kind in dict.fromkeys(joint.device_types)
                if any(one.type == kind for one in requests)
                and asked.hint(kind).strategy != APPLY_FOR_ALL
            ),
            same_pcie=joint.required_scope == "SamePCIe",
        )
    gpus = asked.gpus
    if gpus is None:
        return asked
    provider = pod.metadata.labels.get(names.GPU_ISOLATION_PROVIDER, "") if gpus.shared else ""
    return replace(asked, partition=_partition(annotations), isolation_provider=provider)


def _hints(annotations: Mapping[str, str]) -> tuple[tuple[str, DeviceHint], ...]:
    written = _decode(
        annotations, names.DEVICE_ALLOCATE_HINT, "DeviceAllocateHint", dict[str, _Hint | None]
    )
    return tuple(
        (kind, _hint(kind, written[kind] or _Hint()))
        for kind in RESOURCES
        if written and kind in written
    )


def _hint(kind: str, written: _Hint) -> DeviceHint:
    for name, value, known in (
        ("allocateStrategy", written.allocate_strategy, _STRATEGIES),
        ("requiredTopologyScope", written.required_topology_scope, SCOPES),
        ("exclusivePolicy", written.exclusive_policy, _EXCLUSIVE_POLICIES),
    ):
        if value not in known:
            listed = ", ".join(filter(None, known))
            raise BadRequest(
                f'invalid {name} "{value}" of DeviceHint, deviceType: {kind}, supported: {listed}'
            )
    return DeviceHint(
        _selector(kind, "Selector", written.selector),
        _selector(kind, "VFSelector", written.vf_selector),
        written.allocate_strategy,
        written.required_topology_scope,
        written.exclusive_policy,
    )


def _selector(kind: str, name: str, selector: LabelSelector | None) -> Selector | None:
    if selector is None:
        return None
    try:
        return from_selector(selector)
    except BadRequest as error:
        raise BadRequest(
            f"invalid {name} of DeviceHint, deviceType: {kind}, err: {error}"
        ) from None


def _partition(annotations: Mapping[str, str]) -> PartitionSpec | None:
    name = "GPUPartitionSpec"
    written = _decode(annotations, names.GPU_PARTITION_SPEC, name, _Partition)
    if written is None:
        return None
    try:
        bandwidth = units(written.ring_bus_bandwidth)
    except BadRequest as error:
        raise BadRequest(f"invalid {name} annotation, err: {error}") from None
    return PartitionSpec(written.allocate_policy == "Restricted", bandwidth)


def _decode(annotations: Mapping[str, str], key: str, name: str, kind: type[T]) -> T | None:
    text = annotations.get(key, "null")
    if text.strip() == "null":
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"invalid {name} annotation, err: {error}") from None
