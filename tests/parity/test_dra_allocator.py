"""The structured allocator: the same devices for the same claims."""

import json

import msgspec

from devices.device_cluster import gather_pools
from holdfast.api.cel import DeviceSelectors
from holdfast.api.decode import convert_object
from holdfast.api.devices import DeviceCapacity, DeviceClass, ResourceClaim, ResourceSlice
from holdfast.api.node import Node, Taint
from holdfast.api.pod import Toleration
from holdfast.api.quantity import Quantity
from holdfast.api.tolerations import tolerates
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.allocator import Allocator
from holdfast.state.devices.consumable_capacity import consumed_amount, violates_policy
from holdfast.state.devices.errors import AllocationError, NodeAllocationError
from holdfast.state.devices.features import Features
from holdfast.state.devices.slices import SliceInfo
from parity.harness import parity

GATES = {
    "adminAccess": "admin_access",
    "consumableCapacity": "consumable_capacity",
    "deviceBindingAndStatus": "binding_conditions",
    "deviceTaints": "device_taints",
    "listTypeAttributes": "list_attributes",
    "partitionableDevices": "partitionable_devices",
    "prioritizedList": "prioritized_list",
}


def allocate(case):
    features = Features(**{GATES[gate]: on for gate, on in case["features"].items()})
    node = convert_object(case["node"], Node)
    slices = [SliceInfo(convert_object(raw, ResourceSlice)) for raw in case["slices"] or ()]
    pools = {}
    for pod_info in slices:
        pools.setdefault(pod_info.pool, []).append(pod_info)
    near = [s for s in slices if s.counters or {"", node.name} & s.node_names]
    classes = [convert_object(raw, DeviceClass) for raw in case["classes"] or ()]
    allocator = Allocator(
        [convert_object(raw, ResourceClaim) for raw in case["claims"] or ()],
        {one.name: one for one in classes},
        DeviceSelectors(list_attributes=features.list_attributes),
        features,
    )
    found = allocator.solve(node, gather_pools(near, pools, node, features), held(case))
    return found and msgspec.json.decode(msgspec.json.encode(allocator.write(found, node.name)))


def held(case):
    allocated_devices = AllocatedDevices()
    for raw in case["allocatedDevices"] or ():
        allocated_devices.unshared[identity(raw)] += 1
    for raw in case["allocatedSharedDeviceIDs"] or ():
        allocated_devices.shared[identity(raw)] += 1
    for raw in case["allocatedCapacityDevices"] or ():
        amounts = {name: Quantity.parse(value) for name, value in raw["value"].items()}
        allocated_devices.consume(identity(raw["key"]), amounts)
    return allocated_devices


def identity(raw):
    return raw["driver"], raw["pool"], raw["device"]


def comparable(allocation, order):
    """Normalize an allocation, so that only what is compared can differ."""
    results = [
        json.dumps(
            {**result, **({"shareID": "any"} if "shareID" in result else {})}, sort_keys=True
        )
        for result in allocation["devices"].get("results") or ()
    ]
    config = allocation["devices"].get("config") or []
    return sorted(results) if order == "any" else results, config, selector(allocation)


def selector(allocation):
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    return sorted(
        json.dumps(
            {
                kind: sorted(json.dumps({**r, "values": sorted(r["values"])}) for r in requirements)
                for kind, requirements in term.items()
                if requirements
            },
            sort_keys=True,
        )
        for term in terms
    )


@parity("dra_allocator.jsonl", "TestAllocator")
def test_allocation(record):
    expected = record.expected
    try:
        found = allocate(record.input)
    except AllocationError as failure:
        assert expected["errorContains"]
        assert expected["errorContains"] in str(failure)
        elsewhere = record.observed["experimental"]["failedAllocationOnNode"]
        assert isinstance(failure, NodeAllocationError) == elsewhere
        return
    assert not expected["errorContains"]
    if not expected["results"]:
        assert not found
        return
    got = [comparable(a, w["order"]) for a, w in zip(found, expected["results"], strict=True)]
    assert got == [comparable(w["result"], w["order"]) for w in expected["results"]]


@parity("dra_consumable_capacity.jsonl", "testCalculateConsumedCapacity")
def test_consumed_capacity(record):
    case = record.input
    policy = case["requestPolicy"]
    capacity = DeviceCapacity(value=case["capacityValue"], request_policy=policy)
    asked = case["requestedVal"]
    got = consumed_amount(None if asked is None else Quantity.parse(asked), capacity)
    assert got == Quantity.parse(record.expected["expectResult"])


@parity("dra_consumable_capacity.jsonl", "testViolateCapacityRequestPolicy")
def test_policy_violation(record):
    amount = Quantity.parse(record.input["requestedVal"])
    assert violates_policy(amount, record.input["requestPolicy"]) == record.expected["expectResult"]


@parity("dra_helpers.jsonl", "TestTolerationToleratesTaint")
def test_device_toleration(record):
    toleration = convert_object(record.input["toleration"], Toleration)
    taint = convert_object(record.input["taint"], Taint)
    assert tolerates(toleration, taint) == record.expected["expectTolerated"]
