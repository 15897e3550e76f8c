"""Koordinator's tables of requests for devices: validation, normal form, counts and orders."""

import pytest

from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.quantity import units
from holdfast.api.reservation import Reservation
from holdfast.runtime.errors import BadRequest
from holdfast.scheduling.framework.world import World
from holdfast.state.device_share.candidates import (
    UNRESTRICTED,
    CandidateDevices,
    DeviceRejection,
    find_candidates,
)
from holdfast.state.device_share.choosing import with_memory
from holdfast.state.device_share.node_devices import NodeDevice
from holdfast.state.device_share.pod_devices import pod_devices
from holdfast.state.device_share.requests import RESOURCES, device_requests
from holdfast.state.device_share.scoring import Preference, ScoringStrategy, best_first
from holdfast.state.numa.policy_names import MOST_ALLOCATED
from holdfast.state.reservations.pre_allocation import read_rules
from holdfast.state.reservations.reservation_annotations import affinity_of
from parity.device_sharing import amounts, hinted, state_of
from parity.harness import parity

FILE = "koord_device_request.jsonl"


def requests_of(resources):
    return device_requests({name: units(amount) for name, amount in (resources or {}).items()})


def named(request, count=1):
    """Return the amounts of a request by name, those of ``count`` devices together."""
    pairs = zip(RESOURCES[request.type], request.amounts, strict=True)
    return {name: amount * count for name, amount in pairs if amount}


def plain(resources):
    return {name: units(amount) for name, amount in (resources or {}).items()}


@parity(FILE, "TestValidateDeviceRequest")
def test_validate(record):
    given = record.input["podRequest"]
    if not given:
        assert requests_of(given) == ()
    elif record.expected["wantErr"]:
        with pytest.raises(BadRequest):
            requests_of(given)
    else:
        [request] = requests_of(given)
        assert request.count >= 1


@parity(FILE, "TestConvertDeviceRequest")
def test_convert(record):
    found = requests_of(record.input.get("podRequest"))
    converted = {k: v for request in found for k, v in named(request, request.count).items()}
    assert converted == plain(record.expected["want"])


@parity(FILE, "Test_calcDesiredRequestsAndCountForGPU")
def test_count_of_gpus(record):
    [request] = requests_of(record.input["podRequests"])
    want = record.expected
    assert request.count == want["wantDesiredNumberOfGPUs"]
    assert request.shared == want["wantGPUShared"]
    assert named(request) == plain(want["wantRequestPerInstance"])


@parity(FILE, "TestDefaultDeviceHandler_CalcDesiredRequestsAndCount")
def test_count_of_rdma(record):
    given, want = record.input, record.expected
    asked = hinted(given["podRequests"], {"rdma": given.get("hint")})
    found = find_candidates(state_of(given), asked, asked.requests[0], UNRESTRICTED)
    if want["wantStatusSuccess"]:
        assert not isinstance(found, DeviceRejection)
        assert found.count == want["wantDesiredCount"]
        assert found.amounts == amounts("rdma", want["wantRequests"])
    else:
        assert found == DeviceRejection(("Insufficient rdma devices",), unresolvable=True)


@parity(FILE, "Test_fillGPUTotalMem")
def test_memory_and_ratio(record):
    [given] = record.input["allocations"]["gpu"]
    [total] = record.input["nodeDeviceInfo"]["deviceTotal"]["gpu"].values()
    gpu = NodeDevice(0, amounts("gpu", total))
    [want] = record.expected["wantAllocations"]["gpu"]
    found = with_memory(amounts("gpu", given["resources"]), gpu)
    # On a GPU without capacity nothing is ever allocated; there is no error to return.
    assert found == amounts("gpu", want["resources"])


@parity(FILE, "Test_preparePod_isReservationRequired")
def test_reservation_required(record):
    raw = record.input["pod"]
    pod = convert_object(raw, Pod)
    reservation = convert_object({"metadata": raw["metadata"], "spec": {}}, Reservation)
    if record.expected["wantErr"]:
        with pytest.raises(BadRequest):
            affinity_of(pod)
        return
    world = World()
    rules = read_rules(reservation, world.pod_info(pod), world.nodes.resources, prefers_none=False)
    required = affinity_of(pod) is not None or rules.required
    assert required == record.expected["wantIsReservationRequired"]


@parity(FILE, "Test_parseGPURequirements")
def test_requirements(record):
    given, want = record.input, record.expected["want"]
    pod = convert_object(given["pod"], Pod)
    if record.expected["wantErr"]:
        with pytest.raises(BadRequest):
            pod_devices(pod, plain(given["podRequests"]["gpu"]))
        return
    hints = {"gpu": given["gpuHints"]} if "gpuHints" in given else {}
    found = hinted(given["podRequests"]["gpu"], hints, given["pod"])
    if want is None:
        assert found is None
        return
    assert (found.gpus.count, found.gpus.shared) == (want["numberOfGPUs"], False)
    assert named(found.gpus) == plain(want["requestsPerGPU"])
    assert found.partition.restricted == want["restrictedGPUPartition"]
    assert found.partition.bandwidth == units(want["rindBusBandwidth"])
    assert found.hint("gpu").required_scope == want.get("requiredTopologyScope", "")


@parity(FILE, "Test_sortDeviceResourcesByMinor", "Test_sortDeviceResourcesByPreferredPCIe")
def test_order(record):
    given = record.input
    infos = given.get("deviceInfos", {})
    pcies = {minor: int(info["topology"]["pcieID"]) for minor, info in infos.items()}
    devices, free = {}, {}
    for one in given["resources"]:
        minor = one["minor"]
        devices[minor] = NodeDevice(minor, (100,), pcie=pcies.get(str(minor), -1))
        free[minor] = (100 - one["score"],)
    found = CandidateDevices("rdma", 1, (0,), devices, free, {}, set())
    wish = Preference(
        frozenset(("rdma", minor) for minor in given.get("preferred", ())),
        ScoringStrategy(MOST_ALLOCATED),
        frozenset(map(int, given.get("preferredPCIe", ()))),
    )
    assert best_first(found, wish) == record.expected["expectOrders"]
