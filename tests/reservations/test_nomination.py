"""Which of several reservations an owner uses, and which node is preferred for them."""

import pytest

from holdfast.api.scheme import PODS
from reservations.objects import (
    PREFIX,
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

ORDER = f"{PREFIX}/reservation-order"


def pinned(name, where, **more):
    return held(name, template={"node": where}, **more)


async def test_R042_the_node_whose_reservation_is_filled_best(cluster):
    await create_each(cluster, node("n1"), node("n2"))
    await create_each(cluster, pinned("large", "n1", cpu="4", memory="8Gi"))
    await create_each(cluster, pinned("right", "n2", cpu="2", memory="4Gi"))
    await create_each(cluster, owner(cpu="2", memory="4Gi"))
    assert (await cluster.node_of("owner"), await allocated_from(cluster, "owner")) == (
        "n2",
        "right",
    )


@pytest.mark.parametrize("sizes", [("4", "2"), ("2", "4")])
async def test_R043_of_two_on_a_node_the_one_that_fits_best(cluster, sizes):
    await create_each(cluster, node(), *[held(f"r{cpu}", cpu=cpu) for cpu in sizes])
    await create_each(cluster, owner(cpu="2"))
    assert await allocated_from(cluster, "owner") == "r2"


async def test_R044_order_label_beats_score(cluster):
    await create_each(cluster, node("n1"), node("n2"), node("n3"))
    await create_each(cluster, pinned("best", "n1", cpu="2", labels={ORDER: "100"}))
    await create_each(cluster, pinned("first", "n2", cpu="4", labels={ORDER: "50"}))
    await create_each(cluster, pinned("none", "n3", cpu="2", labels={ORDER: "0"}))
    await create_each(cluster, owner(cpu="2"))
    assert await allocated_from(cluster, "owner") == "first"


async def test_R044_order_label_beats_score_on_one_node_too(cluster):
    rooms = [("a", "2", {}), ("b", "2", {ORDER: "x"}), ("c", "4", {ORDER: "7"})]
    await create_each(
        cluster, node(), *[held(n, cpu=cpu, labels=labels) for n, cpu, labels in rooms]
    )
    await create_each(cluster, owner(cpu="2"))
    assert await allocated_from(cluster, "owner") == "c"


async def test_a_full_reservation_is_not_nominated_if_another_contributes(cluster):
    """The lowest order label is first, while something remains of that reservation."""
    await create_each(
        cluster, node(), held("first", cpu="2", labels={ORDER: "1"}, allocate_once=False)
    )
    await create_each(cluster, held("second", cpu="4", labels={ORDER: "2"}, allocate_once=False))
    await create_each(cluster, owner("a", cpu="2"), owner("b", cpu="2"))
    assert [await allocated_from(cluster, name) for name in "ab"] == ["first", "second"]
    assert await status(cluster, "first") == ("Available", {"cpu": "2"}, ["a"])
    assert await status(cluster, "second") == ("Available", {"cpu": "2"}, ["b"])


async def test_the_lowest_order_is_nominated_while_anything_remains(cluster):
    await create_each(
        cluster, node(), held("first", cpu="3", labels={ORDER: "1"}, allocate_once=False)
    )
    await create_each(cluster, held("second", cpu="4", labels={ORDER: "2"}, allocate_once=False))
    await create_each(cluster, owner("a", cpu="2"), owner("b", cpu="2"))
    assert [await allocated_from(cluster, name) for name in "ab"] == ["first", "first"]
    assert await allocations(cluster, "b") == {
        "first": {"cpu": "1000m"},
        "second": {"cpu": "1000m"},
    }


async def test_a_full_reservation_does_not_attract_owners_to_its_node(cluster):
    await create_each(cluster, node("n1"), node("n2"))
    for name, where, order in (("a", "n1", "1"), ("b", "n1", "3"), ("c", "n2", "2")):
        labels = {ORDER: order}
        await create_each(cluster, pinned(name, where, cpu="2", labels=labels, allocate_once=False))
    for name in ("first", "second"):
        await create_each(cluster, owner(name, cpu="2"))
    assert [await allocated_from(cluster, name) for name in ("first", "second")] == ["a", "c"]


async def test_when_all_are_full_none_is_nominated(cluster):
    await create_each(
        cluster, node(), held("first", cpu="2", labels={ORDER: "1"}, allocate_once=False)
    )
    await create_each(cluster, held("second", cpu="2", labels={ORDER: "2"}, allocate_once=False))
    await create_each(cluster, owner("a", cpu="2"), owner("b", cpu="2"), owner("c", cpu="2"))
    assert (await cluster.node_of("c"), await allocated_from(cluster, "c")) == ("n1", None)


@pytest.mark.parametrize("policy", ["", "Aligned"])
async def test_R096_a_full_reservation_accepts_no_owner(cluster, policy):
    await create_each(cluster, node(), held(cpu="1", allocate_once=False, allocate_policy=policy))
    await create_each(cluster, owner("first", cpu="1"), owner("second", cpu="1"))
    assert [await allocated_from(cluster, name) for name in ("first", "second")] == ["r", None]
    assert await cluster.node_of("second") == "n1"
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["first"])
    await cluster.delete(PODS, "first", "default")
    await cluster.advance(12)
    await create_each(cluster, owner("third", cpu="1"))
    assert await allocated_from(cluster, "third") == "r"
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["third"])


