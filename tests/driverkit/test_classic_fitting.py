"""What is free, what is booked, what is answered: the pure rules of a classic driver."""

import msgspec
import pytest

from holdfast.api.classic_dra.claim_sources import ClassicClaimSpec
from holdfast.api.classic_dra.names import IMMEDIATE
from holdfast.api.classic_dra.node_inventory import NodeInventory
from holdfast.api.classic_dra.types import (
    ClassicAllocation,
    ClassicClaim,
    ClassicClaimStatus,
    PodClaimNodes,
    PodScheduling,
    PodSchedulingSpec,
    PodSchedulingStatus,
)
from holdfast.api.devices import ClaimConsumer
from holdfast.api.meta import ObjectMeta
from holdfast.driver import Device, InvalidInventory
from holdfast.node.driverkit.classic_dra.bookings import Booking, Bookings
from holdfast.node.driverkit.classic_dra.fitting import (
    Choice,
    ClaimParameters,
    Count,
    FreeDevice,
    Share,
    Unsuitable,
    WrongChoice,
    choose,
    is_optional,
    less_preferred,
    quantity,
    without,
)
from holdfast.node.driverkit.classic_dra.handle import (
    booking_of,
    decode_handle,
    encode_handle,
    handle_of,
    with_result,
)
from holdfast.node.driverkit.classic_dra.inventory_conversion import booked, raw_spec
from holdfast.node.driverkit.classic_dra.negotiation import (
    ClaimStep,
    answer,
    changed_claims,
    claim_step,
    nodes_to_check,
)
from holdfast.runtime.errors import HoldfastError

DRIVER = "gpu.example.com"
OURS = (f"{DRIVER}/deletion-protection",)
GPU = FreeDevice("gpu-0", {"model": "A"}, {"memory": quantity("8Gi")})


def shares_of_memory(free, request, _class=None):
    wanted = {"memory": request["memory"]}
    found = next((device for device in free if device.has(wanted)), None)
    return None if found is None else Choice([Share(found.name, wanted)])


def whole_devices(free, request, _class=None):
    found = [device for device in free if not device.in_use][: request["count"]]
    return Choice(found) if len(found) == request["count"] else None


def asks(**parameters):
    return ClaimParameters(parameters)


def test_requests_of_one_pod_fit_together_or_not_at_all():
    two = [asks(memory="4Gi"), asks(memory="4Gi")]
    assert isinstance(choose(shares_of_memory, [GPU], two), tuple)
    assert choose(shares_of_memory, [GPU], [*two, asks(memory="1")]) == "no free device fits"
    assert choose(whole_devices, [GPU], [asks(count=1), asks(count=1)]) == "no free device fits"


def test_what_fits_says_is_checked():
    def chosen(choice):
        return lambda *_arguments: choice

    for wrong in (
        Choice(["gpu-9"]),
        Choice(["gpu-0", "gpu-0"]),
        Choice([Share("gpu-0", {"memory": "9Gi"})]),
        Choice([Share("gpu-0", {"cores": 1})]),
        Choice([Share("gpu-0", {"memory": "much"})]),
        Choice([Share("gpu-0", {"memory": "-1Gi"})]),
        Choice(["gpu-0", Share("gpu-0", {"memory": "1"})]),
        ["gpu-0"],
    ):
        with pytest.raises(WrongChoice):
            choose(chosen(wrong), [GPU], [asks()])
    [left] = without([GPU], Choice([Share("gpu-0", {"memory": "3Gi"})]))
    assert (left.in_use, str(left.capacity["memory"])) == (True, "5Gi")
    with pytest.raises(WrongChoice, match="gpu-0"):
        without([left], Choice([left]))


def test_a_large_booking_is_refused():
    large = "x" * 32768
    for arguments in ((Choice(data=large),), (Choice(), asks(memory=large))):
        with pytest.raises(HoldfastError, match="its booking has 32"):
            booked("ns", "claim", *arguments)


