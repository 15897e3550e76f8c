"""Resources that a preemption frees go to the preemptor, by a reservation or inside one."""

import pytest

from holdfast.api.scheme import PODS
from holdfast.testing import a_priority_class
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.objects import (
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

HIGH = {"priority_class_name": "high"}


def stopping(seconds):
    return {"annotations": {"holdfast.dev/stop-after": f"{seconds}s"}}


SLOW = stopping(30)


async def for_this_pod(cluster, name, cpu, on="n1", **more):
    """Return the reservation that a user creates for a pod whose victims are terminating."""
    uid = (await cluster.pod(name)).uid
    return held(
        owners=[{"object": {"uid": uid}}],
        cpu=cpu,
        pre_allocation=True,
        template={"node": on},
        **more,
    )


async def terminating(cluster):
    return sorted(p.name for p in (await cluster.client.list(PODS)).items if p.terminating)


async def test_R085_resources_of_victims_go_to_the_preemptor(cluster):
    await create_each(
        cluster, a_priority_class(), node(), *[running("8", f"v{i}", **SLOW) for i in (0, 1)]
    )
    await create_each(cluster, node("n2", cpu="8"), running("8", "bystander", "n2"))
    await create_each(cluster, non_owner("p", cpu="16", **HIGH))
    assert (await cluster.pod("p")).status.nominated_node_name == "n1"
    assert await terminating(cluster) == ["v0", "v1"]
    await create_each(cluster, await for_this_pod(cluster, "p", "16"))
    assert (await status(cluster))[0] == "Waiting"
    await cluster.advance(10)
    await create_each(cluster, non_owner("rival", cpu="16", **HIGH))
    assert await is_pending(cluster, "rival")
    await cluster.advance(30)
    assert await cluster.node_of("p") == "n1"
    assert await allocated_from(cluster, "p") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "16"}, ["p"])
    assert await is_pending(cluster, "rival")
    assert await cluster.node_of("bystander") == "n2", "no other pod was evicted"
    assert requested(cluster) == 16000


async def test_R085_also_after_a_restart(cluster):
    await create_each(cluster, a_priority_class(), node(), running("16", "v", **SLOW))
    await create_each(cluster, non_owner("p", cpu="16", **HIGH))
    await create_each(cluster, await for_this_pod(cluster, "p", "16"))
    await create_each(cluster, non_owner("rival", cpu="16", **HIGH))
    await cluster.restart()
    await cluster.advance(40)
    assert await allocated_from(cluster, "p") == "r"
    assert (await status(cluster))[0] == "Succeeded"


async def test_an_owner_that_waits_for_its_reservation_does_not_preempt_elsewhere(tmp_path):
    """While its reservation is still Waiting after the victims are gone, a pod does not preempt."""
    fault = Fault("delay", method="PATCH", path="/reservations/r/status", seconds=20)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await create_each(cluster, a_priority_class(), node(), running("16", "v", **SLOW))
        await create_each(cluster, node("n2"), *[running("8", f"other{i}", "n2") for i in (0, 1)])
        await create_each(cluster, non_owner("p", cpu="16", **HIGH))
        assert (await cluster.pod("p")).status.nominated_node_name == "n1"
        await create_each(cluster, await for_this_pod(cluster, "p", "16"))
        await cluster.advance(40)
        assert await is_pending(cluster, "p") and (await status(cluster))[0] == "Waiting"
        assert "due to a reservation for this pod about to" in await cluster.why("p")
        assert (await cluster.pod("p")).status.nominated_node_name == "n1"
        assert [await cluster.node_of(f"other{i}") for i in (0, 1)] == ["n2", "n2"]
        await cluster.advance(20)
        assert await allocated_from(cluster, "p") == "r"


async def test_resources_counted_twice_are_free_once_the_pod_is_bound(cluster):
    await create_each(cluster, a_priority_class(), node(), running("8", "v", **stopping(10)))
    await create_each(cluster, running("4", "f", **HIGH), non_owner("p", cpu="8", **HIGH))
    await create_each(cluster, await for_this_pod(cluster, "p", "8", allocate_once=False))
    await create_each(cluster, non_owner("rival", cpu="4", **HIGH))
    await cluster.advance(30)
    assert await allocated_from(cluster, "p") == "r"
    assert (await status(cluster))[0] == "Available"
    assert await cluster.node_of("rival") == "n1"


async def test_a_reservation_that_may_wait_long_does_not_prevent_preemption(cluster):
    await create_each(cluster, a_priority_class(), node(), running("16", **HIGH))
    await create_each(cluster, held(cpu="8", pre_allocation=True))
    assert (await status(cluster))[0] == "Waiting"
    await create_each(cluster, node("n2"), running("16", "victim", "n2"), owner(cpu="8", **HIGH))
    await cluster.advance(5)
    assert await cluster.node_of("owner") == "n2"


