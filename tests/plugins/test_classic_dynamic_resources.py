"""ClassicDynamicResources: which pods wait, which nodes fit, what is written."""

import pytest

from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.runtime.errors import Conflict, Unavailable
from holdfast.scheduling.framework.plugin import Code, Skip
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    a_pod_scheduling,
    an_allocation,
    inline,
    named,
    on_nodes,
)
from plugins.classic_desk import OTHER, RELEASING, Desk, a_claim_pod, a_desk


def test_C076_a_pod_without_classic_claims_is_skipped():
    desk = a_desk()
    for pod in (a_pod("p"), a_pod("q", claims=[{"name": "x", "resourceClaimName": "x"}])):
        assert isinstance(desk.pre_filter(pod), Skip)
        assert desk.plugin.pre_enqueue(desk.pod_info(pod), desk.view(pod)) is None
    assert desk.api.calls == []


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, 'waiting for resourceclaim "c" to be created'),
        (
            a_classic_claim("c", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}),
            'resourceclaim "c" is being deleted',
        ),
        (a_classic_claim("c", immediate=True), "unallocated immediate resourceclaim"),
        (
            a_classic_claim("c", status=an_allocation() | RELEASING),
            "resourceclaim must be reallocated",
        ),
        (a_classic_claim("c", status=an_allocation(consumers=[OTHER])), "resourceclaim in use"),
        (
            a_classic_claim("c", of_class="unknown"),
            'resourceclass "unknown" of resourceclaim "c" does not exist',
        ),
    ],
)
def test_C024_C041_a_pod_waits_until_its_claim_can_be_used(claim, reason):
    desk = a_desk(*filter(None, [claim]))
    assert desk.why_waiting(a_claim_pod("c")) == reason


def test_an_inline_claim_must_be_the_pods_own():
    pod = a_pod("p", claims=[inline("x")])
    desk = a_desk(a_classic_claim("p-x", owner=OTHER))
    rejected = desk.plugin.pre_enqueue(desk.pod_info(pod), desk.view(pod))
    assert "was not created for pod" in rejected.reasons[0]
    desk = a_desk(a_classic_claim("p-x", owner=pod))
    assert desk.plugin.pre_enqueue(desk.pod_info(pod), desk.view(pod)) is None


def test_an_annotation_that_cannot_be_read_is_named():
    pod = a_pod("p", annotations={POD_CLAIMS: "{"})
    assert POD_CLAIMS in a_desk().why_waiting(pod)


def test_a_cluster_that_serves_no_classic_claims_says_so():
    desk = a_desk()
    desk.ledger.resources = None
    assert "install deploy/crds" in desk.why_waiting(a_claim_pod("c"))


def test_a_reservation_with_classic_claims_is_refused():
    desk = a_desk(a_classic_claim("c"))
    info = desk.world.pod_info(typed(a_claim_pod("c")), is_reserve_pod=True)
    rejected = desk.plugin.pre_filter(info, desk.view(a_claim_pod("c")))
    assert "reservations of classic claims are not supported" in rejected.reasons[0]


def test_C023_nodes_are_rejected_by_allocation_class_and_driver():
    pod = a_claim_pod("allocated", "pending")
    desk = a_desk(
        a_node("n4"),
        a_classic_class(suitable=on_nodes("n1", "n2", "n3")),
        a_classic_claim("allocated", status=an_allocation("n1", "n2", "n4")),
        a_classic_claim("pending"),
        a_pod_scheduling(pod, pending=["n2", "not-a-node"]),
    )
    assert desk.reasons(pod) == {
        "n1": "",
        "n2": "resourceclaim cannot be allocated for the node (unsuitable)",
        "n3": "resourceclaim not available on the node",
        "n4": "excluded by resource class node filter",
    }


