"""Koordinator's tables of DeviceShare's scores and of allocating from a reservation."""

import numpy as np

from holdfast.scheduling.plugins.device_share.allocator import DeviceAllocator
from holdfast.state.device_share.allocations import use_of
from holdfast.state.device_share.candidates import DeviceOffer, DeviceRejection, restriction_of
from holdfast.state.device_share.choosing import choose_devices
from holdfast.state.device_share.node_devices import NodeDeviceState
from holdfast.state.device_share.scoring import ScoringStrategy, score_node
from holdfast.state.numa.policy_names import LEAST_ALLOCATED
from holdfast.state.numa.trial import OF_RESERVATION
from parity.device_sharing import allocations, asked_by, cached_state, use
from parity.harness import parity

FILE = "koord_deviceshare.jsonl"
IGNORED = "scheduling.koordinator.sh/reservation-ignored"
RESTRICTED = "Restricted"


def released(state, *uses):
    """Return the state without some of what is used."""
    used = state.used
    for one in uses:
        used = used.minus(one)
    return NodeDeviceState(state.inventory, used)


def offered(remaining, policy):
    """Return what a reservation offers; a Restricted one gives no other devices of its types."""
    kinds = {kind for kind, _ in remaining.minors()} if policy == RESTRICTED else ()
    return DeviceOffer(remaining, frozenset(kinds))


@parity(FILE, "TestScore")
def test_score(record):
    given, want = record.input, record.expected
    requests = given.get("state", {}).get("podRequests", {})
    cache = given.get("nodeDeviceCache", {}).get("test-node")
    asked = asked_by({"podRequests": requests})
    if asked is None or cache is None:
        # Such pods are skipped, and nodes without a Device left to their device plugin.
        assert want["wantScore"] == 0
        return
    preemptible = given["state"].get("preemptibleDevices", {}).get("test-node")
    state = released(cached_state(cache), use(preemptible))
    strategy = ScoringStrategy(given["strategy"] or LEAST_ALLOCATED)
    assert score_node(state, asked, strategy) == want["wantScore"]
    if want["wantStatus"]["code"] != "Success":
        assert choose_devices(state, asked).reasons == tuple(want["wantStatus"]["reasons"])


@parity(FILE, "TestScoreExtension")
def test_normalize(record):
    raw = np.array([float(one["score"]) for one in record.input["nodeScoreList"]])
    found = DeviceAllocator(*[None] * 5).normalize_by_range(raw, raw.min(), raw.max())
    assert found.tolist() == [one["score"] for one in record.expected["want"]]


@parity(FILE, "TestScoreReservation")
def test_score_of_a_reservation(record):
    given = record.input
    remaining = use_of(allocations(given["reserved"]))
    preemptible = given.get("preemptibleDevices", {}).get("test-node")
    state = released(cached_state(given["nodeDeviceCache"]["test-node"]), use(preemptible))
    restriction = restriction_of(offered(remaining, given["allocatePolicy"]), state)
    strategy = ScoringStrategy(given["scoreStrategy"] or LEAST_ALLOCATED)
    asked = asked_by({"podRequests": {"all": given["podRequests"]}})
    assert score_node(state, asked, strategy, restriction) == record.expected["wantScore"]


@parity(FILE, "Test_tryAllocateFromReservation", "Test_allocateWithNominated")
def test_allocate_from_a_reservation(record):
    given, want = record.input, record.expected
    matched = given["restoreState"].get("matched", ())
    if not matched:
        assert want.get("wantResult") is None
        return
    [one] = matched
    cache = given["nodeDevice"].get("test-node", given["nodeDevice"])
    state = cached_state({**cache, "deviceUsed": {"gpu": given.get("deviceUsed", {})}})
    remaining = use(one.get("remained"))
    state = released(state, use(one.get("allocated")), remaining)
    ignores = IGNORED in given.get("pod", {}).get("metadata", {}).get("labels", {})
    policy = one["rInfo"]["reservation"]["spec"].get("allocatePolicy")
    offer = None if ignores else offered(remaining, policy)
    found = choose_devices(state, asked_by(given["state"]), restriction_of(offer, state))
    if "wantNil" in want:
        assert isinstance(found, DeviceRejection) == want["wantNil"]
    elif want["wantStatus"]["code"] == "Success":
        assert found == allocations(want["wantResult"])
    else:
        prefix = "" if ignores else OF_RESERVATION
        reasons = [prefix + reason for reason in found.reasons]
        assert reasons == want["wantStatus"]["reasons"]
