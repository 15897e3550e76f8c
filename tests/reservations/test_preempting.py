"""Preemption on nodes with reservations: what a victim allocated stays in its reservation."""

from holdfast.testing import Fault, FaultyTransport, a_priority_class
from holdfast.testing.harness import Harness
from reservations.objects import (
    allocated_from,
    create_each,
    held,
    node,
    non_owner,
    owner,
    running,
    status,
)

HIGH = {"priority_class_name": "high"}


async def test_evicting_an_owner_frees_nothing_for_other_pods(cluster):
    await create_each(cluster, a_priority_class(), node(), running("12", **HIGH))
    await create_each(cluster, held(cpu="4", allocate_once=False), owner(cpu="4"))
    await create_each(cluster, non_owner(cpu="4", **HIGH))
    words = "preemption: 0/1 nodes are available: 1 node(s) preemption failed due to insufficient"
    assert words in await cluster.why("stranger")
    assert await allocated_from(cluster, "owner") == "r"


async def test_R097_priority_gives_no_access_to_reserved_resources(cluster):
    """Neither beside an owner nor before the reservation has one."""
    await create_each(cluster, a_priority_class(), node(), running("12", **HIGH))
    await create_each(cluster, held(cpu="4", allocate_once=False))
    await create_each(cluster, non_owner("before", cpu="1", **HIGH))
    await create_each(cluster, owner(cpu="2"), non_owner("after", cpu="2", **HIGH))
    await cluster.advance(60)
    assert [await cluster.node_of(name) for name in ("before", "after")] == ["", ""]
    assert "Insufficient cpu" in await cluster.why("after")
    assert (await status(cluster)) == ("Available", {"cpu": "2"}, ["owner"])
    await create_each(cluster, owner("second", cpu="2"))
    assert await allocated_from(cluster, "second") == "r"


async def test_R097_nor_does_evicting_pods_beside_the_reservation(cluster):
    """Evicting them frees 4 CPUs; what the reservation holds is not added."""
    await create_each(cluster, a_priority_class(), node(), running("4"), held(cpu="12"))
    await create_each(cluster, non_owner(cpu="5", **HIGH))
    await cluster.advance(60)
    assert await cluster.node_of("stranger") == ""
    assert await cluster.node_of("used") == "n1"
    assert (await status(cluster))[0] == "Available"


async def test_an_owner_may_preempt_an_owner(cluster):
    await create_each(cluster, a_priority_class(), node(), running("12", **HIGH))
    await create_each(cluster, held(cpu="4", allocate_once=False), owner("low", cpu="4"))
    await create_each(cluster, owner("urgent", cpu="4", **HIGH))
    await cluster.advance(60)
    assert await allocated_from(cluster, "urgent") == "r"


async def test_the_owner_of_an_allocate_once_reservation_may_be_evicted_for_another(tmp_path):
    """The reservation is allocate-once and still Available: without its owner it would match."""
    fault = Fault("delay", method="PATCH", path="/reservations/r/status", seconds=600)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await create_each(cluster, a_priority_class(), node(), running("12", **HIGH))
        await create_each(cluster, held(cpu="4"), owner("low", cpu="1"))
        assert await allocated_from(cluster, "low") == "r"
        await create_each(cluster, non_owner(cpu="1", **HIGH))
        assert "1 node(s) preemption failed" in await cluster.why("stranger")
        await create_each(cluster, owner("urgent", cpu="4", **HIGH))
        await cluster.advance(60)
        assert await cluster.node_of("urgent") == "n1"
