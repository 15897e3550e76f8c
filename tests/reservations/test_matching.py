"""Which pods may use a reservation, and which reservations a pod may require."""

import pytest

from holdfast.api.scheme import RESERVATIONS
from holdfast.runtime.errors import Invalid
from holdfast.testing import a_namespace, typed
from reservations.objects import (
    PREFIX,
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    requested,
    running,
    status,
)

NO_MATCH = "node(s) no reservations match reservation affinity"
EXACT = f"{PREFIX}/exact-match-reservation"
IGNORED = f"{PREFIX}/reservation-ignored"
BY_LABEL = {"labelSelector": {"matchLabels": {"app": "x"}}}
X = {"app": "x"}


def controlled(name, namespace="default", uid="u"):
    refs = [{"apiVersion": "v1", "kind": "RC", "name": "c", "uid": uid, "controller": True}]
    return non_owner(name, namespace=namespace, metadata={"ownerReferences": refs})


async def test_R029_one_of_the_owners_must_match(cluster):
    owners = [{"object": {"name": "a"}}, BY_LABEL]
    await create_each(cluster, node(), held(cpu="8", owners=owners, allocate_once=False))
    await create_each(cluster, non_owner("a"), non_owner("b", labels=X), non_owner("c"))
    assert [await allocated_from(cluster, name) for name in "abc"] == ["r", "r", None]


async def test_R030_all_parts_of_an_owner_must_match(cluster):
    owners = [{"object": {"namespace": "ns1"}, **BY_LABEL}]
    await create_each(cluster, a_namespace("ns1"), a_namespace("ns2"), node())
    await create_each(cluster, held(cpu="8", owners=owners, allocate_once=False))
    await create_each(cluster, *[non_owner("p", namespace=ns, labels=X) for ns in ("ns1", "ns2")])
    assert [await allocated_from(cluster, "p", ns) for ns in ("ns1", "ns2")] == ["r", None]


async def test_R031_a_controller_owner_matches_in_its_namespace_only(cluster):
    owners = [{"controller": {"uid": "u", "namespace": "ns1"}}]
    await create_each(cluster, a_namespace("ns1"), a_namespace("ns2"), node())
    await create_each(cluster, held(cpu="8", owners=owners, allocate_once=False))
    await create_each(cluster, controlled("p", "ns1"), controlled("p", "ns2"))
    assert [await allocated_from(cluster, "p", ns) for ns in ("ns1", "ns2")] == ["r", None]


async def test_R032_an_empty_selector_matches_every_pod(cluster):
    await create_each(cluster, node(), held(owners=[{"labelSelector": {}}]), non_owner())
    assert await allocated_from(cluster, "stranger") == "r"


async def test_R032_a_malformed_selector_is_rejected_or_matches_no_pod(cluster):
    wrong = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    owners = [{"labelSelector": wrong}, BY_LABEL]
    with pytest.raises(Invalid, match=r"spec.owners\[0\].labelSelector"):
        await cluster.create(held(owners=owners))
    # An API server without Holdfast's validation may accept it.
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "1"}}
    await create_each(cluster, node())
    cluster.world.upsert(typed(held(owners=owners, status=status)))
    await create_each(cluster, non_owner(labels=X))
    assert await cluster.node_of("stranger") == "n1"
    assert await allocated_from(cluster, "stranger") is None


async def test_R033_affinity_selects_among_the_reservations_of_an_owner(cluster):
    await create_each(cluster, node(), held(labels={"type": "cpu"}))
    await create_each(cluster, owner(reservation_affinity={"reservationSelector": {"type": "gpu"}}))
    assert NO_MATCH in await cluster.why("owner")


async def test_R034_affinity_matches_the_labels_of_the_node_too(cluster):
    await create_each(cluster, node(labels={"zone": "a"}), held(labels={"type": "cpu"}))
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"reservationSelectorTerms": [term]}
    reservation_affinity = {
        "reservationSelector": {"type": "cpu"},
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }
    await create_each(cluster, owner(reservation_affinity=reservation_affinity))
    assert await allocated_from(cluster, "owner") == "r"


