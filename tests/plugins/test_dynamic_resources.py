"""DynamicResources on a world of objects, its writes carried out by an API in memory."""

from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.devices.allocator import Allocator
from holdfast.engine.decision import feasible
from holdfast.errors import Conflict, HoldfastError, Unavailable
from holdfast.framework.plugin import (
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    PreFilterState,
    Reject,
    Skip,
)
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.plugins.dynamic_resources import DynamicResources
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice, typed
from holdfast.testing.memory_api import MemoryApi

GPU = "example.com/gpu"
NOW = 1_900_000_000.0


class Desk:
    """A cluster of objects and the plugin under test."""

    def __init__(self, *objects, fail=lambda call: None, **args):
        self.world = World()
        self.api = MemoryApi(self.world, fail)
        self.plugin = DynamicResources({"preemptDevices": False} | args)
        for raw in objects:
            if raw["kind"] in ("ResourceClaim", "Pod"):
                self.api.put(raw)
            else:
                self.world.upsert(typed(raw))

    @property
    def claims(self):
        return self.world.devices.claims

    def pod_info(self, raw):
        return self.world.pod_info(typed(raw))

    def view(self, pod):
        return View(self.world, pod, NOW)

    def pre_filter(self, raw):
        answer = self.plugin.pre_filter(self.pod_info(raw), self.view(self.pod_info(raw)))
        return answer.state if isinstance(answer, PreFilterState) else answer

    def verdicts(self, demand):
        rows = self.world.nodes.rows
        return dict(
            zip(
                (self.world.nodes.names[row] for row in rows),
                self.plugin.filter(demand, rows).tolist(),
                strict=True,
            )
        )

    def reasons(self, demand, node):
        return self.plugin.reasons(demand, self.world.nodes.row_of[node])

    def reserve(self, raw, node):
        """Decide that the pod goes to the node; answers what later points need."""
        demand = self.pre_filter(raw)
        assert not isinstance(demand, (Reject, Skip)), demand
        assert self.verdicts(demand)[node] == 0
        row = self.world.nodes.row_of[node]
        placement = Placement(self.pod_info(raw), row, node, {self.plugin.name: demand})
        assert self.plugin.reserve(demand, placement) is None
        return demand, placement

    def bind(self, raw, node):
        demand, placement = self.reserve(raw, node)
        self.api.drive(self.plugin.pre_bind(demand, placement))
        return demand, placement

    def undo(self, demand, placement):
        with suppress(HoldfastError):  # The scheduler logs it.
            self.api.drive(self.plugin.undo_pre_bind(demand, placement))
        self.plugin.unreserve(demand, placement)


def using(*names):
    return [{"name": name, "resourceClaimName": name} for name in names]


def devices_of(raw):
    return [r["device"] for r in raw["status"]["allocation"]["devices"]["results"]]


def one_gpu(*more, **options):
    return Desk(
        a_node("n"), a_device_class("gpu"), a_slice("n-gpu", node="n", devices=1), *more, **options
    )


def test_a_pod_without_claims_is_none_of_its_business():
    assert isinstance(one_gpu().pre_filter(a_pod(requests={GPU: "1"})), Skip)


def test_D048_two_pods_racing_for_the_last_device_exactly_one_wins():
    desk = one_gpu(a_claim("a"), a_claim("b"))
    first, second = (a_pod(name, claims=using(name)) for name in "ab")
    waiting = desk.pre_filter(second)
    assert desk.verdicts(waiting) == {"n": 0}
    demand, placement = desk.reserve(first, "n")

    # The second decided before the first had written anything: it must not get the device.
    row = desk.world.nodes.row_of["n"]
    refusal = desk.plugin.reserve(waiting, Placement(desk.pod_info(second), row, "n", {}))
    assert refusal.reasons == ("cannot allocate all claims",)
    late = desk.pre_filter(second)
    assert desk.verdicts(late) == {"n": Code.UNRESOLVABLE}
    assert desk.reasons(late, "n") == ("cannot allocate all claims",)

    desk.api.drive(desk.plugin.pre_bind(demand, placement))
    held = [raw for raw in desk.api.of_kind("ResourceClaim") if "status" in raw]
    assert [raw["metadata"]["name"] for raw in held] == ["a"]
    assert held[0]["status"]["reservedFor"] == [
        {"resource": "pods", "name": "a", "uid": "uid-pod-default-a"}
    ]
    assert desk.verdicts(desk.pre_filter(second)) == {"n": Code.UNRESOLVABLE}
    assert sum(desk.world.devices.allocated_devices.unshared.values()) == 1


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
    demand = desk.pre_filter(second)
    assert desk.verdicts(demand) == {"n": 0, "other": Code.UNRESOLVABLE}
    assert desk.reasons(demand, "other") == ("resourceclaim not available on the node",)
    desk.bind(second, "n")
    [claim] = desk.api.of_kind("ResourceClaim")
    assert [c["name"] for c in claim["status"]["reservedFor"]] == ["p", "q"]


