"""resource.k8s.io/v1: device classes, slices of devices, claims on them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.meta import Object, ObjectMeta, Struct
from holdfast.api.node import Taint
from holdfast.api.pod import NodeSelector, Toleration
from holdfast.api.quantity import AmountText

CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim until no pod uses it."""


class CelSelector(Struct, frozen=True):
    """An expression over one device."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """How devices are chosen; only CEL exists."""

    cel: CelSelector | None = None


class OpaqueConfig(Struct, frozen=True):
    """Parameters that only the driver understands."""

    driver: str = ""
    parameters: Any = None


class DeviceConfig(Struct, frozen=True):
    """Driver parameters, for all requests or for those named."""

    opaque: OpaqueConfig | None = None
    requests: tuple[str, ...] = ()


class DeviceClassSpec(Struct, frozen=True):
    """Which devices belong to the class, and under which extended resource name."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A kind of device that can be asked for by name."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True):
    """Exactly one value of one type, or (gated) a list of them."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class DeviceCapacity(Struct, frozen=True):
    """An amount the device has."""

    value: AmountText = "0"
    request_policy: dict[str, Any] | None = None


class Counter(Struct, frozen=True):
    """An amount that the devices of a pool share."""

    value: AmountText = "0"


class CounterSet(Struct, frozen=True):
    """Counters of a slice, by name."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(Struct, frozen=True):
    """What a device takes of a counter set while it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class Device(Struct, frozen=True):
    """One device of a slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourcePool(Struct, frozen=True):
    """The pool a slice is part of; only the newest generation counts."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True):
    """Devices of one driver that some nodes can reach."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True):
    """Part of a driver's inventory."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class ExactRequest(Struct, frozen=True):
    """Ask for devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, Any] | None = None


class SubRequest(Struct, frozen=True):
    """One alternative of a ``firstAvailable`` request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, Any] | None = None


class DeviceRequest(Struct, frozen=True):
    """One request of a claim: exactly one of the two forms."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[SubRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    """What the chosen devices must have in common, or not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Struct, frozen=True):
    """All a claim says about devices."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    """What is claimed; immutable."""

    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Struct, frozen=True):
    """One device given to one request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, AmountText] = {}


class DeviceAllocation(Struct, frozen=True):
    """The devices given, and the configuration that goes with them."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class Allocation(Struct, frozen=True):
    """What a claim was given and where it can be used."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(Struct, frozen=True):
    """Who may use the allocated claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Struct, frozen=True):
    """What was allocated, and for whom it is reserved."""

    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[dict[str, Any], ...] = ()


class ResourceClaim(Object, frozen=True):
    """A claim on devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct, frozen=True):
    """What the made claims look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """Make one claim a pod."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