def test_C025_a_single_delayed_claim_selects_the_node_at_once():
    pod = a_claim_pod("c")
    desk = a_desk(a_classic_claim("c"))
    ended = desk.attempt(pod, "n2").ended
    assert (ended.code, ended.reasons) == (
        Code.PENDING,
        ("waiting for resource driver to allocate resource",),
    )
    assert desk.spec_of(pod) == {"selectedNode": "n2", "potentialNodes": ["n1", "n2", "n3"]}
    assert len(desk.api.calls) == 1
    # Nothing has changed: nothing is written, and the node stays.
    assert desk.attempt(pod, "n3").ended == ended
    assert len(desk.api.calls) == 1


def test_C026_two_delayed_claims_select_no_node_until_both_are_answered():
    pod = a_claim_pod("a", "b")
    desk = a_desk(a_classic_claim("a"), a_classic_claim("b"))
    ended = desk.attempt(pod, "n1").ended
    assert ended.reasons == ("waiting for resource driver to provide information",)
    assert desk.spec_of(pod) == {"potentialNodes": ["n1", "n2", "n3"]}
    nodes = ["n1", "n2", "n3"]
    desk.put(a_pod_scheduling(pod, potential=nodes, a=[]))
    assert desk.attempt(pod, "n1").ended.reasons == ended.reasons
    desk.put(a_pod_scheduling(pod, potential=nodes, a=[], b=["n1"]))
    ended = desk.attempt(pod, "n2").ended
    assert ended.reasons == ("waiting for resource driver to allocate resource",)
    assert desk.spec_of(pod)["selectedNode"] == "n2"


def test_C027_C029_potential_nodes_are_those_that_fit():
    pod = a_claim_pod("c")
    desk = a_desk(a_classic_class(suitable=on_nodes("n2")), a_classic_claim("c"))
    desk.attempt(pod, "n2")
    assert desk.spec_of(pod) == {"selectedNode": "n2", "potentialNodes": ["n2"]}
    # A list is kept if it has all nodes that fit, unless the class excludes one of it by now.
    desk = a_desk(
        a_classic_claim("c"), a_pod_scheduling(pod, potential=["n1", "n2", "n3"], c=["n1"])
    )
    desk.attempt(pod, "n2")
    assert desk.spec_of(pod)["potentialNodes"] == ["n1", "n2", "n3"]
    desk.put(a_classic_class(suitable=on_nodes("n2", "n3")))
    desk.attempt(pod, "n2")
    assert desk.spec_of(pod)["potentialNodes"] == ["n2", "n3"]


def test_C028_of_300_nodes_256_are_listed_sorted():
    pod = a_claim_pod("c")
    many = [a_node(f"m{i}") for i in range(300)]
    desk = Desk(*many, a_classic_class(), a_classic_claim("c"))
    desk.attempt(pod, "m7")
    listed = desk.spec_of(pod)["potentialNodes"]
    assert len(listed) == len(set(listed)) == 256
    assert listed == sorted(listed)
    desk.attempt(pod, "m7")
    assert desk.spec_of(pod)["potentialNodes"] == listed
    other = a_claim_pod("c", name="q")
    desk.attempt(other, "m7")
    assert desk.spec_of(other)["potentialNodes"] != listed
    # One of them is gone: drivers are asked about 256 others.
    gone = next(name for name in listed if name != "m7")
    desk.world.delete(typed(a_node(gone)))
    desk.attempt(pod, "m7")
    listed = desk.spec_of(pod)["potentialNodes"]
    assert len(set(listed)) == 256 and listed == sorted(listed)
    assert gone not in listed


def test_pods_that_wait_for_drivers_select_different_nodes():
    desk = Desk(*(a_node(f"n{i}") for i in range(3)), a_classic_class())
    for i in range(6):
        desk.put(a_classic_claim(f"c{i}"))
        pod = a_pod(f"p{i}", claims=[named("gpu", f"c{i}")])
        desk.put(pod)
        scores = desk.scores(pod)
        desk.attempt(pod, max(sorted(scores), key=scores.get))
    selected = [found.spec.selected_node for found in desk.ledger.pod_schedulings]
    assert sorted(selected) == ["n0", "n0", "n1", "n1", "n2", "n2"]
    desk.world.delete(typed(a_node("n1")))
    fork = desk.world.fork()
    assert fork.classic.selected_nodes.column().tolist() == (
        desk.ledger.selected_nodes.column().tolist()
    )


