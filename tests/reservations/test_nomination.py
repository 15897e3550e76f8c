"""Which of several reservations an owner takes, and which node it likes for them."""

import pytest

from holdfast.api.scheme import PODS
from reservations.rooms import (
    PREFIX,
    drawn_from,
    draws,
    filler,
    given,
    held,
    node,
    owner,
    status,
    stranger,
)

ORDER = f"{PREFIX}/reservation-order"


def pinned(name, where, **more):
    return held(name, template={"node": where}, **more)


async def test_R042_the_node_whose_reservation_is_filled_best(cluster):
    await given(cluster, node("n1"), node("n2"))
    await given(cluster, pinned("large", "n1", cpu="4", memory="8Gi"))
    await given(cluster, pinned("right", "n2", cpu="2", memory="4Gi"))
    await given(cluster, owner(cpu="2", memory="4Gi"))
    assert (await cluster.node_of("owner"), await drawn_from(cluster, "owner")) == ("n2", "right")


@pytest.mark.parametrize("sizes", [("4", "2"), ("2", "4")])
async def test_R043_of_two_on_a_node_the_one_that_fits_best(cluster, sizes):
    await given(cluster, node(), *[held(f"r{cpu}", cpu=cpu) for cpu in sizes])
    await given(cluster, owner(cpu="2"))
    assert await drawn_from(cluster, "owner") == "r2"


async def test_R044_order_label_beats_score(cluster):
    await given(cluster, node("n1"), node("n2"), node("n3"))
    await given(cluster, pinned("best", "n1", cpu="2", labels={ORDER: "100"}))
    await given(cluster, pinned("first", "n2", cpu="4", labels={ORDER: "50"}))
    await given(cluster, pinned("none", "n3", cpu="2", labels={ORDER: "0"}))
    await given(cluster, owner(cpu="2"))
    assert await drawn_from(cluster, "owner") == "first"


async def test_R044_order_label_beats_score_on_one_node_too(cluster):
    rooms = [("a", "2", {}), ("b", "2", {ORDER: "x"}), ("c", "4", {ORDER: "7"})]
    await given(cluster, node(), *[held(n, cpu=cpu, labels=labels) for n, cpu, labels in rooms])
    await given(cluster, owner(cpu="2"))
    assert await drawn_from(cluster, "owner") == "c"


async def test_a_full_one_is_not_named_for_what_another_gives(cluster):
    """The lowest order first, while there is something left of it."""
    await given(cluster, node(), held("first", cpu="2", labels={ORDER: "1"}, allocate_once=False))
    await given(cluster, held("second", cpu="4", labels={ORDER: "2"}, allocate_once=False))
    await given(cluster, owner("a", cpu="2"), owner("b", cpu="2"))
    assert [await drawn_from(cluster, name) for name in "ab"] == ["first", "second"]
    assert await status(cluster, "first") == ("Available", {"cpu": "2"}, ["a"])
    assert await status(cluster, "second") == ("Available", {"cpu": "2"}, ["b"])


async def test_the_lowest_order_is_named_while_anything_is_left_of_it(cluster):
    await given(cluster, node(), held("first", cpu="3", labels={ORDER: "1"}, allocate_once=False))
    await given(cluster, held("second", cpu="4", labels={ORDER: "2"}, allocate_once=False))
    await given(cluster, owner("a", cpu="2"), owner("b", cpu="2"))
    assert [await drawn_from(cluster, name) for name in "ab"] == ["first", "first"]
    assert await draws(cluster, "b") == {"first": {"cpu": "1000m"}, "second": {"cpu": "1000m"}}


async def test_a_full_one_draws_nobody_to_its_node(cluster):
    await given(cluster, node("n1"), node("n2"))
    for name, where, order in (("a", "n1", "1"), ("b", "n1", "3"), ("c", "n2", "2")):
        labels = {ORDER: order}
        await given(cluster, pinned(name, where, cpu="2", labels=labels, allocate_once=False))
    for name in ("first", "second"):
        await given(cluster, owner(name, cpu="2"))
    assert [await drawn_from(cluster, name) for name in ("first", "second")] == ["a", "c"]


async def test_when_all_are_full_none_is_named(cluster):
    await given(cluster, node(), held("first", cpu="2", labels={ORDER: "1"}, allocate_once=False))
    await given(cluster, held("second", cpu="2", labels={ORDER: "2"}, allocate_once=False))
    await given(cluster, owner("a", cpu="2"), owner("b", cpu="2"), owner("c", cpu="2"))
    assert (await cluster.node_of("c"), await drawn_from(cluster, "c")) == ("n1", None)