def test_D047_a_second_pod_waits_while_the_claim_is_being_allocated():
    desk = one_gpu(a_claim("a"))
    demand, placement = desk.reserve(a_pod("p", claims=using("a")), "n")
    second = a_pod("q", claims=using("a"))
    words = "resource claim default/a is in the process of being allocated"
    assert desk.pre_filter(second) == Reject(Code.UNRESOLVABLE, (words,))
    old = desk.claims.get("default", "a")
    desk.api.drive(desk.plugin.pre_bind(demand, placement))
    pod_info = desk.pod_info(second)
    event = ClusterEvent("ResourceClaim", "Update", old, desk.claims.get("default", "a"))
    assert desk.plugin.queueing_hint(event, pod_info, desk.view(pod_info))
    assert desk.verdicts(desk.pre_filter(second)) == {"n": 0}


def test_D049_an_unreserved_claim_on_a_node_that_will_not_do_is_deallocated():
    desk = one_gpu(a_claim("a"))
    demand, placement = desk.bind(a_pod("p", claims=using("a")), "n")
    desk.undo(demand, placement)
    [claim] = desk.api.of_kind("ResourceClaim")
    assert devices_of(claim) == ["gpu-0"]
    assert not claim["status"].get("reservedFor")

    desk.world.upsert(typed(a_node("other")))
    desk.world.delete(typed(a_node("n")))
    waiting = desk.pre_filter(a_pod("q", claims=using("a")))
    assert desk.verdicts(waiting) == {"other": Code.UNRESOLVABLE}
    effect = desk.plugin.post_filter(waiting, None, None)
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
        rejection = SimpleNamespace(rng=np.random.default_rng(seed))
        [call] = desk.plugin.post_filter(waiting, rejection, None).calls
        return call.path

    assert len({choice(seed) for seed in range(20)}) > 1
    assert choice(7) == choice(7)


def test_nothing_to_deallocate_is_said_as_upstream_says_it():
    desk = one_gpu(a_claim("a", count=2))
    demand = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(demand) == {"n": Code.UNRESOLVABLE}
    assert desk.plugin.post_filter(demand, None, None).message == "still not schedulable"
    effect = desk.plugin.post_filter(None, None, None)
    assert effect.message == "no new claims to deallocate"


def test_D050_a_conflict_is_retried_on_the_claim_as_it_is_now():
    desk = one_gpu(a_claim("a"))
    demand, placement = desk.reserve(a_pod(claims=using("a")), "n")
    conflicts = iter([Conflict("the object has been modified")])
    desk.api.fail = lambda call: next(conflicts, None) if call.verb == "patch" else None
    raw = desk.api.of_kind("ResourceClaim")[0]
    desk.api.put(raw | {"metadata": raw["metadata"] | {"labels": {"seen": "yes"}}})
    desk.api.drive(desk.plugin.pre_bind(demand, placement))
    [claim] = desk.api.of_kind("ResourceClaim")
    assert devices_of(claim) == ["gpu-0"]
    assert claim["metadata"]["labels"] == {"seen": "yes"}
    assert [call.verb for call in desk.api.calls] == ["patch", "get", "patch", "patch"]


def test_D050_a_claim_allocated_elsewhere_fails_and_leaves_no_promise():
    desk = one_gpu(a_claim("a"))
    demand, placement = desk.reserve(a_pod(claims=using("a")), "n")
    raw = desk.api.of_kind("ResourceClaim")[0]
    elsewhere = {"devices": {"results": [{"request": "req-0", "driver": "x", "pool": "y",
                                          "device": "z"}]}}  # fmt: skip
    desk.api.put(raw | {"status": {"allocation": elsewhere}})
    with pytest.raises(HoldfastError, match="got allocated elsewhere in the meantime"):
        desk.api.drive(desk.plugin.pre_bind(demand, placement))
    desk.undo(demand, placement)
    assert desk.claims.in_flight("uid-resourceclaim-default-a") is None
    assert list(desk.world.devices.allocated_devices.unshared) == [("x", "y", "z")]


def test_a_late_undo_does_not_withdraw_the_promise_of_another_pod():
    desk = one_gpu(a_claim("a"), a_claim("b"))
    first = desk.bind(a_pod("p", claims=using("a")), "n")
    desk.api.drive(desk.plugin.undo_pre_bind(*first))
    # Before the first pod is done, its claim is freed and promised devices for the second.
    desk.api.put(a_claim("a"))
    desk.reserve(a_pod("q", claims=using("a")), "n")
    desk.plugin.unreserve(*first)
    assert desk.verdicts(desk.pre_filter(a_pod("r", claims=using("b")))) == {"n": 2}