def test_C030_an_unsuitable_selected_node_is_replaced():
    pod = a_claim_pod("c")
    desk = a_desk(a_classic_claim("c"))
    desk.attempt(pod, "n1")
    before = a_pod_scheduling(pod, selected="n1", potential=["n1", "n2", "n3"])
    after = a_pod_scheduling(pod, selected="n1", potential=["n1", "n2", "n3"], c=["n1"])
    assert desk.hint(pod, "PodScheduling", before, after) == "IMMEDIATELY"
    desk.put(after)
    desk.attempt(pod, "n3")
    assert desk.spec_of(pod)["selectedNode"] == "n3"


def test_C032_C033_a_claim_on_a_wrong_node_is_released_after_the_selection_is_cleared():
    pod = a_claim_pod("a", "b")
    desk = a_desk(
        a_classic_claim("a", status=an_allocation("n1", consumers=[pod])),
        a_classic_claim("b"),
        a_pod_scheduling(pod, selected="n1", potential=["n1"], b=["n1", "n3"]),
    )
    result = desk.reject(pod)
    assert result.code is Code.UNRESOLVABLE
    assert [call.path.split("/")[-2] for call in desk.api.calls] == ["podschedulings", "a"]
    assert "selectedNode" not in desk.spec_of(pod)
    assert desk.claim("a")["status"]["deallocationRequested"] is True
    assert desk.consumers("a") == []
    assert desk.why_waiting(pod) == "resourceclaim must be reallocated"
    assert desk.reject(pod).calls == ()


def test_C034_one_of_several_candidates_is_chosen_at_random():
    pod = a_claim_pod("a", "b", "c")
    chosen = set()
    for seed in range(20):
        desk = a_desk(*[
            a_classic_claim(name, status=an_allocation(f"n{i}"))
            for i, name in enumerate("abc", 1)
        ])  # fmt: skip
        desk.reject(pod, seed)
        releasing = [
            name for name in "abc" if desk.claim(name)["status"].get("deallocationRequested")
        ]
        assert len(releasing) == 1
        chosen.update(releasing)
    assert chosen == {"a", "b", "c"}


@pytest.mark.parametrize(
    "stuck",
    [
        a_classic_claim("a", immediate=True, status=an_allocation("n1")),
        a_classic_claim("a", status=an_allocation("n1", shared=True, consumers=[OTHER])),
    ],
)
def test_C035_immediate_and_used_claims_are_never_released(stuck):
    pod = a_claim_pod("a", "b")
    desk = a_desk(
        stuck,
        a_classic_claim("b"),
        a_pod_scheduling(pod, b=["n1"]),
    )
    result = desk.reject(pod)
    assert (result.calls, result.message) == ((), "still not schedulable")


def test_a_claim_is_not_released_where_another_cannot_be_allocated():
    pod = a_claim_pod("a", "b")
    desk = a_desk(
        a_classic_claim("a", status=an_allocation("n1")),
        a_classic_claim("b"),
        a_pod_scheduling(pod, b=["n1", "n2", "n3"]),
    )
    assert desk.reject(pod).calls == ()


def test_a_pod_gives_up_its_own_claim_if_there_is_no_room_for_another():
    pod = a_pod("p", claims=[inline("a"), inline("b")])
    desk = a_desk(
        a_classic_claim("p-a", owner=pod, status=an_allocation("n1", consumers=[pod])),
        a_classic_claim("p-b", owner=pod),
        a_pod_scheduling(pod, b=["n1", "n2", "n3"]),
    )
    desk.reject(pod)
    assert desk.claim("p-a")["status"]["deallocationRequested"] is True


def test_C036_a_pod_that_cannot_run_gives_its_claims_back():
    first, second = a_claim_pod("a", "b", name="first"), a_claim_pod("a", "b", name="second")
    desk = a_desk(
        a_classic_claim("a", status=an_allocation(consumers=[first])),
        a_classic_claim("b", status=an_allocation(consumers=[second])),
    )
    assert desk.why_waiting(first) == "resourceclaim in use"
    desk.reject(first)
    assert (desk.consumers("a"), desk.consumers("b")) == ([], ["second"])
    assert desk.attempt(second, "n1").ended is None
    assert (desk.consumers("a"), desk.consumers("b")) == (["second"], ["second"])


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["d/x"]}