async def test_a_reservation_that_is_too_small_does_not_prevent_preemption(cluster):
    await create_each(cluster, a_priority_class(), node(), running("16", "v", **SLOW))
    await create_each(cluster, held(cpu="8", pre_allocation=True))
    await cluster.client.delete(PODS, "v", "default")
    await create_each(cluster, node("n2", cpu="32"), running("32", "victim", "n2"))
    await create_each(cluster, owner(cpu="32", **HIGH))
    await cluster.advance(5)
    assert await cluster.node_of("owner") == "n2"


async def test_resources_freed_inside_a_reservation_go_to_the_preemptor(cluster):
    """The rivals would fit on the node, but they require the reservation, which is full."""
    await create_each(cluster, a_priority_class(), node())
    await create_each(cluster, held(cpu="8", allocate_once=False, allocate_policy="Restricted"))
    await create_each(cluster, owner("quick", cpu="4", **stopping(5)))
    await create_each(cluster, owner("lazy", cpu="4", **stopping(60)))
    await create_each(cluster, owner("urgent", cpu="8", reservation_affinity={}, **HIGH))
    assert await terminating(cluster) == ["lazy", "quick"]
    await cluster.advance(10)
    await create_each(cluster, owner("rival", cpu="4", reservation_affinity={}, **HIGH))
    await create_each(cluster, owner("meek", cpu="4", reservation_affinity={}))
    assert await is_pending(cluster, "rival") and await is_pending(cluster, "meek")
    assert "Reservation(s) Insufficient cpu" in await cluster.why("rival")
    await create_each(cluster, non_owner(cpu="8", **HIGH))
    await cluster.advance(60)
    assert await allocated_from(cluster, "urgent") == "r"
    assert await is_pending(cluster, "rival") and await is_pending(cluster, "meek")


@pytest.mark.parametrize("who", [non_owner, held])
async def test_a_nominated_owner_is_not_counted_beside_its_reservation(cluster, who):
    """On a node of 16 CPUs, 8 are held; the other 8 are free for all pods."""
    await create_each(cluster, a_priority_class(), node())
    await create_each(cluster, held(cpu="8", allocate_once=False, allocate_policy="Aligned"))
    await create_each(cluster, owner("low", cpu="8", **SLOW), running("4", "f", **HIGH))
    await create_each(cluster, owner("urgent", cpu="8", reservation_affinity={}, **HIGH))
    assert await terminating(cluster) == ["low"]
    assert (await cluster.pod("urgent")).status.nominated_node_name == "n1"
    await create_each(cluster, non_owner("first", cpu="2"))
    assert await cluster.node_of("first") == "n1"
    more = {"owner_labels": {"app": "else"}, "allocate_policy": "Aligned"} if who is held else {}
    await create_each(cluster, who("other", cpu="2", **more))
    where = [cluster.node_of, lambda name: cluster.reservation(name)][who is held]
    found = await where("other")
    assert (found if who is non_owner else found.status.node_name) == "n1"
    await create_each(cluster, non_owner("too-much", cpu="1"))
    assert await is_pending(cluster, "too-much"), "the node is full"
    await cluster.advance(40)
    assert await allocated_from(cluster, "urgent") == "r"
    assert await is_pending(cluster, "too-much")


async def test_what_a_nominated_owner_requests_beyond_its_reservation_is_kept(cluster):
    await create_each(cluster, a_priority_class(), node())
    await create_each(cluster, held(cpu="8", allocate_once=False, allocate_policy="Aligned"))
    await create_each(cluster, owner("low", cpu="8", **SLOW), running("4", "f", **HIGH))
    await create_each(cluster, owner("urgent", cpu="10", reservation_affinity={}, **HIGH))
    assert await terminating(cluster) == ["low"]
    await create_each(cluster, non_owner("fits", cpu="2"), non_owner("does-not", cpu="1"))
    assert await cluster.node_of("fits") == "n1"
    assert await is_pending(cluster, "does-not")
    await cluster.advance(40)
    assert await allocated_from(cluster, "urgent") == "r"


async def test_a_nominated_owner_blocks_only_one_of_its_reservations(cluster):
    """An owner nominated to a node with two reservations blocks one of them."""
    await create_each(cluster, a_priority_class(), node(), running("8", **HIGH))
    reusable = {"allocate_once": False, "allocate_policy": "Aligned"}
    await create_each(cluster, held("a", cpu="4", **reusable), held("b", cpu="4", **reusable))
    await create_each(
        cluster, owner("low", cpu="4", reservation_affinity={"name": "a"}, **stopping(30))
    )
    await create_each(cluster, owner("urgent", cpu="4", reservation_affinity={"name": "a"}, **HIGH))
    assert await terminating(cluster) == ["low"]
    await create_each(cluster, owner("second", cpu="4", **HIGH))
    await cluster.advance(40)
    assert await allocated_from(cluster, "urgent") == "a"
    assert await allocated_from(cluster, "second") == "b"
