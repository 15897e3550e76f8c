"""Koordinator's tables of allocating devices on one node."""

from holdfast.state.device_share.candidates import DeviceRejection
from holdfast.state.device_share.choosing import choose_devices
from holdfast.state.device_share.node_devices import NodeDeviceState
from parity.device_sharing import (
    allocations,
    asked_by,
    state_of,
    strategy_of,
    use,
    written_and_read,
)
from parity.harness import parity

FILE = "koord_device_allocate.jsonl"


@parity(
    FILE,
    "TestAllocateByPartition",
    "TestAllocateByTopology",
    "TestAutopilotAllocator",
    "TestAutopilotAllocatorWithExclusivePolicyAndRequiredScope",
    "TestAllocateSharedGPU",
    "Test_allocateGPU",
    "Test_allocateGPUWithLeastAllocatedScorer",
    "Test_nodeDevice_allocateGPUWithMostAllocatedScorer",
    "Test_failedPreemptGPUFromReservation",
    "Test_allocateGPUWithUnhealthyInstance",
    "Test_allocateRDMA",
)
def test_allocate(record):
    state = state_of(record.input)
    released = use(record.input.get("preemptibleDeviceResources"))
    state = NodeDeviceState(state.inventory, state.used.minus(released))
    found = choose_devices(state, asked_by(record.input), strategy=strategy_of(record.input))
    if record.expected["wantErr"]:
        status = record.observed["status"]
        unresolvable = status["code"] == "UnschedulableAndUnresolvable"
        assert found == DeviceRejection(tuple(status["reasons"]), unresolvable)
    else:
        assert not isinstance(found, DeviceRejection), found
        assert found == allocations(record.expected["want"])
        assert written_and_read(found) == found