@pytest.mark.parametrize("owned", [False, True], ids=["named", "inline"])
def test_claims_under_deletion_are_given_back_by_a_pod_that_waits(owned):
    pod = a_pod("p", claims=[inline("x"), named("c")]) if owned else a_claim_pod("x", "c")
    name, owner = ("p-x", pod) if owned else ("x", None)
    held = an_allocation(consumers=[pod])
    deleted = a_classic_claim(name, owner=owner, status=held, metadata=DELETED)
    desk = a_desk(deleted, a_classic_claim("c", status=held))
    before = a_classic_claim(name, owner=owner, status=held)
    assert desk.hint(pod, "ClassicResourceClaim", before, deleted) == "IMMEDIATELY"
    assert desk.hint(pod, "ClassicResourceClaim", deleted, deleted) == "SKIP"
    assert desk.plugin.pre_enqueue(desk.pod_info(pod), desk.view(pod)) is None
    assert "is being deleted" in desk.why_waiting(pod)
    desk.reject(pod)
    assert (desk.consumers(name), desk.consumers("c")) == ([], [])
    assert desk.plugin.pre_enqueue(desk.pod_info(pod), desk.view(pod)) is not None


def test_claims_are_given_back_before_the_pod_waits_for_drivers():
    pod = a_claim_pod("a", "b")
    desk = a_desk(a_classic_claim("a", status=an_allocation(consumers=[pod])), a_classic_claim("b"))
    assert desk.attempt(pod, "n1").ended.code is Code.PENDING
    assert desk.consumers("a") == []


def test_an_own_claim_is_kept_while_the_pod_waits():
    pod = a_pod("p", claims=[inline("a"), inline("b")])
    desk = a_desk(
        a_classic_claim("p-a", owner=pod, status=an_allocation(consumers=[pod])),
        a_classic_claim("p-b", owner=pod),
    )
    desk.attempt(pod, "n1")
    assert desk.consumers("p-a") == ["p"]


def test_claims_are_reserved_in_the_order_of_their_uids():
    pod = a_claim_pod("a", "b", "c")
    desk = a_desk(*[
        a_classic_claim(name, status=an_allocation(), metadata={"uid": uid})
        for name, uid in (("a", "3"), ("b", "1"), ("c", "2"))
    ])  # fmt: skip
    assert desk.attempt(pod, "n1").ended is None
    assert [call.path.split("/")[-2] for call in desk.api.calls] == ["b", "c", "a"]
    assert desk.consumers("a") == ["p"]


@pytest.mark.parametrize(
    ("by_then", "message", "consumers", "waits_for"),
    [
        (an_allocation(consumers=[OTHER]), "in use by now", ["other"], "resourceclaim in use"),
        (an_allocation("n2"), "allocated anew", [], None),
    ],
    ids=["reserved", "moved"],
)
def test_C037_a_claim_that_another_scheduler_changed_first_is_a_conflict(
    by_then, message, consumers, waits_for
):
    """Also after a release: the pod's node was chosen for the allocation of before."""
    pod = a_claim_pod("c")
    desk = a_desk(a_classic_claim("c", status=an_allocation()))
    raced = []

    def other_scheduler(call):
        if call.verb == "patch" and not raced:
            raced.append(call)
            desk.api.world = None  # our watch is late
            desk.put(a_classic_claim("c", status=by_then))
            desk.api.world = desk.world
            return Conflict("the object has been modified")
        return None

    desk.api.fail = other_scheduler
    with pytest.raises(Exception, match=message):
        desk.attempt(pod, "n1")
    assert desk.consumers("c") == consumers
    if waits_for:
        assert desk.why_waiting(pod) == waits_for