def test_withdrawing_a_promise_twice_changes_nothing():
    desk = one_gpu(a_claim("a"))
    demand, placement = desk.reserve(a_pod(claims=using("a")), "n")
    assert desk.world.devices.allocated_devices.unshared
    desk.plugin.unreserve(demand, placement)
    desk.plugin.unreserve(demand, placement)
    assert not desk.world.devices.allocated_devices.unshared
    assert desk.verdicts(desk.pre_filter(a_pod(claims=using("a")))) == {"n": 0}


def test_D025_a_selector_error_on_one_of_two_nodes_keeps_the_pod_pending():
    class_ = a_device_class("gpu", selectors=['device.attributes["gpu.example.com"].healthy'])
    desk = Desk(
        a_node("n"), a_node("m"), class_, a_claim("a"),
        a_slice("n-gpu", node="n", devices=[a_device(attributes={"healthy": True})]),
        a_slice("m-gpu", node="m", devices=[a_device()]),
    )  # fmt: skip
    demand = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(demand) == {"n": 0, "m": Code.ERROR}
    words = "class gpu: selector #0: CEL runtime error: no such key: healthy"
    assert desk.reasons(demand, "m") == (words,)


def test_D043_a_search_over_its_limit_is_an_error():
    desk = one_gpu(a_claim("a", constraints=[{"matchAttribute": "a.com/x"}]), filterTimeout="1ns")
    demand = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(demand) == {"n": Code.ERROR}
    assert desk.reasons(demand, "n") == ("node n: timed out trying to allocate devices",)


def test_D043_the_reason_of_a_time_out_needs_no_second_search(monkeypatch):
    desk = one_gpu(a_claim("a", constraints=[{"matchAttribute": "a.com/x"}]), filterTimeout="1ns")
    demand = desk.pre_filter(a_pod(claims=using("a")))
    assert desk.verdicts(demand) == {"n": Code.ERROR}
    monkeypatch.setattr(Allocator, "solve_in_steps", None)
    assert desk.reasons(demand, "n") == ("node n: timed out trying to allocate devices",)


@pytest.fixture
def hard_cluster(monkeypatch):
    """Three nodes in different states, on each of which a search takes too long."""
    searched, solve = [], Allocator.solve_in_steps

    def noted(self, node, *rest):
        searched.append(node.name)
        return solve(self, node, *rest)

    monkeypatch.setattr(Allocator, "solve_in_steps", noted)
    desk = Desk(
        *(a_node(f"n{i}") for i in range(3)), a_device_class("gpu"),
        *(a_slice(f"n{i}-gpu", node=f"n{i}", devices=6 + i) for i in range(3)),
        a_claim("a", count=3, constraints=[{"matchAttribute": "a.com/x"}]),
        filterTimeout="50us",
    )  # fmt: skip
    return desk, searched


def test_D043_one_time_out_fails_the_pod_without_further_searches(hard_cluster):
    desk, searched = hard_cluster
    for _ in range(2):
        demand = desk.pre_filter(a_pod(claims=using("a")))
        assert set(desk.verdicts(demand).values()) == {Code.ERROR}
    assert searched == ["n0"]
    assert desk.reasons(demand, "n0") == ("node n0: timed out trying to allocate devices",)


def test_D043_the_nominated_node_is_searched_first(hard_cluster):
    desk, searched = hard_cluster
    desk.world.upsert(typed(a_slice("n2-gpu", node="n2", devices=1)))
    pod = a_pod(claims=using("a"))
    pod["status"] = {"nominatedNodeName": "n2"}
    demand = desk.pre_filter(pod)
    assert desk.verdicts(demand) == {"n0": Code.ERROR, "n1": Code.ERROR, "n2": Code.UNRESOLVABLE}
    assert searched == ["n2", "n0"]


def test_D034_nodes_with_earlier_alternatives_score_higher():
    wish = {
        "name": "r",
        "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu", "count": 2},
            {"name": "small", "deviceClassName": "gpu", "count": 1},
        ],
    }
    desk = Desk(
        a_node("n"), a_node("m"), a_device_class("gpu"), a_claim("a", requests=[wish]),
        a_slice("n-gpu", node="n", devices=1), a_slice("m-gpu", node="m", devices=2),
    )  # fmt: skip
    pod = a_pod(claims=using("a"))
    demand = desk.plugin.pre_filter(desk.pod_info(pod), desk.view(desk.pod_info(pod)))
    rows = np.array([desk.world.nodes.row_of[name] for name in ("n", "m")])
    raw = desk.plugin.score(demand, rows)
    assert raw.tolist() == [7, 8]
    assert desk.plugin.normalize_score(demand, rows, raw).tolist() == [87, 100]
    desk.bind(pod, "n")
    [claim] = desk.api.of_kind("ResourceClaim")
    [result] = claim["status"]["allocation"]["devices"]["results"]
    assert result["request"] == "r/small"


