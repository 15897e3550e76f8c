"""Affinity, anti-affinity and spread: a reservation is a neighbour to all but its owners."""

from collections import Counter

from holdfast.api.scheme import PODS
from reservations.rooms import drawn_from, filler, held, node, owner, status, stranger, waits

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


async def test_R051_a_reservation_its_owners_and_strangers_follow_the_same_pod(cluster):
    await cluster.create(*three_nodes(), filler("1", "db", node="n2", labels={"app": "db"}))
    together = near({"app": "db"})
    await cluster.create(held(cpu="4", allocate_once=False, template={"affinity": together}))
    assert (await cluster.reservation("r")).status.node_name == "n2"
    pods = [owner("a", affinity=together), owner("b", affinity=together)]
    await cluster.create(*pods, stranger(affinity=together))
    assert [await cluster.node_of(p) for p in ("a", "b", "stranger")] == ["n2"] * 3
    assert [await drawn_from(cluster, p) for p in ("a", "b", "stranger")] == ["r", "r", None]


async def test_R051_the_owner_of_a_reservation_does_not_count_it_as_its_neighbour(cluster):
    await cluster.create(*three_nodes(), held(cpu="4", labels={"app": "db"}))
    await cluster.create(owner(affinity=near({"app": "db"})))
    # The only one of that app is its own reservation, which it does not see.
    assert "didn't match pod affinity rules" in await cluster.why("owner")
    await cluster.create(stranger(affinity=near({"app": "db"})))
    where = (await cluster.reservation("r")).status.node_name
    assert await cluster.node_of("stranger") == where


async def test_R052_anti_affinity_keeps_out_all_but_the_first_owner(cluster):
    apart, mark = far({"a": "b"}), {"a": "b"}
    room = held(cpu="4", allocate_once=False, labels=mark, template={"affinity": apart})
    await cluster.create(node(), room)
    await cluster.create(stranger(labels=mark))
    assert SHUNNED in await cluster.why("stranger")
    await cluster.create(stranger("apart", affinity=apart))
    assert FAR in await cluster.why("apart")
    await cluster.create(owner("a", labels=mark, affinity=apart))
    assert await drawn_from(cluster, "a") == "r"
    await cluster.create(owner("b", labels=mark, affinity=apart))
    assert FAR in await cluster.why("b")
    await cluster.delete(PODS, "a", "default")
    await cluster.advance(12)
    assert await drawn_from(cluster, "b") == "r"
    assert [await waits(cluster, name) for name in ("stranger", "apart")] == [True, True]


async def test_R053_owners_spread_as_if_their_reservations_were_not_there(cluster):
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
    assert all([await drawn_from(cluster, f"o{i}") for i in range(4)])


async def test_a_stranger_spreads_among_reservations_too(cluster):
    await cluster.create(node("n1"), node("n2"))
    await cluster.create(held(labels={"tier": "x"}, template={"node": "n1"}))
    await cluster.create(
        stranger(labels={"tier": "x"}, topology_spread_constraints=evenly({"tier": "x"}))
    )
    assert await cluster.node_of("stranger") == "n2"


async def test_softly_spread_owners_do_not_avoid_their_own_rooms(cluster):
    await cluster.create(node("n1"), node("n2"))
    soft = [{**evenly({"app": "web"})[0], "whenUnsatisfiable": "ScheduleAnyway"}]
    await cluster.create(held(labels={"app": "web"}, allocate_once=False, template={"node": "n1"}))
    await cluster.create(filler("1", "there", node="n2", labels={"app": "web"}))
    # Were the reservation seen, n1 and n2 would be equally crowded.
    await cluster.create(owner(cpu=None, memory="1Gi", topology_spread_constraints=soft))
    assert await cluster.node_of("owner") == "n1"


async def test_neighbours_are_known_again_after_a_restart(cluster):
    apart, mark = far({"a": "b"}), {"a": "b"}
    room = held(cpu="4", allocate_once=False, labels=mark, template={"affinity": apart})
    await cluster.create(node(), room, owner("a", labels=mark, affinity=apart))
    await cluster.restart()
    await cluster.create(stranger(labels=mark), owner("b", labels=mark, affinity=apart))
    assert SHUNNED in await cluster.why("stranger")
    assert FAR in await cluster.why("b")
    assert (await status(cluster))[2] == ["a"]


async def test_who_waits_for_a_neighbour_finds_it_in_a_reservation(cluster):
    await cluster.create(node())
    await cluster.create(stranger(affinity=near({"app": "db"})))
    assert await waits(cluster, "stranger")
    await cluster.create(held(labels={"app": "db"}))
    await cluster.advance(12)
    assert await cluster.node_of("stranger") == "n1"
