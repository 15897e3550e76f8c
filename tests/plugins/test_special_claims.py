"""Extended resources that devices serve: the special claim of a pod, made and undone."""

import pytest

from holdfast.runtime.errors import HoldfastError, Unavailable
from holdfast.scheduling.framework.plugin import ClusterEvent, Code
from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice
from plugins.device_desk import GPU, Desk, devices_of, extended, using


def test_D052_an_extended_resource_becomes_a_special_claim():
    pod = a_pod("web", cpu=None, requests={GPU: "1"}, limits={GPU: "1"})
    desk = Desk(
        a_node("n"),
        a_device_class("gpu", extendedResourceName=GPU),
        a_slice("n-gpu", node="n", devices=1),
        pod,
    )
    desk.bind(pod, "n")

    [claim] = desk.api.of_kind("ResourceClaim")
    meta = claim["metadata"]
    assert meta["name"] == meta["generateName"] + "0" == "web-extended-resources-0"
    assert meta["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-pod-default-web",
            "controller": True,
        }
    ]  # fmt: skip
    assert meta["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["spec"]["devices"]["requests"] == [
        {
            "name": "container-0-request-0",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        }
    ]
    assert devices_of(claim) == ["gpu-0"]
    assert claim["status"]["reservedFor"] == [
        {"resource": "pods", "name": "web", "uid": "uid-pod-default-web"}
    ]
    [stored] = desk.api.of_kind("Pod")
    assert stored["status"]["nominatedNodeName"] == "n"
    assert stored["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": "web-extended-resources-0",
        "requestMappings": [
            {
                "containerName": "main", "resourceName": GPU,
                "requestName": "container-0-request-0",
            }
        ],
    }  # fmt: skip
    verbs = [(call.verb, call.path.rpartition("/")[2]) for call in desk.api.calls]
    assert verbs == [("create", "resourceclaims"), ("patch", "status"), ("patch", "status")]
    assert list(desk.world.devices.allocated_devices.unshared.values()) == [1]


def test_D053_the_implicit_name_serves_too():
    name = "deviceclass.resource.kubernetes.io/gpu"
    pod = a_pod(requests={name: "1"})
    desk = extended(a_node("n"), pod)
    desk.bind(pod, "n")
    [claim] = desk.api.of_kind("ResourceClaim")
    assert devices_of(claim) == ["gpu-0"]
    # cpu sorts before deviceclass...: all of the container's requests are numbered (D054).
    assert claim["spec"]["devices"]["requests"][0]["name"] == "container-0-request-1"


def test_D056_a_node_with_the_resource_of_its_own_uses_its_device_plugin():
    pod = a_pod(requests={GPU: "1"})
    desk = extended(a_node("n", allocatable={GPU: "4"}), pod)
    desk.bind(pod, "n")
    assert not desk.api.of_kind("ResourceClaim")
    assert "status" not in desk.api.of_kind("Pod")[0]


def test_a_pod_may_have_more_extended_resources_than_an_integer_has_bits():
    names = [f"example.com/r{i:02}" for i in range(70)]
    pod = a_pod(requests=dict.fromkeys(names, "1"))
    classes = [a_device_class(f"c{i}", extendedResourceName=n) for i, n in enumerate(names)]
    own = dict.fromkeys(names, "1")
    nodes = a_node("m", allocatable=own), a_node("n", allocatable=own | {names[-1]: "0"})
    desk = extended(*nodes, *classes, pod)
    desk.bind(pod, "n")
    [claim] = desk.api.of_kind("ResourceClaim")
    assert len(claim["spec"]["devices"]["requests"]) == 1


def test_D056_a_node_with_none_of_its_own_is_served_by_devices():
    pod = a_pod(requests={GPU: "1"})
    desk = extended(a_node("n", allocatable={GPU: "0"}), a_node("m"), pod)
    assert desk.verdicts(desk.pre_filter(pod)) == {"n": 0, "m": Code.UNRESOLVABLE}
    desk.bind(pod, "n")
    assert len(desk.api.of_kind("ResourceClaim")) == 1


