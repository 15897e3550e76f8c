"""Claims of pods from PreFilter to PreBind: waiting, sharing, deallocating, conflicts, undo."""

import numpy as np
import pytest

from holdfast.runtime.errors import Conflict, HoldfastError
from holdfast.scheduling.framework.plugin import ClusterEvent, Code, Placement, Reject, Skip
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, typed
from plugins.device_desk import GPU, Desk, devices_of, one_gpu, using


def test_a_pod_without_claims_is_none_of_its_business():
    assert isinstance(one_gpu().pre_filter(a_pod(requests={GPU: "1"})), Skip)


def test_D048_two_pods_racing_for_the_last_device_exactly_one_wins():
    desk = one_gpu(a_claim("a"), a_claim("b"))
    first, second = (a_pod(name, claims=using(name)) for name in "ab")
    waiting = desk.pre_filter(second)
    assert desk.verdicts(waiting) == {"n": 0}
    plan, placement = desk.reserve(first, "n")

    # The second decided before the first had written anything: it must not get the device.
    row = desk.world.nodes.row_of["n"]
    refusal = waiting.reserve(Placement(desk.pod_info(second), row, "n", {}))
    assert refusal.reasons == ("cannot allocate all claims",)
    late = desk.pre_filter(second)
    assert desk.verdicts(late) == {"n": Code.UNRESOLVABLE}
    assert desk.reasons(late, "n") == ("cannot allocate all claims",)

    desk.api.drive(plan.pre_bind(placement))
    held = [raw for raw in desk.api.of_kind("ResourceClaim") if "status" in raw]
    assert [raw["metadata"]["name"] for raw in held] == ["a"]
    assert held[0]["status"]["reservedFor"] == [
        {"resource": "pods", "name": "a", "uid": "uid-pod-default-a"}
    ]
    assert desk.verdicts(desk.pre_filter(second)) == {"n": Code.UNRESOLVABLE}
    assert sum(desk.world.devices.allocated_devices.unshared.values()) == 1


def test_D045_a_missing_class_holds_the_pod_until_it_exists():
    desk = Desk(a_node("n"), a_slice("n-gpu", node="n"), a_claim("a"))
    pod = a_pod(claims=using("a"))
    refusal = desk.pre_filter(pod)
    assert refusal == Reject(Code.UNRESOLVABLE, ("request req-0: device class gpu does not exist",))
    desk.world.upsert(typed(a_device_class("gpu")))
    pod_info = desk.pod_info(pod)
    event = ClusterEvent("DeviceClass", "Add", None, typed(a_device_class("gpu")))
    assert desk.plugin.queueing_hint(event, pod_info, desk.view(pod_info))
    assert desk.verdicts(desk.pre_filter(pod)) == {"n": 0}


@pytest.mark.parametrize(
    ("claim", "entry", "words"),
    [
        (None, using("a")[0], 'could not find ResourceClaim "default/a"'),
        (
            a_claim("a", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}),
            using("a")[0],
            'resourceclaim "a" is being deleted',
        ),
        (
            a_claim("a"),
            {"name": "a", "resourceClaimTemplateName": "t"},
            'pod "default/p": ResourceClaim not created yet',
        ),
    ],
)
def test_D044_a_pod_waits_outside_the_queue_for_its_claims(claim, entry, words):
    desk = one_gpu(*([claim] if claim else []))
    pod = desk.pod_info(a_pod(claims=[entry]))
    refusal = Reject(Code.UNRESOLVABLE, (words,))
    assert desk.plugin.pre_enqueue(pod, desk.view(pod)) == refusal
    assert desk.plugin.pre_filter(pod, desk.view(pod)) == refusal


def test_D044_a_claim_made_for_another_pod_is_refused():
    made = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "a"}]}
    pod = a_pod(claims=[{"name": "a", "resourceClaimTemplateName": "t"}], status=made)
    desk = one_gpu(a_claim("a"))
    assert desk.pre_filter(pod).reasons == (
        "ResourceClaim default/a was not created for Pod default/p (Pod is not owner)",
    )


def test_D046_two_pods_share_an_allocated_claim_on_one_node():
    desk = one_gpu(a_node("other"), a_claim("a"))
    desk.bind(a_pod("p", claims=using("a")), "n")
    second = a_pod("q", claims=using("a"))
    plan = desk.pre_filter(second)
    assert desk.verdicts(plan) == {"n": 0, "other": Code.UNRESOLVABLE}
    assert desk.reasons(plan, "other") == ("resourceclaim not available on the node",)
    desk.bind(second, "n")
    [claim] = desk.api.of_kind("ResourceClaim")
    assert [c["name"] for c in claim["status"]["reservedFor"]] == ["p", "q"]


def test_D047_a_second_pod_waits_while_the_claim_is_being_allocated():
    desk = one_gpu(a_claim("a"))
    plan, placement = desk.reserve(a_pod("p", claims=using("a")), "n")
    second = a_pod("q", claims=using("a"))
    words = "resource claim default/a is in the process of being allocated"
    assert desk.pre_filter(second) == Reject(Code.UNRESOLVABLE, (words,))
    old = desk.claims.get("default", "a")
    desk.api.drive(plan.pre_bind(placement))
    pod_info = desk.pod_info(second)
    event = ClusterEvent("ResourceClaim", "Update", old, desk.claims.get("default", "a"))
    assert desk.plugin.queueing_hint(event, pod_info, desk.view(pod_info))
    assert desk.verdicts(desk.pre_filter(second)) == {"n": 0}