async def test_reservations_on_nodes_that_node_affinity_excludes_do_not_match(cluster):
    await create_each(
        cluster, node(), node("n2", labels={"disk": "ssd"}), held(template={"node": "n1"})
    )
    await create_each(cluster, owner(reservation_affinity="{}", node_selector={"disk": "ssd"}))
    message = await cluster.why("owner")
    assert NO_MATCH in message
    assert message.endswith("0 Reservation(s) matched owner total")


@pytest.mark.parametrize("reservation_affinity", ["{}", ""])
async def test_R035_an_empty_affinity_requires_a_reservation(cluster, reservation_affinity):
    await create_each(cluster, node(), owner("early", reservation_affinity=reservation_affinity))
    assert NO_MATCH in await cluster.why("early")
    await create_each(cluster, held())
    await cluster.advance(12)
    assert await allocated_from(cluster, "early") == "r"


async def test_R035_a_malformed_affinity_is_an_error(cluster):
    await create_each(cluster, node(), held(), owner(reservation_affinity="{name:"))
    assert await is_pending(cluster, "owner")
    conditions = (await cluster.pod("owner")).status.conditions
    found = next(c for c in conditions if c.type == "PodScheduled")
    assert found.reason == "SchedulerError"
    assert f"metadata.annotations[{PREFIX}/reservation-affinity]" in found.message


async def test_R036_a_name_overrides_taints_and_unschedulable(cluster):
    closed = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    await create_each(cluster, node(), held("r1", cpu="4", unschedulable=True, **closed))
    await create_each(
        cluster, held("r2", cpu="2"), owner(cpu="2", reservation_affinity={"name": "r1"})
    )
    assert await allocated_from(cluster, "owner") == "r1"


async def test_R037_a_reservation_chosen_by_name_must_still_have_the_pod_as_owner(cluster):
    await create_each(cluster, node(), held("r1"), non_owner(reservation_affinity={"name": "r1"}))
    assert NO_MATCH in await cluster.why("stranger")


async def test_R038_taints_of_a_reservation_must_be_tolerated(cluster):
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    await create_each(cluster, node(), held(cpu="8", taints=[taint], allocate_once=False))
    await create_each(cluster, owner("a", reservation_affinity="{}"), owner("plain"))
    assert NO_MATCH in await cluster.why("a")
    assert await allocated_from(cluster, "plain") is None
    tolerates = [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]
    await create_each(cluster, owner("b", reservation_affinity={"tolerations": tolerates}))
    await create_each(cluster, owner("c", tolerations=tolerates))
    assert [await allocated_from(cluster, name) for name in "bc"] == ["r", "r"]


async def test_R038_a_taint_with_effect_PreferNoSchedule_is_ignored(cluster):
    taint = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    await create_each(cluster, node(), held(taints=[taint]), owner(reservation_affinity="{}"))
    assert await allocated_from(cluster, "owner") == "r"


async def test_R039_unschedulable_keeps_present_owners_and_accepts_no_new_ones(cluster):
    await create_each(cluster, node(), held(cpu="8", allocate_once=False), owner("inside"))
    await cluster.client.patch(RESERVATIONS, "r", {"spec": {"unschedulable": True}})
    await cluster.settle()
    await create_each(cluster, owner("late"))
    assert await cluster.node_of("late") == "n1"
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["inside"])
    tolerates = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    await create_each(cluster, owner("tolerant", reservation_affinity={"tolerations": tolerates}))
    assert await allocated_from(cluster, "tolerant") == "r"


async def test_R040_an_exact_match_requires_equal_amounts(cluster):
    exactly = {EXACT: '{"resourceNames":["cpu"]}'}
    await create_each(cluster, node(), held(cpu="4"))
    await create_each(
        cluster, owner("three", cpu="3", annotations=exactly, reservation_affinity="{}")
    )
    assert NO_MATCH in await cluster.why("three")
    assert "1 Reservation(s) is not exact matched" in await cluster.why("three")
    await create_each(cluster, owner("four", cpu="4", annotations=exactly))
    assert await allocated_from(cluster, "four") == "r"


