"""An owner that requests more than a reservation has left is still drawn to it."""

from random import Random

import pytest

from holdfast.api.quantity import milli
from holdfast.api.scheme import NODES, RESERVATIONS
from holdfast.api.scheme import PODS as POD_RESOURCE
from reservations.objects import (
    allocated_from,
    allocations,
    create_each,
    held,
    node,
    non_owner,
    owner,
    running,
    status,
)
from soak_size import SEED, rounds

NODES_OF_THREE = [f"n{i}" for i in range(3)]
POLICIES = ("", "Aligned")


def pinned(name, where, **more):
    return held(name, template={"node": where}, **more)


async def three_nodes(cluster):
    await create_each(cluster, *[node(name) for name in NODES_OF_THREE])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("where", NODES_OF_THREE)
async def test_an_owner_goes_to_a_reservation_smaller_than_itself(cluster, where, policy):
    await three_nodes(cluster)
    await create_each(cluster, pinned("r", where, cpu="2", allocate_policy=policy))
    await create_each(cluster, owner(cpu="3"))
    assert (await cluster.node_of("owner"), await allocated_from(cluster, "owner")) == (where, "r")
    assert await status(cluster) == ("Succeeded", {"cpu": "3"}, ["owner"])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("where", NODES_OF_THREE)
async def test_an_owner_goes_to_what_another_owner_left(cluster, where, policy):
    await three_nodes(cluster)
    more = {"allocate_once": False, "allocate_policy": policy}
    await create_each(cluster, pinned("r", where, cpu="4", **more), owner("first", cpu="3"))
    await create_each(cluster, owner("second", cpu="3"))
    assert (await cluster.node_of("second"), await allocated_from(cluster, "second")) == (
        where,
        "r",
    )


@pytest.mark.parametrize("where", NODES_OF_THREE)
async def test_an_owner_goes_to_two_small_reservations_that_serve_it_together(cluster, where):
    await three_nodes(cluster)
    await create_each(cluster, *[pinned(name, where, cpu="1") for name in "ab"])
    await create_each(cluster, owner(cpu="2"))
    assert await cluster.node_of("owner") == where
    assert await allocations(cluster, "owner") == {"a": {"cpu": "1000m"}, "b": {"cpu": "1000m"}}


@pytest.mark.parametrize("where", NODES_OF_THREE)
async def test_a_small_owner_goes_to_a_large_reservation(cluster, where):
    """Less than a hundredth of it still counts."""
    await three_nodes(cluster)
    await create_each(cluster, pinned("r", where, cpu="12"), owner(cpu="100m"))
    assert await allocated_from(cluster, "owner") == "r"


@pytest.mark.parametrize("order", ["small", "large"])
@pytest.mark.parametrize("nodes", [("n0", "n0"), ("n0", "n1")])
async def test_of_two_that_it_would_use_up_the_one_that_covers_it(cluster, nodes, order):
    """On one node and on two, whichever is the older one."""
    await three_nodes(cluster)
    sizes = {"small": "2", "large": "3"}
    names = sorted(sizes, key=lambda name: name != order)
    for name, where in zip(names, nodes, strict=True):
        await create_each(cluster, pinned(name, where, cpu=sizes[name], allocate_policy="Aligned"))
        await cluster.advance(2)
    await create_each(cluster, owner(cpu="3"))
    assert await allocated_from(cluster, "owner") == "large"


async def test_using_up_beats_filling_half(cluster):
    await three_nodes(cluster)
    await create_each(cluster, pinned("half", "n0", cpu="6"), pinned("up", "n1", cpu="2"))
    await create_each(cluster, owner(cpu="3"))
    assert await allocated_from(cluster, "owner") == "up"


async def test_what_is_reserved_inside_is_not_left_for_owners(cluster):
    inner = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "2"}}'}
    await three_nodes(cluster)
    await create_each(cluster, pinned("kept", "n0", cpu="4", annotations=inner))
    await create_each(cluster, pinned("open", "n1", cpu="4"), owner(cpu="2"))
    assert await allocated_from(cluster, "owner") == "kept", "its 2 CPUs are used up"