def test_D049_an_unreserved_claim_on_a_node_that_will_not_do_is_deallocated():
    desk = one_gpu(a_claim("a"))
    plan, placement = desk.bind(a_pod("p", claims=using("a")), "n")
    desk.undo(plan, placement)
    [claim] = desk.api.of_kind("ResourceClaim")
    assert devices_of(claim) == ["gpu-0"]
    assert not claim["status"].get("reservedFor")

    desk.world.upsert(typed(a_node("other")))
    desk.world.delete(typed(a_node("n")))
    waiting = desk.pre_filter(a_pod("q", claims=using("a")))
    assert desk.verdicts(waiting) == {"other": Code.UNRESOLVABLE}
    effect = desk.post_filter(waiting)
    assert effect.message == "deallocation of ResourceClaim completed"
    for call in effect.calls:
        desk.api.carry_out(call)
    [claim] = desk.api.of_kind("ResourceClaim")
    assert not claim["status"]
    assert not desk.world.devices.allocated_devices.unshared


def test_D049_any_of_several_claims_may_be_deallocated_and_equal_seeds_choose_the_same():
    gone = {"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}  # fmt: skip
    allocated = {"allocation": {"devices": {"results": []}, "nodeSelector": gone}}
    desk = one_gpu(*(a_claim(name, status=allocated) for name in "abc"))
    waiting = desk.pre_filter(a_pod(claims=using("a", "b", "c")))
    assert desk.verdicts(waiting) == {"n": Code.UNRESOLVABLE}

    def choice(seed):
        [call] = desk.post_filter(waiting, np.random.default_rng(seed)).calls
        return call.path

    assert len({choice(seed) for seed in range(20)}) > 1
    assert choice(7) == choice(7)


def test_nothing_to_deallocate_is_said_as_upstream_says_it():
    desk = one_gpu(a_claim("a", count=2))
    plan = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(plan) == {"n": Code.UNRESOLVABLE}
    assert desk.post_filter(plan).message == "still not schedulable"
    effect = desk.post_filter(None)
    assert effect.message == "no new claims to deallocate"


def test_D050_a_conflict_is_retried_on_the_claim_as_it_is_now():
    desk = one_gpu(a_claim("a"))
    plan, placement = desk.reserve(a_pod(claims=using("a")), "n")
    conflicts = iter([Conflict("the object has been modified")])
    desk.api.fail = lambda call: next(conflicts, None) if call.verb == "patch" else None
    raw = desk.api.of_kind("ResourceClaim")[0]
    desk.api.put(raw | {"metadata": raw["metadata"] | {"labels": {"seen": "yes"}}})
    desk.api.drive(plan.pre_bind(placement))
    [claim] = desk.api.of_kind("ResourceClaim")
    assert devices_of(claim) == ["gpu-0"]
    assert claim["metadata"]["labels"] == {"seen": "yes"}
    assert [call.verb for call in desk.api.calls] == ["patch", "get", "patch", "patch"]


def test_D050_a_claim_allocated_elsewhere_fails_and_leaves_no_promise():
    desk = one_gpu(a_claim("a"))
    plan, placement = desk.reserve(a_pod(claims=using("a")), "n")
    raw = desk.api.of_kind("ResourceClaim")[0]
    elsewhere = {"devices": {"results": [{"request": "req-0", "driver": "x", "pool": "y",
                                          "device": "z"}]}}  # fmt: skip
    desk.api.put(raw | {"status": {"allocation": elsewhere}})
    with pytest.raises(HoldfastError, match="got allocated elsewhere in the meantime"):
        desk.api.drive(plan.pre_bind(placement))
    desk.undo(plan, placement)
    assert desk.claims.in_flight("uid-resourceclaim-default-a") is None
    assert list(desk.world.devices.allocated_devices.unshared) == [("x", "y", "z")]


def test_a_late_undo_does_not_withdraw_the_promise_of_another_pod():
    desk = one_gpu(a_claim("a"), a_claim("b"))
    plan, placement = desk.bind(a_pod("p", claims=using("a")), "n")
    desk.api.drive(plan.undo_pre_bind(placement))
    # Before the first pod is done, its claim is freed and promised devices for the second.
    desk.api.put(a_claim("a"))
    desk.reserve(a_pod("q", claims=using("a")), "n")
    plan.unreserve(placement)
    assert desk.verdicts(desk.pre_filter(a_pod("r", claims=using("b")))) == {"n": 2}


def test_withdrawing_a_promise_twice_changes_nothing():
    desk = one_gpu(a_claim("a"))
    plan, placement = desk.reserve(a_pod(claims=using("a")), "n")
    assert desk.world.devices.allocated_devices.unshared
    plan.unreserve(placement)
    plan.unreserve(placement)
    assert not desk.world.devices.allocated_devices.unshared
    assert desk.verdicts(desk.pre_filter(a_pod(claims=using("a")))) == {"n": 0}


def test_reservations_that_hold_devices_are_refused_in_words():
    desk = one_gpu(a_claim("a"))
    pod = desk.world.pod_info(typed(a_pod(claims=using("a"))), is_reserve_pod=True)
    refusal = desk.plugin.pre_filter(pod, desk.view(pod))
    assert "reservations of ResourceClaims are not supported" in refusal.reasons[0]