async def test_an_affinity_has_a_limited_number_of_requirements(cluster):
    """Each is compared with each reservation that the pod owns."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [f"{i}"]}] * 8}
             for i in range(33)]  # fmt: skip
    selected = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": terms}
    }
    await cluster.create(node(), held(), owner(reservation_affinity=selected))
    at = f"metadata.annotations[{PREFIX}/reservation-affinity]"
    assert await cluster.node_of("owner") == ""
    assert f"{at}: Too many: 264: must have at most 256 items" in await cluster.why("owner")
    fewer = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": terms[1:]}
    }
    await cluster.create(owner("fewer", reservation_affinity=fewer))
    assert await cluster.node_of("fewer") == "n1"


async def test_a_malformed_exact_match_does_not_match_everything(cluster):
    await create_each(cluster, node(), held(cpu="4"))
    wrong = {EXACT: '{"resourceNames":"cpu"}'}
    for pod in (owner(annotations=wrong), non_owner(annotations=wrong)):
        await create_each(cluster, pod)
        message = await cluster.why(pod["metadata"]["name"])
        assert f"metadata.annotations[{EXACT}]: Expected `array | null`" in message
    await create_each(cluster, non_owner("ignores", annotations=wrong, labels={IGNORED: "true"}))
    assert await cluster.node_of("ignores") == "n1"


async def test_R041_a_pod_that_ignores_reservations_uses_reserved_resources(cluster):
    await create_each(cluster, node(), held(cpu="4"), running("12"))
    await create_each(cluster, owner("ignores", cpu="4", labels={IGNORED: "true"}))
    assert await cluster.node_of("ignores") == "n1"
    assert await allocated_from(cluster, "ignores") is None
    assert await status(cluster) == ("Available", {}, [])
    assert requested(cluster) == 20_000
    # The resources are used now, so the owner does not fit.
    await create_each(cluster, owner(cpu="4"))
    assert "1 Insufficient cpu by node" in await cluster.why("owner")


async def test_a_pod_that_ignores_reservations_still_needs_a_pod_slot(cluster):
    await create_each(cluster, node(pods="2"), held(cpu="4"), running("12"))
    await create_each(cluster, non_owner("big", cpu="5", labels={IGNORED: "true"}))
    assert "1 Insufficient cpu." in await cluster.why("big")
    await create_each(cluster, non_owner("fits", cpu="1", labels={IGNORED: "true"}))
    await create_each(cluster, non_owner("late", cpu="1", labels={IGNORED: "true"}))
    assert await cluster.node_of("fits") == "n1"
    assert "1 Too many pods" in await cluster.why("late")


async def test_R071_a_reservation_bound_by_another_scheduler_is_counted(cluster):
    theirs = {"schedulerName": "other"}
    await create_each(cluster, node(), held(cpu="12", template=theirs, allocate_once=False))
    assert (await cluster.reservation("r")).phase == "Pending"
    bound = {"status": {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "12"}}}
    await cluster.client.patch(RESERVATIONS, "r", bound, subresource="status")
    await cluster.settle()
    assert requested(cluster) == 12_000
    await create_each(cluster, non_owner(cpu="5"), owner(cpu="8"))
    assert await is_pending(cluster, "stranger")
    assert await allocated_from(cluster, "owner") == "r"


async def test_a_terminating_reservation_cannot_be_chosen_by_name(cluster):
    await create_each(cluster, node(), held(cpu="4", metadata={"finalizers": ["example.com/kept"]}))
    await cluster.delete(RESERVATIONS, "r")
    await create_each(cluster, owner(cpu="2", reservation_affinity={"name": "r"}))
    assert await is_pending(cluster, "owner")
    assert "1 Reservation(s) is unschedulable" in await cluster.why("owner")
    assert requested(cluster) == 4000
