"""Preemption beside reservations: what a victim drew stays its reservation's."""

from holdfast.testing import Fault, FaultyTransport, a_priority_class
from holdfast.testing.harness import Harness
from reservations.rooms import drawn_from, filler, given, held, node, owner, status, stranger

HIGH = {"priority_class_name": "high"}


async def test_evicting_an_owner_makes_no_room_for_a_stranger(cluster):
    await given(cluster, a_priority_class(), node(), filler("12", **HIGH))
    await given(cluster, held(cpu="4", allocate_once=False), owner(cpu="4"))
    await given(cluster, stranger(cpu="4", **HIGH))
    words = "preemption: 0/1 nodes are available: 1 node(s) preemption failed due to insufficient"
    assert words in await cluster.why("stranger")
    assert await drawn_from(cluster, "owner") == "r"


async def test_R097_higher_priority_does_not_enter_held_room(cluster):
    """Neither beside an owner nor where the reservation has none yet."""
    await given(cluster, a_priority_class(), node(), filler("12", **HIGH))
    await given(cluster, held(cpu="4", allocate_once=False))
    await given(cluster, stranger("before", cpu="1", **HIGH))
    await given(cluster, owner(cpu="2"), stranger("after", cpu="2", **HIGH))
    await cluster.advance(60)
    assert [await cluster.node_of(name) for name in ("before", "after")] == ["", ""]
    assert "Insufficient cpu" in await cluster.why("after")
    assert (await status(cluster)) == ("Available", {"cpu": "2"}, ["owner"])
    await given(cluster, owner("second", cpu="2"))
    assert await drawn_from(cluster, "second") == "r"


async def test_R097_nor_by_evicting_low_pods_beside_the_reservation(cluster):
    """Their room is 4 CPUs: what the reservation holds is not added to it."""
    await given(cluster, a_priority_class(), node(), filler("4"), held(cpu="12"))
    await given(cluster, stranger(cpu="5", **HIGH))
    await cluster.advance(60)
    assert await cluster.node_of("stranger") == ""
    assert await cluster.node_of("used") == "n1"
    assert (await status(cluster))[0] == "Available"


async def test_an_owner_evicts_an_owner_and_takes_its_place(cluster):
    await given(cluster, a_priority_class(), node(), filler("12", **HIGH))
    await given(cluster, held(cpu="4", allocate_once=False), owner("low", cpu="4"))
    await given(cluster, owner("urgent", cpu="4", **HIGH))
    await cluster.advance(60)
    assert await drawn_from(cluster, "urgent") == "r"


async def test_who_took_all_of_a_reservation_is_evicted_for_another_owner(tmp_path):
    """It serves once, and its status is not written yet: without that owner it would be there."""
    fault = Fault("delay", method="PATCH", path="/reservations/r/status", seconds=600)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await given(cluster, a_priority_class(), node(), filler("12", **HIGH))
        await given(cluster, held(cpu="4"), owner("low", cpu="1"))
        assert await drawn_from(cluster, "low") == "r"
        await given(cluster, stranger(cpu="1", **HIGH))
        assert "1 node(s) preemption failed" in await cluster.why("stranger")
        await given(cluster, owner("urgent", cpu="4", **HIGH))
        await cluster.advance(60)
        assert await cluster.node_of("urgent") == "n1"
