"""Affinity, anti-affinity and spread count reserve pods, except for their owners."""

from collections import Counter

from holdfast.api.scheme import PODS
from reservations.objects import (
    allocated_from,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    running,
    status,
)

HOST = "kubernetes.io/hostname"
FAR = "didn't match pod anti-affinity rules"
SHUNNED = "didn't satisfy existing pods anti-affinity rules"


def term(labels, key=HOST):
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}


def near(labels):
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term(labels)]}
    return {"podAffinity": rule}


def far(labels):
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term(labels)]}
    return {"podAntiAffinity": rule}


def evenly(labels, skew=1, key=HOST):
    return [
        {
            "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
    ]  # fmt: skip


def three_nodes():
    return [node(f"n{i}") for i in (1, 2, 3)]


async def test_R051_a_reservation_owners_and_other_pods_follow_the_same_pod(cluster):
    await cluster.create(*three_nodes(), running("1", "db", node="n2", labels={"app": "db"}))
    together = near({"app": "db"})
    await cluster.create(held(cpu="4", allocate_once=False, template={"affinity": together}))
    assert (await cluster.reservation("r")).status.node_name == "n2"
    pods = [owner("a", affinity=together), owner("b", affinity=together)]
    await cluster.create(*pods, non_owner(affinity=together))
    assert [await cluster.node_of(p) for p in ("a", "b", "stranger")] == ["n2"] * 3
    assert [await allocated_from(cluster, p) for p in ("a", "b", "stranger")] == ["r", "r", None]


async def test_R051_affinity_of_an_owner_does_not_count_its_reserve_pod(cluster):
    await cluster.create(*three_nodes(), held(cpu="4", labels={"app": "db"}))
    await cluster.create(owner(affinity=near({"app": "db"})))
    # The only pod of that app is its own reserve pod, which is hidden from it.
    assert "didn't match pod affinity rules" in await cluster.why("owner")
    await cluster.create(non_owner(affinity=near({"app": "db"})))
    where = (await cluster.reservation("r")).status.node_name
    assert await cluster.node_of("stranger") == where


async def test_R052_anti_affinity_rejects_all_but_the_first_owner(cluster):
    apart, mark = far({"a": "b"}), {"a": "b"}
    room = held(cpu="4", allocate_once=False, labels=mark, template={"affinity": apart})
    await cluster.create(node(), room)
    await cluster.create(non_owner(labels=mark))
    assert SHUNNED in await cluster.why("stranger")
    await cluster.create(non_owner("apart", affinity=apart))
    assert FAR in await cluster.why("apart")
    await cluster.create(owner("a", labels=mark, affinity=apart))
    assert await allocated_from(cluster, "a") == "r"
    await cluster.create(owner("b", labels=mark, affinity=apart))
    assert FAR in await cluster.why("b")
    await cluster.delete(PODS, "a", "default")
    await cluster.advance(12)
    assert await allocated_from(cluster, "b") == "r"
    assert [await is_pending(cluster, name) for name in ("stranger", "apart")] == [True, True]


async def test_R053_spreading_owners_does_not_count_their_reserve_pods(cluster):
    await cluster.create(node("n1"), node("n2"))
    spread = evenly({"app": "web"})
    rooms = [
        held(f"r{i}", cpu="4", allocate_once=False, labels={"app": "web"},
             template={"node": f"n{i}", "topologySpreadConstraints": spread})
        for i in (1, 2)
    ]  # fmt: skip
    await cluster.create(*rooms)
    for i in range(4):
        await cluster.create(owner(f"o{i}", topology_spread_constraints=spread))
    places = [await cluster.node_of(f"o{i}") for i in range(4)]
    assert Counter(places) == {"n1": 2, "n2": 2}
    assert all([await allocated_from(cluster, f"o{i}") for i in range(4)])


async def test_spreading_other_pods_counts_reserve_pods(cluster):
    await cluster.create(node("n1"), node("n2"))
    await cluster.create(held(labels={"tier": "x"}, template={"node": "n1"}))
    await cluster.create(
        non_owner(labels={"tier": "x"}, topology_spread_constraints=evenly({"tier": "x"}))
    )
    assert await cluster.node_of("stranger") == "n2"


async def test_soft_spreading_does_not_keep_owners_from_their_reservations(cluster):
    await cluster.create(node("n1"), node("n2"))
    soft = [{**evenly({"app": "web"})[0], "whenUnsatisfiable": "ScheduleAnyway"}]
    await cluster.create(held(labels={"app": "web"}, allocate_once=False, template={"node": "n1"}))
    await cluster.create(running("1", "there", node="n2", labels={"app": "web"}))
    # If the reserve pod counted, n1 and n2 would have equally many pods.
    await cluster.create(owner(cpu=None, memory="1Gi", topology_spread_constraints=soft))
    assert await cluster.node_of("owner") == "n1"


async def test_reserve_pods_are_counted_again_after_a_restart(cluster):
    apart, mark = far({"a": "b"}), {"a": "b"}
    room = held(cpu="4", allocate_once=False, labels=mark, template={"affinity": apart})
    await cluster.create(node(), room, owner("a", labels=mark, affinity=apart))
    await cluster.restart()
    await cluster.create(non_owner(labels=mark), owner("b", labels=mark, affinity=apart))
    assert SHUNNED in await cluster.why("stranger")
    assert FAR in await cluster.why("b")
    assert (await status(cluster))[2] == ["a"]


async def test_a_pod_that_needs_a_neighbour_is_requeued_for_a_reserve_pod(cluster):
    await cluster.create(node())
    await cluster.create(non_owner(affinity=near({"app": "db"})))
    assert await is_pending(cluster, "stranger")
    await cluster.create(held(labels={"app": "db"}))
    await cluster.advance(12)
    assert await cluster.node_of("stranger") == "n1"


async def test_an_owner_does_not_count_its_own_reserve_pod_beside_another_reservation(cluster):
    # The two reserve pods differ in what affinity sees of them.
    other = held("other", cpu="1", labels={"app": "db"}, owner_labels={"app": "else"})
    await cluster.create(node(), other, held(cpu="1", labels={"app": "cache"}))
    assert (await cluster.reservation("r")).status.node_name == "n1"
    await cluster.create(owner(affinity=far({"app": "cache"})))
    assert await cluster.node_of("owner") == "n1"
    await cluster.create(owner("second", affinity=far({"app": "db"})))
    assert FAR in await cluster.why("second")
