"""Who may use a reservation, and which reservation a pod wants."""

import pytest

from holdfast.api.scheme import RESERVATIONS
from holdfast.errors import Invalid
from holdfast.testing import a_namespace, typed
from reservations.rooms import (
    PREFIX,
    drawn_from,
    filler,
    given,
    held,
    node,
    owner,
    requested,
    status,
    stranger,
    waits,
)

NO_MATCH = "node(s) no reservations match reservation affinity"
EXACT = f"{PREFIX}/exact-match-reservation"
IGNORED = f"{PREFIX}/reservation-ignored"
BY_LABEL = {"labelSelector": {"matchLabels": {"app": "x"}}}
X = {"app": "x"}


def controlled(name, namespace="default", uid="u"):
    refs = [{"apiVersion": "v1", "kind": "RC", "name": "c", "uid": uid, "controller": True}]
    return stranger(name, namespace=namespace, metadata={"ownerReferences": refs})


async def test_R029_any_of_the_owners_will_do(cluster):
    owners = [{"object": {"name": "a"}}, BY_LABEL]
    await given(cluster, node(), held(cpu="8", owners=owners, allocate_once=False))
    await given(cluster, stranger("a"), stranger("b", labels=X), stranger("c"))
    assert [await drawn_from(cluster, name) for name in "abc"] == ["r", "r", None]


async def test_R030_all_of_one_owner_must_match(cluster):
    owners = [{"object": {"namespace": "ns1"}, **BY_LABEL}]
    await given(cluster, a_namespace("ns1"), a_namespace("ns2"), node())
    await given(cluster, held(cpu="8", owners=owners, allocate_once=False))
    await given(cluster, *[stranger("p", namespace=ns, labels=X) for ns in ("ns1", "ns2")])
    assert [await drawn_from(cluster, "p", ns) for ns in ("ns1", "ns2")] == ["r", None]


async def test_R031_a_controller_is_one_of_its_namespace(cluster):
    owners = [{"controller": {"uid": "u", "namespace": "ns1"}}]
    await given(cluster, a_namespace("ns1"), a_namespace("ns2"), node())
    await given(cluster, held(cpu="8", owners=owners, allocate_once=False))
    await given(cluster, controlled("p", "ns1"), controlled("p", "ns2"))
    assert [await drawn_from(cluster, "p", ns) for ns in ("ns1", "ns2")] == ["r", None]


async def test_R032_an_empty_selector_means_everybody(cluster):
    await given(cluster, node(), held(owners=[{"labelSelector": {}}]), stranger())
    assert await drawn_from(cluster, "stranger") == "r"


async def test_R032_a_malformed_selector_is_refused_or_means_nobody(cluster):
    wrong = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    owners = [{"labelSelector": wrong}, BY_LABEL]
    with pytest.raises(Invalid, match=r"spec.owners\[0\].labelSelector"):
        await cluster.create(held(owners=owners))
    # A server that does not know us may have let it pass.
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "1"}}
    await given(cluster, node())
    cluster.world.upsert(typed(held(owners=owners, status=status)))
    await given(cluster, stranger(labels=X))
    assert await cluster.node_of("stranger") == "n1"
    assert await drawn_from(cluster, "stranger") is None


async def test_R033_affinity_selects_among_the_reservations_of_an_owner(cluster):
    await given(cluster, node(), held(labels={"type": "cpu"}))
    await given(cluster, owner(wish={"reservationSelector": {"type": "gpu"}}))
    assert NO_MATCH in await cluster.why("owner")


async def test_R034_affinity_sees_the_labels_of_the_node_too(cluster):
    await given(cluster, node(labels={"zone": "a"}), held(labels={"type": "cpu"}))
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"reservationSelectorTerms": [term]}
    wish = {
        "reservationSelector": {"type": "cpu"},
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }
    await given(cluster, owner(wish=wish))
    assert await drawn_from(cluster, "owner") == "r"


async def test_reservations_on_nodes_a_pod_may_not_go_to_are_none_of_its(cluster):
    await given(cluster, node(), node("n2", labels={"disk": "ssd"}), held(template={"node": "n1"}))
    await given(cluster, owner(wish="{}", node_selector={"disk": "ssd"}))
    told = await cluster.why("owner")
    assert NO_MATCH in told
    assert told.endswith("0 Reservation(s) matched owner total")


@pytest.mark.parametrize("wish", ["{}", ""])
async def test_R035_affinity_alone_makes_a_reservation_a_must(cluster, wish):
    await given(cluster, node(), owner("early", wish=wish))
    assert NO_MATCH in await cluster.why("early")
    await given(cluster, held())
    await cluster.advance(12)
    assert await drawn_from(cluster, "early") == "r"


async def test_R035_an_affinity_that_cannot_be_read_is_an_error(cluster):
    await given(cluster, node(), held(), owner(wish="{name:"))
    assert await waits(cluster, "owner")
    conditions = (await cluster.pod("owner")).status.conditions
    found = next(c for c in conditions if c.type == "PodScheduled")
    assert found.reason == "SchedulerError"
    assert f"metadata.annotations[{PREFIX}/reservation-affinity]" in found.message