def test_unsuitable_says_why():
    def fits(free, request, _class):
        raise Unsuitable("the firmware is too old")

    assert choose(fits, [GPU], [asks()]) == "the firmware is too old"
    assert choose(fits, [GPU], [asks(optional=True)]) == (Choice(granted=0),)


def test_optional_requests_prefer_nodes_that_give_something():
    assert is_optional(Count(0, 2)) is False
    assert is_optional(type("Request", (), {"count": Count(0, 2)})())
    granted = {"a": 0, "b": 2, "c": 0}
    assert less_preferred(granted, ["a", "b"]) == {"a", "c"}
    assert less_preferred(granted, ["a", "c"]) == set()  # b is not asked for: not to be waited for


def inventory(node="n1", allocated=None, ready=True, devices=None, version="1"):
    spec = raw_spec(
        DRIVER, node, devices or [Device("gpu-0", {"x": 1}, {"memory": "8Gi"})], ready=ready
    )
    raw = {"metadata": {"name": node, "resourceVersion": version}, "spec": spec}
    if allocated:
        raw["status"] = {"allocated": {uid: msgspec.to_builtins(b) for uid, b in allocated.items()}}
    return msgspec.convert(raw, NodeInventory)


def booking(uid, node="n1", *shares, **choice):
    return Booking(uid, node, booked("default", uid, Choice(shares or ["gpu-0"], **choice)))


def test_a_booking_counts_from_each_source_and_only_once():
    now = 0.0
    bookings = Bookings(lambda: now)
    assert bookings.free("n1") is None
    bookings.set_inventory(inventory(ready=False))
    assert bookings.free("n1") is None
    bookings.set_inventory(inventory())
    assert [device.name for device in bookings.free("n1")] == ["gpu-0"]
    half = booking("u1", "n1", Share("gpu-0", {"memory": "4Gi"}))
    bookings.hold(half)
    bookings.set_claim(half)
    bookings.set_inventory(inventory(allocated={"u1": half.claim}))
    assert str(bookings.free("n1")[0].capacity["memory"]) == "4Gi"
    assert bookings.is_stored(half)
    assert bookings.find("u1") == [half]
    bookings.set_inventory(inventory())  # recreated: the claim's handle still counts
    assert str(bookings.free("n1")[0].capacity["memory"]) == "4Gi"
    bookings.unset_claim("u1")
    assert str(bookings.free("n1")[0].capacity["memory"]) == "8Gi"
    bookings.hold(booking("u2"))
    assert bookings.free("n1") == []
    now = 60.0
    assert [device.name for device in bookings.free("n1")] == ["gpu-0"]
    assert bookings.find("u2") == []
    bookings.remove_inventory("n1")
    assert bookings.free("n1") is None


def test_results_of_fits_are_remembered_until_something_changes():
    calls = []

    def fits(free, request, _class):
        calls.append(request)
        return whole_devices(free, request)

    bookings = Bookings(lambda: 0.0)
    bookings.set_inventory(inventory())
    for _ in range(3):
        assert bookings.choose("n1", fits, [asks(count=1)], "one") == (Choice((GPU_NAMED,)),)
    assert len(calls) == 1
    bookings.hold(booking("u1"))
    assert bookings.choose("n1", fits, [asks(count=1)], "one") == "no free device fits"
    assert "not ready" in bookings.choose("n2", fits, [asks(count=1)], "one")
    assert bookings.choose("n2", fits, [asks(count=1, optional=True)], "o") == (Choice(granted=0),)


GPU_NAMED = FreeDevice("gpu-0", {"x": 1}, {"memory": quantity("8Gi")})


def test_an_inventory_is_checked_before_it_is_published():
    with pytest.raises(InvalidInventory, match="two devices have the name"):
        raw_spec(DRIVER, "n", [Device("a"), Device("a")], ready=True)
    with pytest.raises(InvalidInventory, match="counter sets"):
        raw_spec(DRIVER, "n", [Device("a", consumes={"c": {"x": 1}})], ready=True)


