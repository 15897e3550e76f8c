"""Host ports of reservations: only owners may use them, and those in use stay in use."""

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from reservations.objects import (
    allocated_from,
    allocations,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    status,
)

TAKEN = "didn't have free ports for the requested pod ports"


async def test_R046_only_owners_may_use_the_ports_of_a_reservation(cluster):
    await cluster.create(node(), held(cpu="4", ports=(7777, 8888, 9999), allocate_once=False))
    await cluster.create(non_owner(ports=[7777]))
    assert TAKEN in await cluster.why("stranger")
    await cluster.create(owner("a", ports=[7777]), owner("b", ports=[8888]))
    assert [await allocated_from(cluster, name) for name in "ab"] == ["r", "r"]


async def test_R047_each_port_of_two_reservations_goes_to_one_owner(cluster):
    await cluster.create(node(), *[held(f"r{p}", ports=[p]) for p in (7777, 8888)])
    await cluster.create(owner("a", ports=[7777]), owner("b", ports=[8888]))
    assert [await allocated_from(cluster, name) for name in "ab"] == ["r7777", "r8888"]
    await cluster.create(owner("c", ports=[7777]))
    assert TAKEN in await cluster.why("c")


@pytest.mark.parametrize("allocate_once", [True, False])
async def test_R048_a_port_in_use_outlives_its_reservation(cluster, allocate_once):
    await cluster.create(node(), held(ports=[8080, 8081], allocate_once=allocate_once))
    await cluster.create(owner(ports=[8080]))
    assert (await status(cluster))[0] == ("Succeeded" if allocate_once else "Available")
    await cluster.delete(RESERVATIONS, "r")
    await cluster.create(non_owner(ports=[8080]), non_owner("lucky", ports=[8081]))
    assert TAKEN in await cluster.why("stranger")
    # No pod used it, so it is free again.
    assert await cluster.node_of("lucky") == "n1"
    await cluster.delete(PODS, "owner", "default")
    await cluster.advance(12)
    assert await cluster.node_of("stranger") == "n1"


async def test_R090_one_pod_takes_ports_from_two_reservations(cluster):
    await cluster.create(node(), *[held(f"r{p}", cpu="2", ports=[p]) for p in (7777, 8888)])
    await cluster.create(owner(cpu="1", ports=[7777, 8888]))
    assert await cluster.node_of("owner") == "n1"
    assert set(await allocations(cluster, "owner")) == {"r7777", "r8888"}
    for name in ("r7777", "r8888"):
        phase, _, owners = await status(cluster, name)
        assert (phase, owners) == ("Succeeded", ["owner"])


async def test_a_reservation_of_a_port_alone_serves_a_pod_with_that_port(cluster):
    port = {"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
    await cluster.create(node(), held(template={"containers": [port]}))
    await cluster.create(owner("other", ports=[81]), owner("wants", ports=[80]))
    assert [await allocated_from(cluster, n) for n in ("other", "wants")] == [None, "r"]


async def test_ports_are_held_again_after_a_restart(cluster):
    await cluster.create(node(), held(ports=[80, 81], allocate_once=False))
    await cluster.create(owner("a", ports=[80]))
    await cluster.restart()
    await cluster.create(non_owner(ports=[81]), owner("again", ports=[80]), owner("b", ports=[81]))
    assert TAKEN in await cluster.why("stranger")
    assert TAKEN in await cluster.why("again")
    assert await cluster.node_of("b") == "n1"


async def test_a_pod_that_waits_for_a_port_is_placed_when_the_reservation_ends(cluster):
    await cluster.create(node(), held(ports=[80], ttl="60s"), non_owner(ports=[80]))
    assert await is_pending(cluster, "stranger")
    await cluster.advance(90)
    assert await cluster.node_of("stranger") == "n1"
