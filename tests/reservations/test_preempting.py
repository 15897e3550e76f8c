"""Preemption beside reservations: what a victim drew stays its reservation's."""

from holdfast.testing import a_priority_class
from reservations.rooms import drawn_from, filler, given, held, node, owner, stranger

HIGH = {"priority_class_name": "high"}


async def test_evicting_an_owner_makes_no_room_for_a_stranger(cluster):
    await given(cluster, a_priority_class(), node(), filler("12", **HIGH))
    await given(cluster, held(cpu="4", allocate_once=False), owner(cpu="4"))
    await given(cluster, stranger(cpu="4", **HIGH))
    words = "preemption: 0/1 nodes are available: 1 node(s) preemption failed due to insufficient"
    assert words in await cluster.why("stranger")
    assert await drawn_from(cluster, "owner") == "r"


async def test_an_owner_evicts_an_owner_and_takes_its_place(cluster):
    await given(cluster, a_priority_class(), node(), filler("12", **HIGH))
    await given(cluster, held(cpu="4", allocate_once=False), owner("low", cpu="4"))
    await given(cluster, owner("urgent", cpu="4", **HIGH))
    await cluster.advance(60)
    assert await drawn_from(cluster, "urgent") == "r"