async def test_an_affinity_prefers_a_reservation_with_something_left(cluster):
    await three_nodes(cluster)
    await create_each(cluster, pinned("full", "n0", cpu="1", allocate_once=False))
    await create_each(cluster, owner("first", cpu="1"))
    await create_each(cluster, pinned("open", "n1", cpu="4", allocate_once=False))
    await create_each(cluster, owner("second", cpu="2", reservation_affinity={}))
    assert await allocated_from(cluster, "second") == "open"


def some_reservations(random):
    """Reservations of random sizes; those of a node are all Default or all not."""
    for i in range(8):
        where = random.randrange(4)
        policy = "" if where % 2 else random.choice(("Aligned", "Restricted"))
        memory = {"memory": f"{random.randint(1, 6)}Gi"} if random.random() < 0.5 else {}
        yield pinned(
            f"r{i}",
            f"n{where}",
            cpu=f"{random.randint(1, 16) * 500}m",
            allocate_once=random.random() < 0.4,
            allocate_policy=policy,
            **memory,
        )


async def could_use(cluster, pod):
    """List the reservations that could serve an owner, read from the API objects alone."""
    asked = amounts(pod["spec"]["containers"][0]["resources"]["requests"])
    nodes = (await cluster.client.list(NODES)).items
    pods = (await cluster.client.list(POD_RESOURCE)).items
    every = (await cluster.client.list(RESERVATIONS)).items
    left, found = {}, []
    for r in every:
        used, reserved = amounts(r.status.allocated), amounts(r.status.allocatable)
        left[r.name] = {n: max(0, a - used.get(n, 0)) for n, a in reserved.items()}
    for each in nodes:
        here = [r for r in every if r.phase == "Available" and r.status.node_name == each.name]
        free = amounts(each.status.allocatable)
        taken = [
            amounts(p.spec.containers[0].resources.requests)
            for p in pods
            if p.spec.node_name == each.name
        ]
        for part in (*taken, *(left[r.name] for r in here)):
            free = {n: a - part.get(n, 0) for n, a in free.items()}
        pooled = {
            n: sum(left[r.name].get(n, 0) for r in here if not r.spec.allocate_policy) for n in free
        }
        for r in here:
            own = left[r.name]
            more = own if r.spec.allocate_policy else pooled
            fits = all(wanted <= free[n] + more.get(n, 0) for n, wanted in asked.items())
            whole = all(own.get(n, wanted) >= wanted for n, wanted in asked.items())
            takes = whole or r.spec.allocate_policy != "Restricted"
            if fits and takes and any(own.get(n) for n in asked):
                found.append(r.name)
    return found


def amounts(texts):
    return {name: milli(text) for name, text in texts.items() if name in ("cpu", "memory")}


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(16)))
async def test_no_owner_leaves_room_unused_and_takes_free_room_elsewhere(cluster, seed):
    random = Random(seed)
    await create_each(cluster, *[node(f"n{i}", cpu="24") for i in range(8)])
    await create_each(cluster, *[running("6", f"used{i}", f"n{i}") for i in range(2)])
    await create_each(cluster, *some_reservations(random))
    served = 0
    for i in range(14):
        memory = {"memory": f"{random.randint(1, 4)}Gi"} if random.random() < 0.5 else {}
        pod = owner(f"o{i}", cpu=f"{random.randint(1, 24) * 250}m", **memory)
        could = await could_use(cluster, pod)
        await create_each(cluster, pod)
        used = await allocated_from(cluster, f"o{i}")
        assert used in could if could else used is None, f"owner {i} could use {could}"
        served += used is not None
        if random.random() < 0.3:
            await create_each(cluster, non_owner(f"s{i}", cpu="1"))
    assert served > 3, "few owners found a reservation"