@pytest.mark.parametrize("policy", ["", "Aligned"])
async def test_R096_a_reservation_of_which_nothing_is_left_takes_no_owner(cluster, policy):
    await given(cluster, node(), held(cpu="1", allocate_once=False, allocate_policy=policy))
    await given(cluster, owner("first", cpu="1"), owner("second", cpu="1"))
    assert [await drawn_from(cluster, name) for name in ("first", "second")] == ["r", None]
    assert await cluster.node_of("second") == "n1"
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["first"])
    await cluster.delete(PODS, "first", "default")
    await cluster.advance(12)
    await given(cluster, owner("third", cpu="1"))
    assert await drawn_from(cluster, "third") == "r"
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["third"])


async def test_R096_the_further_pod_needs_room_beside_the_reservation(cluster):
    await given(cluster, node(), filler("14"), held(cpu="1", allocate_once=False))
    await given(cluster, *[owner(name, cpu="1") for name in ("first", "second", "third")])
    assert [await cluster.node_of(n) for n in ("first", "second", "third")] == ["n1", "n1", ""]
    assert "Insufficient cpu by node" in await cluster.why("third")
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["first"])


async def test_R096_something_left_of_one_resource_is_enough(cluster):
    await given(cluster, node(), held(cpu="1", memory="2Gi", allocate_once=False))
    await given(cluster, owner("first", cpu="1", memory="1Gi"))
    await given(cluster, owner("second", cpu="1", memory="1Gi"), owner("third", cpu="1"))
    names = ("first", "second", "third")
    assert [await drawn_from(cluster, name) for name in names] == ["r", "r", None]
    assert (await status(cluster))[1:] == ({"cpu": "2", "memory": "2Gi"}, ["first", "second"])


async def test_R096_a_host_port_that_is_left_is_enough(cluster):
    await given(cluster, node(), held(cpu="1", ports=[7777, 8888], allocate_once=False))
    await given(cluster, owner("first", cpu="1", ports=[7777]))
    await given(cluster, owner("second", cpu="1", ports=[9999]), owner("third", ports=[8888]))
    names = ("first", "second", "third")
    assert [await drawn_from(cluster, name) for name in names] == ["r", None, "r"]


async def test_R096_with_a_required_affinity_a_full_reservation_is_used(cluster):
    await given(cluster, node(), held(cpu="1", allocate_once=False))
    await given(cluster, owner("first", cpu="1"), owner("second", cpu="1", wish={}))
    assert [await drawn_from(cluster, name) for name in ("first", "second")] == ["r", "r"]


async def test_R096_a_restart_keeps_the_further_pod_outside(cluster):
    await given(cluster, node(), held(cpu="1", allocate_once=False))
    await given(cluster, owner("first", cpu="1"), owner("second", cpu="1"))
    await cluster.restart()
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["first"])
    await given(cluster, owner("third", cpu="1"))
    assert await drawn_from(cluster, "third") is None


async def test_R045_the_reserved_node_wins(cluster):
    await given(cluster, *[node(f"n{i}") for i in range(5)], pinned("r", "n3", cpu="2"))
    await given(cluster, owner(cpu="1"))
    assert await cluster.node_of("owner") == "n3"


@pytest.mark.parametrize(("who", "where"), [(stranger, "n2"), (owner, "n1")])
async def test_what_is_held_for_it_does_not_count_as_taken_by_any_score(cluster, who, where):
    """Larger than either reservation it is scored by what others take of the nodes."""
    await given(cluster, node("n1"), node("n2"), filler("1", node="n2"))
    await given(cluster, pinned("large", "n1", cpu="3", allocate_policy="Aligned"))
    await given(cluster, pinned("small", "n2", cpu="1", allocate_policy="Aligned"))
    await given(cluster, who("p", cpu="4"))
    assert await cluster.node_of("p") == where


async def test_R089_of_equals_the_oldest_is_used(cluster):
    await given(cluster, node())
    for name in ("m", "z", "a"):
        await given(cluster, held(name, cpu="4", allocate_once=False))
        await cluster.advance(2)
    await given(cluster, owner(cpu="1"))
    assert await drawn_from(cluster, "owner") == "m"
    assert (await status(cluster, "m"))[2] == ["owner"]


async def test_R095_owners_fill_their_reservations_to_the_last(cluster):
    """The same with 2,000 owners, decided without a server, is in tests/capacity."""
    await cluster.create(*[node(f"n{i}") for i in range(5)])
    rooms = [
        pinned(f"r{i}", f"n{i % 5}", cpu="1", memory="1Gi", allocate_once=False) for i in range(10)
    ]
    await cluster.create(*rooms)
    await cluster.create(*[owner(f"o{i}", cpu="200m") for i in range(50)])
    owners = [len((await status(cluster, f"r{i}"))[2]) for i in range(10)]
    assert owners == [5] * 10


async def test_the_largest_order_label_there_can_be_still_comes_before_none(cluster):
    last = {ORDER: str(2**63 - 1)}
    await given(cluster, node(), held("plain", cpu="4", allocate_policy="Aligned"))
    await given(cluster, held("last", cpu="4", allocate_policy="Aligned", labels=last))
    await given(cluster, owner(cpu="4"))
    assert await drawn_from(cluster, "owner") == "last"