def extended(*objects, **options):
    return Desk(
        a_device_class("gpu", extendedResourceName=GPU),
        a_slice("n-gpu", node="n", devices=2),
        *objects,
        **options,
    )


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
    demand, placement = desk.reserve(pod, "n")
    with pytest.raises(HoldfastError, match="create claim for extended resources default/: no"):
        desk.api.drive(desk.plugin.pre_bind(demand, placement))
    desk.undo(demand, placement)
    assert not desk.world.devices.allocated_devices.unshared
    assert desk.verdicts(desk.pre_filter(pod)) == {"n": 0}


def test_D067_when_the_pod_cannot_be_told_the_special_claim_is_deleted():
    pod = a_pod(requests={GPU: "1"})
    desk = extended(a_node("n"), pod)
    desk.api.fail = lambda call: Unavailable("no") if "/pods/" in call.path else None
    demand, placement = desk.reserve(pod, "n")
    with pytest.raises(HoldfastError, match="update pod default/p ExtendedResourceClaimStatus: no"):
        desk.api.drive(desk.plugin.pre_bind(demand, placement))
    desk.undo(demand, placement)
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
    effect = desk.plugin.post_filter(waiting, None, None)
    assert effect.message == "deletion of ResourceClaim completed"
    for call in effect.calls:
        desk.api.carry_out(call)
    assert not desk.api.of_kind("ResourceClaim")
    desk.bind(pod, "n")
    assert len(desk.api.of_kind("ResourceClaim")) == 1


def test_D069_more_devices_than_a_claim_may_have_is_an_error_and_makes_no_claim():
    pod = a_pod(requests={GPU: "33"})
    desk = extended(a_node("n"), pod)
    demand = desk.pre_filter(pod)
    assert desk.verdicts(demand) == {"n": Code.ERROR}
    words = "number of requested devices 33 exceeds the claim limit of 32"
    assert words in desk.reasons(demand, "n")[0]
    assert not desk.api.of_kind("ResourceClaim")


def test_D070_a_claim_beside_a_resource_of_the_device_plugin_makes_no_special_claim():
    pod = a_pod(requests={GPU: "1"}, claims=using("a"))
    desk = extended(a_node("n", allocatable={GPU: "1"}), a_claim("a"), pod)
    desk.bind(pod, "n")
    assert [c["metadata"]["name"] for c in desk.api.of_kind("ResourceClaim")] == ["a"]


@pytest.mark.parametrize(
    ("devices", "on", "verdict"), [(1, True, Code.UNRESOLVABLE), (1, False, 0), (2, True, 0)]
)
@pytest.mark.parametrize("by_name", [False, True])
def test_a_pod_leaves_the_devices_of_a_pod_that_is_nominated_to_the_node(
    devices, on, verdict, by_name
):
    desk = Desk(
        a_node("n"),
        a_device_class("gpu", extendedResourceName=GPU),
        a_slice("n-gpu", node="n", devices=devices),
        a_claim("a"),
        a_claim("b"),
        preemptDevices=on,
    )
    nominated = a_pod("q", requests={GPU: "1"}) if by_name else a_pod("q", claims=using("b"))
    demand = desk.pre_filter(a_pod("p", claims=using("a")))
    row = desk.world.nodes.row_of["n"]
    change = PodChange(added={row: [desk.pod_info(nominated)]})
    rows = np.array([row])
    assert desk.plugin.filter(demand, rows).tolist() == [0]
    assert desk.plugin.filter(demand, rows, change).tolist() == [verdict]
    if verdict:
        assert desk.plugin.reasons(demand, row, change) == ("cannot allocate all claims",)


def test_reservations_that_hold_devices_are_refused_in_words():
    desk = one_gpu(a_claim("a"))
    pod = desk.world.pod_info(typed(a_pod(claims=using("a"))), is_reserve_pod=True)
    refusal = desk.plugin.pre_filter(pod, desk.view(pod))
    assert refusal.reasons == ("reservations of devices are not built yet",)


def test_the_error_of_the_nominated_node_is_reported_not_that_others_were_not_searched():
    world = World()
    rule = 'device.attributes["gpu.example.com"].cores > 4'
    for raw in (
        a_node("n1"), a_node("n2"), a_slice("n2-gpus", node="n2", devices=1),
        a_device_class("gpu"), a_claim("a", selectors=[rule]),
    ):  # fmt: skip
        world.upsert(typed(raw))
    pod = a_pod("p", claims=using("a")) | {"status": {"nominatedNodeName": "n2"}}
    profile = default_profiles()["default-scheduler"]
    found = feasible(profile, world.pod_info(typed(pod)), world, 0.0)
    assert "selector #0: CEL runtime error: no such key: cores" in found.message()