async def test_R036_by_name_it_is_that_one_whatever_it_says(cluster):
    closed = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    await given(cluster, node(), held("r1", cpu="4", unschedulable=True, **closed))
    await given(cluster, held("r2", cpu="2"), owner(cpu="2", wish={"name": "r1"}))
    assert await drawn_from(cluster, "owner") == "r1"


async def test_R037_by_name_it_must_still_be_ones_own(cluster):
    await given(cluster, node(), held("r1"), stranger(wish={"name": "r1"}))
    assert NO_MATCH in await cluster.why("stranger")


async def test_R038_taints_of_a_reservation_must_be_tolerated(cluster):
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    await given(cluster, node(), held(cpu="8", taints=[taint], allocate_once=False))
    await given(cluster, owner("a", wish="{}"), owner("plain"))
    assert NO_MATCH in await cluster.why("a")
    assert await drawn_from(cluster, "plain") is None
    tolerates = [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]
    await given(cluster, owner("b", wish={"tolerations": tolerates}))
    await given(cluster, owner("c", tolerations=tolerates))
    assert [await drawn_from(cluster, name) for name in "bc"] == ["r", "r"]


async def test_R038_a_taint_that_only_prefers_is_ignored(cluster):
    taint = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    await given(cluster, node(), held(taints=[taint]), owner(wish="{}"))
    assert await drawn_from(cluster, "owner") == "r"


async def test_R039_unschedulable_closes_the_door_behind_the_owners_inside(cluster):
    await given(cluster, node(), held(cpu="8", allocate_once=False), owner("inside"))
    await cluster.client.patch(RESERVATIONS, "r", {"spec": {"unschedulable": True}})
    await cluster.settle()
    await given(cluster, owner("late"))
    assert await cluster.node_of("late") == "n1"
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["inside"])
    tolerates = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    await given(cluster, owner("tolerant", wish={"tolerations": tolerates}))
    assert await drawn_from(cluster, "tolerant") == "r"


async def test_R040_an_exact_match_is_exact(cluster):
    exactly = {EXACT: '{"resourceNames":["cpu"]}'}
    await given(cluster, node(), held(cpu="4"))
    await given(cluster, owner("three", cpu="3", annotations=exactly, wish="{}"))
    assert NO_MATCH in await cluster.why("three")
    assert "1 Reservation(s) is not exact matched" in await cluster.why("three")
    await given(cluster, owner("four", cpu="4", annotations=exactly))
    assert await drawn_from(cluster, "four") == "r"


async def test_an_exact_match_that_cannot_be_read_is_no_wish_for_anything(cluster):
    await given(cluster, node(), held(cpu="4"))
    wrong = {EXACT: '{"resourceNames":"cpu"}'}
    for pod in (owner(annotations=wrong), stranger(annotations=wrong)):
        await given(cluster, pod)
        told = await cluster.why(pod["metadata"]["name"])
        assert f"metadata.annotations[{EXACT}]: Expected `array | null`" in told
    await given(cluster, stranger("ignores", annotations=wrong, labels={IGNORED: "true"}))
    assert await cluster.node_of("ignores") == "n1"


async def test_R041_who_ignores_reservations_stands_in_them(cluster):
    await given(cluster, node(), held(cpu="4"), filler("12"))
    await given(cluster, owner("ignores", cpu="4", labels={IGNORED: "true"}))
    assert await cluster.node_of("ignores") == "n1"
    assert await drawn_from(cluster, "ignores") is None
    assert await status(cluster) == ("Available", {}, [])
    assert requested(cluster) == 20_000
    # The room is not there twice: its owner waits.
    await given(cluster, owner(cpu="4"))
    assert "1 Insufficient cpu by node" in await cluster.why("owner")


async def test_who_ignores_reservations_still_needs_a_place_to_stand(cluster):
    await given(cluster, node(pods="2"), held(cpu="4"), filler("12"))
    await given(cluster, stranger("big", cpu="5", labels={IGNORED: "true"}))
    assert "1 Insufficient cpu." in await cluster.why("big")
    await given(cluster, stranger("fits", cpu="1", labels={IGNORED: "true"}))
    await given(cluster, stranger("late", cpu="1", labels={IGNORED: "true"}))
    assert await cluster.node_of("fits") == "n1"
    assert "1 Too many pods" in await cluster.why("late")


async def test_R071_a_reservation_of_another_scheduler_is_accounted(cluster):
    theirs = {"schedulerName": "other"}
    await given(cluster, node(), held(cpu="12", template=theirs, allocate_once=False))
    assert (await cluster.reservation("r")).phase == "Pending"
    bound = {"status": {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "12"}}}
    await cluster.client.patch(RESERVATIONS, "r", bound, subresource="status")
    await cluster.settle()
    assert requested(cluster) == 12_000
    await given(cluster, stranger(cpu="5"), owner(cpu="8"))
    assert await waits(cluster, "stranger")
    assert await drawn_from(cluster, "owner") == "r"


async def test_a_terminating_reservation_is_not_given_to_who_asks_for_it_by_name(cluster):
    await given(cluster, node(), held(cpu="4", metadata={"finalizers": ["example.com/kept"]}))
    await cluster.delete(RESERVATIONS, "r")
    await given(cluster, owner(cpu="2", wish={"name": "r"}))
    assert await waits(cluster, "owner")
    assert "1 Reservation(s) is unschedulable" in await cluster.why("owner")
    assert requested(cluster) == 4000
