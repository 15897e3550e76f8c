"""resource.k8s.io/v1: device classes, resource slices, resource claims."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.meta import Condition, Object, ObjectMeta, Struct
from holdfast.api.node import Taint
from holdfast.api.pod import NodeSelector, Pod, Toleration
from holdfast.api.quantity import AmountText

EXACT_COUNT, ALL = "ExactCount", "All"
"""The allocation modes of a request."""
MAX_DEVICES = 32
"""The most devices that can be allocated for one claim."""
MAX_CONSUMERS = 256
"""The most pods that can use a claim at once."""
MAX_ALTERNATIVES = 8
"""The most subrequests of a request."""
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the claim that the scheduler makes for a pod's extended resources."""
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
"""Finalizer that protects an allocated claim while pods use it."""


class CelSelector(Struct, frozen=True):
    """A CEL expression that selects devices."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """A selector of devices; CEL is the only type."""

    cel: CelSelector | None = None


class OpaqueConfig(Struct, frozen=True):
    """Parameters for the driver."""

    driver: str = ""
    parameters: Any = None


class DeviceConfig(Struct, frozen=True):
    """Configuration for all requests, or for the named ones."""

    opaque: OpaqueConfig | None = None
    requests: tuple[str, ...] = ()


class DeviceClassSpec(Struct, frozen=True):
    """Selectors, configuration and extended resource name of the class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A class of devices that requests refer to by name."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True):
    """One value of one type, or (feature-gated) a list of values."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class DeviceCapacity(Struct, frozen=True):
    """A capacity of a device; the policy limits requests of consumable capacity."""

    value: AmountText = "0"
    request_policy: dict[str, Any] | None = None


class Counter(Struct, frozen=True):
    """An amount shared by the devices of a pool."""

    value: AmountText = "0"


class CounterSet(Struct, frozen=True):
    """A named set of counters."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(Struct, frozen=True):
    """The amounts that an allocated device consumes from a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class Device(Struct, frozen=True):
    """A device of a slice."""

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
    """The pool of a slice; only slices of its newest generation count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True):
    """Devices of one driver, and the nodes on which they are available."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True):
    """A part of a pool of devices that a driver publishes."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Struct, frozen=True):
    """The devices that a rule taints; an absent field selects all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    """A taint, and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None
    taint: Taint = Taint()


class DeviceTaintRuleStatus(Struct, frozen=True):
    """The progress of the evictions that a rule causes."""

    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(Object, frozen=True):
    """Adds a taint to devices, as if their driver had published it (v1beta2)."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()


class ExactRequest(Struct, frozen=True):
    """A request for devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, Any] | None = None


class SubRequest(Struct, frozen=True):
    """A subrequest: one alternative of ``firstAvailable``."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, Any] | None = None


class DeviceRequest(Struct, frozen=True):
    """A request of a claim: either ``exactly`` or ``firstAvailable``."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[SubRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    """An attribute that must match, or be distinct, for the devices of these requests."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Struct, frozen=True):
    """Requests, constraints and configuration of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    """The spec of a claim; immutable."""

    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Struct, frozen=True):
    """A device allocated for a request."""

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
    """The allocated devices and their configuration."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class Allocation(Struct, frozen=True):
    """The allocation of a claim, and the nodes that can use it."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(Struct, frozen=True):
    """A consumer that an allocated claim is reserved for."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether the consumer is a pod; drivers may reserve claims for other objects."""
        return not self.api_group and self.resource == "pods"


def pod_consumer(pod: Pod) -> dict[str, str]:
    """Return the entry of a pod in ``reservedFor``, as JSON."""
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


class ResourceClaimStatus(Struct, frozen=True):
    """The allocation of the claim and its consumers."""

    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[dict[str, Any], ...] = ()


class ResourceClaim(Object, frozen=True):
    """A claim for devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def results(self) -> tuple[DeviceResult, ...]:
        """The devices of its allocation, including those for admin access."""
        allocation = self.status.allocation
        return () if allocation is None else allocation.devices.results


class ResourceClaimTemplateSpec(Struct, frozen=True):
    """Metadata and spec of the claims created from a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """A template from which one claim per pod is created."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


def devices_of_request(request: DeviceRequest) -> dict[str, int]:
    """Return the devices of a request by class; of alternatives, the maximum for each class.

    A request for all devices counts as many as a claim can get.
    """
    alternatives = request.first_available or ((request.exactly,) if request.exactly else ())
    most: dict[str, int] = {}
    for one in alternatives:
        count = {EXACT_COUNT: one.count, ALL: MAX_DEVICES}.get(one.allocation_mode, 0)
        most[one.device_class_name] = max(most.get(one.device_class_name, 0), count)
    return most


def devices_of_claim(claim: ResourceClaim) -> dict[str, int]:
    """Return the devices of a claim by class, without those that it only administers."""
    total: dict[str, int] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is None or not request.exactly.admin_access:
            for device_class, count in devices_of_request(request).items():
                total[device_class] = total.get(device_class, 0) + count
    return total