def test_D064_when_all_devices_are_taken_the_next_pod_waits_for_one_to_go():
    pods = [a_pod(name, requests={GPU: "2"}) for name in ("p", "q")]
    desk = extended(a_node("n"), *pods)
    desk.bind(pods[0], "n")
    assert desk.verdicts(desk.pre_filter(pods[1])) == {"n": Code.UNRESOLVABLE}
    claim = desk.claims.all()[0]
    desk.world.delete(claim)
    pod_info = desk.pod_info(pods[1])
    event = ClusterEvent("ResourceClaim", "Delete", claim, None)
    assert desk.plugin.queueing_hint(event, pod_info, desk.view(pod_info))
    assert desk.verdicts(desk.pre_filter(pods[1])) == {"n": 0}


def test_D065_a_claim_and_an_extended_resource_never_get_the_same_device():
    pod = a_pod(requests={GPU: "1"}, claims=using("a"))
    desk = extended(a_node("n"), a_claim("a"), pod)
    desk.bind(pod, "n")
    given = [devices_of(claim) for claim in desk.api.of_kind("ResourceClaim")]
    assert sorted(given) == [["gpu-0"], ["gpu-1"]]


def test_D066_a_special_claim_that_cannot_be_made_leaves_nothing_behind():
    pod = a_pod(requests={GPU: "1"})
    desk = extended(a_node("n"), pod)
    desk.api.fail = lambda call: Unavailable("no") if call.verb == "create" else None
    plan, placement = desk.reserve(pod, "n")
    with pytest.raises(HoldfastError, match="create claim for extended resources default/: no"):
        desk.api.drive(plan.pre_bind(placement))
    desk.undo(plan, placement)
    assert not desk.world.devices.allocated_devices.unshared
    assert desk.verdicts(desk.pre_filter(pod)) == {"n": 0}


def test_D067_when_the_pod_cannot_be_told_the_special_claim_is_deleted():
    pod = a_pod(requests={GPU: "1"})
    desk = extended(a_node("n"), pod)
    desk.api.fail = lambda call: Unavailable("no") if "/pods/" in call.path else None
    plan, placement = desk.reserve(pod, "n")
    with pytest.raises(HoldfastError, match="update pod default/p ExtendedResourceClaimStatus: no"):
        desk.api.drive(plan.pre_bind(placement))
    desk.undo(plan, placement)
    assert not desk.api.of_kind("ResourceClaim")
    assert not desk.world.devices.allocated_devices.unshared
    assert desk.verdicts(desk.pre_filter(pod)) == {"n": 0}


def test_a_failed_binding_after_everything_was_written_clears_the_pod_status_too():
    pod = a_pod(requests={GPU: "1"})
    desk = extended(a_node("n"), pod)
    desk.undo(*desk.bind(pod, "n"))
    assert not desk.api.of_kind("ResourceClaim")
    assert not desk.api.of_kind("Pod")[0]["status"]


def test_D068_a_leftover_special_claim_is_deleted_before_a_new_one_is_made():
    pod = a_pod(requests={GPU: "1"})
    desk = extended(a_node("n"), pod)
    desk.bind(pod, "n")  # and then the scheduler crashed before the pod was bound
    waiting = desk.pre_filter(pod)
    assert desk.verdicts(waiting) == {"n": Code.UNRESOLVABLE}
    assert desk.reasons(waiting, "n") == ("cannot schedule extended resource claim",)
    effect = desk.post_filter(waiting)
    assert effect.message == "deletion of ResourceClaim completed"
    for call in effect.calls:
        desk.api.carry_out(call)
    assert not desk.api.of_kind("ResourceClaim")
    desk.bind(pod, "n")
    assert len(desk.api.of_kind("ResourceClaim")) == 1


def test_D069_more_devices_than_a_claim_may_have_is_an_error_and_makes_no_claim():
    pod = a_pod(requests={GPU: "33"})
    desk = extended(a_node("n"), pod)
    plan = desk.pre_filter(pod)
    assert desk.verdicts(plan) == {"n": Code.ERROR}
    words = "number of requested devices 33 exceeds the claim limit of 32"
    assert words in desk.reasons(plan, "n")[0]
    assert not desk.api.of_kind("ResourceClaim")


def test_D070_a_claim_beside_a_resource_of_the_device_plugin_makes_no_special_claim():
    pod = a_pod(requests={GPU: "1"}, claims=using("a"))
    desk = extended(a_node("n", allocatable={GPU: "1"}), a_claim("a"), pod)
    desk.bind(pod, "n")
    assert [c["metadata"]["name"] for c in desk.api.of_kind("ResourceClaim")] == ["a"]
