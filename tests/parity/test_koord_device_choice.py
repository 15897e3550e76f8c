"""Koordinator's tables of DeviceShare that call pure functions: scores, NUMA hints, masks."""

import pytest

from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.allocations import use_of
from holdfast.state.device_share.candidates import DeviceRejection, Restriction
from holdfast.state.device_share.choosing import choose_devices
from holdfast.state.device_share.numa_hints import device_hints
from holdfast.state.device_share.scoring import ScoringStrategy
from holdfast.state.numa.cpu_set import mask_of
from holdfast.state.numa.policy_names import LEAST_ALLOCATED
from parity.device_sharing import allocations, amounts, asked_by, state_of, use
from parity.harness import parity

FILE = "koord_deviceshare.jsonl"


@parity(FILE, "Test_resourceAllocationScorer_scoreDevice")
def test_score_of_a_device(record):
    given = record.input
    strategy = ScoringStrategy(given["strategy"] or LEAST_ALLOCATED)
    request, total, free = (amounts("gpu", given[key]) for key in ("requests", "total", "free"))
    assert strategy.score("gpu", request, total, free) == record.expected["wantScore"]


@parity(FILE, "Test_isDeviceAllocationsInclude")
def test_includes(record):
    held = use_of(allocations(record.input["allocations"]))
    assert held.includes(use(record.input["required"])) == record.expected["want"]


@parity(FILE, "Test_Plugin_PreFilter")
def test_request(record):
    state, status = record.expected["wantState"], record.expected["wantStatus"]
    if status["code"] == "UnschedulableAndUnresolvable":
        with pytest.raises(BadRequest) as raised:
            asked_by(record.input)
        assert [str(raised.value)] == status["reasons"]
        return
    found = asked_by(record.input)
    assert (found is None) == state.get("skip", False)
    if found is None:
        return
    assert {one.type for one in found.requests} == set(state["podRequests"])
    for one in found.requests:
        total = tuple(one.count * amount for amount in one.amounts)
        assert total == amounts(one.type, state["podRequests"][one.type])
    if "gpuRequirements" in state:
        want = state["gpuRequirements"]
        assert found.gpus.count == want["numberOfGPUs"]
        assert found.gpus.shared == want.get("gpuShared", False)
        assert found.gpus.amounts == amounts("gpu", want["requestsPerGPU"])


@parity(FILE, "TestPlugin_GetPodTopologyHints")
def test_hints(record):
    state, asked = state_of(record.input), asked_by(record.input)

    def choose(mask):
        return choose_devices(state, asked, Restriction(numa_nodes=mask))

    found = device_hints(state.inventory, asked, (0, 1), "", choose)
    want = record.expected
    if want["wantErr"]:
        assert isinstance(found, DeviceRejection)
        return
    assert {
        kind: [(hint.mask, hint.preferred, hint.score) for hint in hints]
        for kind, hints in found.items()
    } == {
        kind: [(mask_of(one["numaNodeAffinity"]), one["preferred"], one["score"]) for one in hints]
        for kind, hints in want["want"].items()
    }


@parity(FILE, "TestPlugin_Allocate")
def test_within_numa_nodes(record):
    nodes = record.input["affinity"].get("numaNodeAffinity")
    mask = None if nodes is None else mask_of(nodes)
    found = choose_devices(
        state_of(record.input), asked_by(record.input), Restriction(numa_nodes=mask)
    )
    assert isinstance(found, DeviceRejection) == record.expected["wantErr"]