def test_C038_a_shared_claim_is_reserved_for_several_pods():
    desk = a_desk(a_classic_claim("c", status=an_allocation(shared=True)))
    for name in ("p", "q", "r"):
        assert desk.attempt(a_claim_pod("c", name=name), "n1").ended is None
    assert desk.consumers("c") == ["p", "q", "r"]


def test_an_exclusive_claim_is_in_use_while_its_reservation_is_written():
    desk = a_desk(a_classic_claim("c", status=an_allocation()))
    claim = desk.pre_filter(a_claim_pod("c")).claims[0].claim
    desk.ledger.add_in_flight(claim, "uid-of-another")
    rejected = desk.pre_filter(a_claim_pod("c"))
    assert (rejected.reasons, rejected.retry_at) == (("resourceclaim in use",), 1.0)
    desk.ledger.remove_in_flight(claim, "uid-of-another")
    assert desk.attempt(a_claim_pod("c"), "n1").ended is None


def test_C040_a_failed_bind_removes_the_reservation():
    pod = a_claim_pod("c")
    desk = a_desk(a_classic_claim("c", status=an_allocation()))
    attempt = desk.attempt(pod, "n1")
    assert desk.consumers("c") == ["p"]
    desk.api.drive(attempt.plan.undo_pre_bind(attempt.placement))
    desk.api.drive(attempt.plan.undo_pre_bind(attempt.placement))
    assert desk.consumers("c") == []


def test_C042_a_negotiation_of_an_earlier_pod_is_replaced():
    old, pod = a_claim_pod("c", metadata={"uid": "old"}), a_claim_pod("c")
    desk = a_desk(a_classic_claim("c"), a_pod_scheduling(old, selected="n3", c=["n1"]))
    assert desk.reasons(pod)["n1"] == ""
    desk.attempt(pod, "n1")
    assert [call.verb for call in desk.api.calls] == ["delete", "create"]
    assert desk.api.calls[0].body["preconditions"]["uid"]
    assert desk.spec_of(pod)["selectedNode"] == "n1"


def test_the_negotiation_of_a_bound_pod_is_deleted_once():
    pod = a_claim_pod("c")
    desk = a_desk(
        a_classic_claim("c", status=an_allocation("n1", consumers=[pod])),
        a_pod_scheduling(pod, selected="n1"),
    )
    attempt = desk.attempt(pod, "n1")
    assert desk.api.calls == []
    for _ in range(2):
        desk.api.drive(attempt.plan.post_bind(attempt.placement))
    assert [call.verb for call in desk.api.calls] == ["delete"]
    assert desk.spec_of(pod) is None


def test_the_deletion_of_a_negotiation_is_tried_again():
    pod = a_claim_pod("c")
    desk = a_desk(
        a_classic_claim("c", status=an_allocation("n1", consumers=[pod])), a_pod_scheduling(pod)
    )
    attempt = desk.attempt(pod, "n1")
    faults = [Unavailable("not now"), Unavailable("nor now")]
    desk.api.fail = lambda _call: faults.pop() if faults else None
    desk.api.drive(attempt.plan.post_bind(attempt.placement))
    assert desk.spec_of(pod) is None


def test_the_explanation_says_what_drivers_answered():
    pod = a_claim_pod("a", "b")
    desk = a_desk(
        a_classic_claim("a", status=an_allocation("n1")),
        a_classic_claim("b"),
        a_pod_scheduling(pod, selected="n1", potential=["n1", "n2"], b=["n2"]),
    )
    found = desk.pre_filter(pod).explain(desk.world.nodes.rows)
    assert found["negotiation"] == {"selectedNode": "n1", "potentialNodes": ["n1", "n2"]}
    assert found["nodes"] == {
        "n1": {},
        "n2": {
            "a": "resourceclaim not available on the node",
            "b": "resourceclaim cannot be allocated for the node (unsuitable)",
        },
        "n3": {"a": "resourceclaim not available on the node"},
    }
    [a, b] = found["claims"]
    assert (a["state"], a["answered"]) == ("Allocated", False)
    assert (b["state"], b["driver"], b["unsuitableNodes"]) == ("Pending", "gpu.example.com", ["n2"])