def test_a_handle_proves_the_booking():
    one = booking("u1", "n1", "gpu-0", Share("gpu-1", {"memory": "2Gi"}), data={"a": 1})
    text = encode_handle(handle_of(one))
    proved = booking_of("u1", "default", "u1", decode_handle(text))
    assert handle_of(proved) == handle_of(one)
    assert decode_handle("opaque") is None
    assert decode_handle("[]") is None
    assert decode_handle("[" * 20_000) is None
    assert handle_of(with_result(one, '{"b":2}')).data == {"b": 2}
    assert handle_of(with_result(one, "null")).data == {"a": 1}


def a_claim(*, ours=False, immediate=False, allocated=False, **status):
    meta = {"name": "c", "finalizers": OURS if ours else ()}
    if status.pop("deleted", False):
        meta["deletion_timestamp"] = "2030-01-01T00:00:00Z"
    return ClassicClaim(
        metadata=ObjectMeta(**meta),
        spec=ClassicClaimSpec(**({"allocation_mode": IMMEDIATE} if immediate else {})),
        status=ClassicClaimStatus(allocation=ClassicAllocation() if allocated else None, **status),
    )


POD = (ClaimConsumer(resource="pods", name="p", uid="u"),)


@pytest.mark.parametrize(
    ("claim", "step"),
    [
        (a_claim(), ClaimStep.NOTHING),
        (a_claim(immediate=True), ClaimStep.ALLOCATE),
        (a_claim(immediate=True, ours=True), ClaimStep.ALLOCATE),
        (a_claim(ours=True), ClaimStep.ABORT),
        (a_claim(ours=True, allocated=True), ClaimStep.NOTHING),
        (a_claim(ours=True, allocated=True, deallocation_requested=True), ClaimStep.DEALLOCATE),
        (a_claim(allocated=True, deallocation_requested=True), ClaimStep.NOTHING),
        (a_claim(ours=True, deleted=True), ClaimStep.DEALLOCATE),
        (a_claim(deleted=True, immediate=True), ClaimStep.NOTHING),
        (a_claim(ours=True, allocated=True, deleted=True, reserved_for=POD), ClaimStep.NOTHING),
        (
            a_claim(ours=True, allocated=True, driver_name="other", reserved_for=POD),
            ClaimStep.DEALLOCATE,
        ),
        (a_claim(allocated=True, driver_name="other", deleted=True), ClaimStep.NOTHING),
    ],
)
def test_what_a_claim_needs_follows_from_the_object_alone(claim, step):
    assert claim_step(claim, DRIVER) is step
    assert claim_step(claim, "other.example.com") in (ClaimStep.NOTHING, ClaimStep.ALLOCATE)


def a_scheduling(selected="", potential=(), **answers):
    return PodScheduling(
        spec=PodSchedulingSpec(selected_node=selected, potential_nodes=tuple(potential)),
        status=PodSchedulingStatus(
            claims=tuple(
                PodClaimNodes(pod_resource_claim_name=name, unsuitable_nodes=tuple(nodes))
                for name, nodes in answers.items()
            )
        ),
    )


def test_earlier_answers_and_the_selected_node_are_checked_again():
    asked = a_scheduling("n9", ["n2", "n1"], mine=["n5"], other=["n6"])
    assert nodes_to_check(asked, {"mine"}) == ["n1", "n2", "n5", "n9"]


def test_answers_are_sorted_limited_and_touch_only_own_entries():
    names = [f"n{i:03}" for i in range(300)]
    assert answer(names, "") == names[:256]
    assert answer(names, "n299") == [*names[:255], "n299"]
    asked = a_scheduling("", ["n1"], other=["n1"])
    assert changed_claims(asked, {"mine": []}) == [
        {"podResourceClaimName": "other", "unsuitableNodes": ["n1"]},
        {"podResourceClaimName": "mine", "unsuitableNodes": []},
    ]
    assert changed_claims(a_scheduling(mine=["a"]), {"mine": ["a"]}) is None
