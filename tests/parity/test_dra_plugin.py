"""Parts of the DynamicResources plugin: claims of pods, extended resources, scores, ledger."""

import msgspec
import numpy as np
import pytest

from holdfast.api.decode import convert_object
from holdfast.api.devices import Allocation, ResourceClaim
from holdfast.api.pod import Pod, PodResourceClaim
from holdfast.scheduling.plugins.dynamic_resources.plan import (
    ClaimAllocation,
    score_of_claim,
    with_allocation,
)
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.claims import (
    ClaimNotReady,
    check_owner,
    expect_claim_name,
    is_reserved_for,
)
from holdfast.state.devices.extended_resources import create_requests_and_mappings
from parity.harness import parity


@parity("dra_helpers.jsonl", "TestName")
def test_claim_name(record):
    pod = convert_object(record.input["pod"], Pod)
    entry = convert_object(record.input["podClaim"], PodResourceClaim)
    if record.expected["expectedError"]:
        with pytest.raises(ClaimNotReady) as unmet:
            expect_claim_name(pod, entry)
        assert str(unmet.value) == record.expected["expectedError"]
    else:
        wanted = (record.expected["expectedName"], record.expected["expectedCheck"])
        assert expect_claim_name(pod, entry) == wanted


@parity("dra_helpers.jsonl", "TestResourceClaimIsFor")
def test_claim_owner(record):
    claim = convert_object(record.input["claim"], ResourceClaim)
    pod = convert_object(record.input["pod"], Pod)
    words = ""
    try:
        check_owner(claim, pod)
    except ClaimNotReady as unmet:
        words = str(unmet)
    assert words == (record.expected["expectedError"] or "")


@parity("dra_helpers.jsonl", "TestIsReservedForPod")
def test_reserved_for(record):
    claim = convert_object(record.input["claim"], ResourceClaim)
    pod = convert_object(record.input["pod"], Pod)
    assert is_reserved_for(claim, pod.uid) == record.expected["expectedResult"]


def breakdown(record, mapping, resources):
    known = (record.input[mapping] or {}).get("mapping") or {}
    classes = {name: raw["metadata"]["name"] for name, raw in known.items()}
    pod = convert_object(record.input["pod"], Pod)
    return create_requests_and_mappings(pod, list(record.input[resources] or ()), classes.get)


@parity("dynamicresources_helpers.jsonl", "Test_createRequestsAndMappings_requests")
def test_extended_requests(record):
    found = breakdown(record, "cache", "extendedResources")
    got = [
        (r["name"], r["exactly"]["deviceClassName"], r["exactly"]["count"])
        for r in record.expected["wantDeviceRequests"] or ()
    ]
    assert [(r.name, r.device_class, r.count) for r in found.requests] == got


@parity("dynamicresources_helpers.jsonl", "Test_createRequestsAndMappings_mappings")
def test_extended_mappings(record):
    found = breakdown(record, "deviceClassMapping", "extnededResources")

    # Upstream sorts the result before it compares.
    def order(mapping):
        return sorted(mapping.items())

    got = sorted((msgspec.to_builtins(m) for m in found.mappings), key=order)
    assert got == sorted(record.expected["wantReqMappings"], key=order)


@parity("dynamicresources_helpers.jsonl", "TestNormalizeScore")
def test_normalize(record):
    raw = np.array([entry["score"] for entry in record.input["scores"]], np.float64)
    got = ClaimAllocation.normalize_score(None, np.arange(len(raw)), raw)
    assert got.tolist() == [entry["score"] for entry in record.expected["expectedScores"]]


@parity("dynamicresources_helpers.jsonl", "Test_computesScore")
def test_score(record):
    """Upstream passes the allocations of pending claims beside the claims, in their order."""
    allocations = iter(record.input["allocations"]["allocationResults"] or ())
    claims = [convert_object(raw, ResourceClaim) for raw in record.input["claims"]]
    score = 0
    for claim in claims:
        if claim.status.allocation is None:
            found = msgspec.convert(next(allocations, None), Allocation | None)
            claim = with_allocation(claim, found)
        score += score_of_claim(claim)
    assert not record.expected["expectErr"]
    assert score == record.expected["expectedScore"]


@parity("dynamicresources_helpers.jsonl", "TestGatherAllocatedState")
def test_allocated_devices(record):
    case, state = record.input, record.observed["allocatedState"]
    claims = [convert_object(raw, ResourceClaim) for raw in case["allocatedResourceClaims"] or ()]
    inflight = (case["inflightResourceClaims"] or {}).values()
    claims += [convert_object(raw, ResourceClaim) for raw in inflight]
    allocated_devices = AllocatedDevices.of(claims, sharing=case["enabledConsumableCapacity"])
    whole = {tuple(d[k] for k in ("driver", "pool", "device")) for d in state["allocatedDevices"]}
    assert set(allocated_devices.unshared) == whole
    assert sum(allocated_devices.shared.values()) == record.expected["expectedSharedIDAllocated"]
    consumed = {
        tuple(entry["key"][k] for k in ("driver", "pool", "device")): entry["value"]
        for entry in state["aggregatedCapacity"]
    }
    got = {
        device: {name: str(amount) for name, amount in amounts.items()}
        for device, amounts in allocated_devices.consumed.items()
    }
    assert got == consumed
