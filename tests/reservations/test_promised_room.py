"""Room that a preemption makes is for whom it was made: by a reservation, or inside one."""

import pytest

from holdfast.api.scheme import PODS
from holdfast.testing import a_priority_class
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.rooms import (
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

HIGH = {"priority_class_name": "high"}


def stopping(seconds):
    return {"annotations": {"holdfast.dev/stop-after": f"{seconds}s"}}


SLOW = stopping(30)


async def for_this_pod(cluster, name, cpu, on="n1", **more):
    """What its user creates for a pod that waits for its victims."""
    uid = (await cluster.pod(name)).uid
    return held(
        owners=[{"object": {"uid": uid}}],
        cpu=cpu,
        pre_allocation=True,
        template={"node": on},
        **more,
    )


async def leaving(cluster):
    return sorted(p.name for p in (await cluster.client.list(PODS)).items if p.terminating)


async def test_R085_preemption_keeps_its_promise(cluster):
    await given(
        cluster, a_priority_class(), node(), *[filler("8", f"v{i}", **SLOW) for i in (0, 1)]
    )
    await given(cluster, node("n2", cpu="8"), filler("8", "bystander", "n2"))
    await given(cluster, stranger("p", cpu="16", **HIGH))
    assert (await cluster.pod("p")).status.nominated_node_name == "n1"
    assert await leaving(cluster) == ["v0", "v1"]
    await given(cluster, await for_this_pod(cluster, "p", "16"))
    assert (await status(cluster))[0] == "Waiting"
    await cluster.advance(10)
    await given(cluster, stranger("rival", cpu="16", **HIGH))
    assert await waits(cluster, "rival")
    await cluster.advance(30)
    assert await cluster.node_of("p") == "n1"
    assert await drawn_from(cluster, "p") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "16"}, ["p"])
    assert await waits(cluster, "rival")
    assert await cluster.node_of("bystander") == "n2", "nobody else had to go"
    assert requested(cluster) == 16000


async def test_R085_through_a_restart(cluster):
    await given(cluster, a_priority_class(), node(), filler("16", "v", **SLOW))
    await given(cluster, stranger("p", cpu="16", **HIGH))
    await given(cluster, await for_this_pod(cluster, "p", "16"))
    await given(cluster, stranger("rival", cpu="16", **HIGH))
    await cluster.restart()
    await cluster.advance(40)
    assert await drawn_from(cluster, "p") == "r"
    assert (await status(cluster))[0] == "Succeeded"


async def test_who_waits_for_its_own_reservation_evicts_nobody_elsewhere(tmp_path):
    """The victims are gone, the reservation is not open yet: that is no reason to evict more."""
    fault = Fault("delay", method="PATCH", path="/reservations/r/status", seconds=20)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "store", wrap=spoiled) as cluster:
        await given(cluster, a_priority_class(), node(), filler("16", "v", **SLOW))
        await given(cluster, node("n2"), *[filler("8", f"other{i}", "n2") for i in (0, 1)])
        await given(cluster, stranger("p", cpu="16", **HIGH))
        assert (await cluster.pod("p")).status.nominated_node_name == "n1"
        await given(cluster, await for_this_pod(cluster, "p", "16"))
        await cluster.advance(40)
        assert await waits(cluster, "p") and (await status(cluster))[0] == "Waiting"
        assert "due to a reservation for this pod about to" in await cluster.why("p")
        assert (await cluster.pod("p")).status.nominated_node_name == "n1"
        assert [await cluster.node_of(f"other{i}") for i in (0, 1)] == ["n2", "n2"]
        await cluster.advance(20)
        assert await drawn_from(cluster, "p") == "r"


async def test_room_that_was_counted_twice_is_free_once_the_pod_has_its_own(cluster):
    await given(cluster, a_priority_class(), node(), filler("8", "v", **stopping(10)))
    await given(cluster, filler("4", "f", **HIGH), stranger("p", cpu="8", **HIGH))
    await given(cluster, await for_this_pod(cluster, "p", "8", allocate_once=False))
    await given(cluster, stranger("rival", cpu="4", **HIGH))
    await cluster.advance(30)
    assert await drawn_from(cluster, "p") == "r"
    assert (await status(cluster))[0] == "Available"
    assert await cluster.node_of("rival") == "n1"


async def test_a_reservation_that_may_wait_long_keeps_nobody_from_evicting(cluster):
    await given(cluster, a_priority_class(), node(), filler("16", **HIGH))
    await given(cluster, held(cpu="8", pre_allocation=True))
    assert (await status(cluster))[0] == "Waiting"
    await given(cluster, node("n2"), filler("16", "victim", "n2"), owner(cpu="8", **HIGH))
    await cluster.advance(5)
    assert await cluster.node_of("owner") == "n2"