async def test_R096_a_further_pod_needs_unreserved_resources(cluster):
    await create_each(cluster, node(), running("14"), held(cpu="1", allocate_once=False))
    await create_each(cluster, *[owner(name, cpu="1") for name in ("first", "second", "third")])
    assert [await cluster.node_of(n) for n in ("first", "second", "third")] == ["n1", "n1", ""]
    assert "Insufficient cpu by node" in await cluster.why("third")
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["first"])


async def test_R096_one_resource_with_a_remainder_is_enough(cluster):
    await create_each(cluster, node(), held(cpu="1", memory="2Gi", allocate_once=False))
    await create_each(cluster, owner("first", cpu="1", memory="1Gi"))
    await create_each(cluster, owner("second", cpu="1", memory="1Gi"), owner("third", cpu="1"))
    names = ("first", "second", "third")
    assert [await allocated_from(cluster, name) for name in names] == ["r", "r", None]
    assert (await status(cluster))[1:] == ({"cpu": "2", "memory": "2Gi"}, ["first", "second"])


async def test_R096_a_remaining_host_port_is_enough(cluster):
    await create_each(cluster, node(), held(cpu="1", ports=[7777, 8888], allocate_once=False))
    await create_each(cluster, owner("first", cpu="1", ports=[7777]))
    await create_each(cluster, owner("second", cpu="1", ports=[9999]), owner("third", ports=[8888]))
    names = ("first", "second", "third")
    assert [await allocated_from(cluster, name) for name in names] == ["r", None, "r"]


async def test_R096_with_a_required_affinity_a_full_reservation_is_used(cluster):
    await create_each(cluster, node(), held(cpu="1", allocate_once=False))
    await create_each(
        cluster, owner("first", cpu="1"), owner("second", cpu="1", reservation_affinity={})
    )
    assert [await allocated_from(cluster, name) for name in ("first", "second")] == ["r", "r"]


async def test_R096_a_restart_does_not_allocate_to_the_further_pod(cluster):
    await create_each(cluster, node(), held(cpu="1", allocate_once=False))
    await create_each(cluster, owner("first", cpu="1"), owner("second", cpu="1"))
    await cluster.restart()
    assert await status(cluster) == ("Available", {"cpu": "1"}, ["first"])
    await create_each(cluster, owner("third", cpu="1"))
    assert await allocated_from(cluster, "third") is None


async def test_R045_a_node_with_a_reservation_is_preferred(cluster):
    await create_each(cluster, *[node(f"n{i}") for i in range(5)], pinned("r", "n3", cpu="2"))
    await create_each(cluster, owner(cpu="1"))
    assert await cluster.node_of("owner") == "n3"


@pytest.mark.parametrize(("who", "where"), [(non_owner, "n2"), (owner, "n1")])
async def test_scores_do_not_count_what_is_held_for_the_pod(cluster, who, where):
    """A pod larger than its reservations is scored by what other pods request on the nodes."""
    await create_each(cluster, node("n1"), node("n2"), running("1", node="n2"))
    await create_each(cluster, pinned("large", "n1", cpu="3", allocate_policy="Aligned"))
    await create_each(cluster, pinned("small", "n2", cpu="1", allocate_policy="Aligned"))
    await create_each(cluster, who("p", cpu="4"))
    assert await cluster.node_of("p") == where


async def test_R089_of_equal_reservations_the_oldest_is_used(cluster):
    await create_each(cluster, node())
    for name in ("m", "z", "a"):
        await create_each(cluster, held(name, cpu="4", allocate_once=False))
        await cluster.advance(2)
    await create_each(cluster, owner(cpu="1"))
    assert await allocated_from(cluster, "owner") == "m"
    assert (await status(cluster, "m"))[2] == ["owner"]


async def test_R095_owners_fill_all_their_reservations(cluster):
    """The same with 2,000 owners, without an API server, is in tests/state/reservations."""
    await cluster.create(*[node(f"n{i}") for i in range(5)])
    rooms = [
        pinned(f"r{i}", f"n{i % 5}", cpu="1", memory="1Gi", allocate_once=False) for i in range(10)
    ]
    await cluster.create(*rooms)
    await cluster.create(*[owner(f"o{i}", cpu="200m") for i in range(50)])
    owners = [len((await status(cluster, f"r{i}"))[2]) for i in range(10)]
    assert owners == [5] * 10


async def test_the_largest_order_label_comes_before_no_label(cluster):
    last = {ORDER: str(2**63 - 1)}
    await create_each(cluster, node(), held("plain", cpu="4", allocate_policy="Aligned"))
    await create_each(cluster, held("last", cpu="4", allocate_policy="Aligned", labels=last))
    await create_each(cluster, owner(cpu="4"))
    assert await allocated_from(cluster, "owner") == "last"