async def test_one_too_small_keeps_nobody_from_evicting(cluster):
    await given(cluster, a_priority_class(), node(), filler("16", "v", **SLOW))
    await given(cluster, held(cpu="8", pre_allocation=True))
    await cluster.client.delete(PODS, "v", "default")
    await given(cluster, node("n2", cpu="32"), filler("32", "victim", "n2"))
    await given(cluster, owner(cpu="32", **HIGH))
    await cluster.advance(5)
    assert await cluster.node_of("owner") == "n2"


async def test_room_made_inside_a_reservation_is_for_whom_it_was_made(cluster):
    """The node has room for rivals; the reservation has not, and they insist on it."""
    await given(cluster, a_priority_class(), node())
    await given(cluster, held(cpu="8", allocate_once=False, allocate_policy="Restricted"))
    await given(cluster, owner("quick", cpu="4", **stopping(5)))
    await given(cluster, owner("lazy", cpu="4", **stopping(60)))
    await given(cluster, owner("urgent", cpu="8", wish={}, **HIGH))
    assert await leaving(cluster) == ["lazy", "quick"]
    await cluster.advance(10)
    await given(cluster, owner("rival", cpu="4", wish={}, **HIGH))
    await given(cluster, owner("meek", cpu="4", wish={}))
    assert await waits(cluster, "rival") and await waits(cluster, "meek")
    assert "Reservation(s) Insufficient cpu" in await cluster.why("rival")
    await given(cluster, stranger(cpu="8", **HIGH))
    await cluster.advance(60)
    assert await drawn_from(cluster, "urgent") == "r"
    assert await waits(cluster, "rival") and await waits(cluster, "meek")


@pytest.mark.parametrize("who", [stranger, held])
async def test_who_is_promised_held_room_does_not_take_it_twice(cluster, who):
    """A node of 16 CPUs, 8 of them held: the other half is for anybody, at once."""
    await given(cluster, a_priority_class(), node())
    await given(cluster, held(cpu="8", allocate_once=False, allocate_policy="Aligned"))
    await given(cluster, owner("low", cpu="8", **SLOW), filler("4", "f", **HIGH))
    await given(cluster, owner("urgent", cpu="8", wish={}, **HIGH))
    assert await leaving(cluster) == ["low"]
    assert (await cluster.pod("urgent")).status.nominated_node_name == "n1"
    await given(cluster, stranger("first", cpu="2"))
    assert await cluster.node_of("first") == "n1"
    more = {"owner_labels": {"app": "else"}, "allocate_policy": "Aligned"} if who is held else {}
    await given(cluster, who("other", cpu="2", **more))
    where = [cluster.node_of, lambda name: cluster.reservation(name)][who is held]
    found = await where("other")
    assert (found if who is stranger else found.status.node_name) == "n1"
    await given(cluster, stranger("too-much", cpu="1"))
    assert await waits(cluster, "too-much"), "the node is full"
    await cluster.advance(40)
    assert await drawn_from(cluster, "urgent") == "r"
    assert await waits(cluster, "too-much")


async def test_what_an_owner_needs_beyond_the_held_room_is_kept_for_it(cluster):
    await given(cluster, a_priority_class(), node())
    await given(cluster, held(cpu="8", allocate_once=False, allocate_policy="Aligned"))
    await given(cluster, owner("low", cpu="8", **SLOW), filler("4", "f", **HIGH))
    await given(cluster, owner("urgent", cpu="10", wish={}, **HIGH))
    assert await leaving(cluster) == ["low"]
    await given(cluster, stranger("fits", cpu="2"), stranger("does-not", cpu="1"))
    assert await cluster.node_of("fits") == "n1"
    assert await waits(cluster, "does-not")
    await cluster.advance(40)
    assert await drawn_from(cluster, "urgent") == "r"


async def test_a_nominated_owner_takes_no_more_than_its_own_room(cluster):
    """An owner of two reservations on a node is promised one; the other is for whoever comes."""
    await given(cluster, a_priority_class(), node(), filler("8", **HIGH))
    reusable = {"allocate_once": False, "allocate_policy": "Aligned"}
    await given(cluster, held("a", cpu="4", **reusable), held("b", cpu="4", **reusable))
    await given(cluster, owner("low", cpu="4", wish={"name": "a"}, **stopping(30)))
    await given(cluster, owner("urgent", cpu="4", wish={"name": "a"}, **HIGH))
    assert await leaving(cluster) == ["low"]
    await given(cluster, owner("second", cpu="4", **HIGH))
    await cluster.advance(40)
    assert await drawn_from(cluster, "urgent") == "a"
    assert await drawn_from(cluster, "second") == "b"
