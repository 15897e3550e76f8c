"""The policies Default, Aligned and Restricted: what an owner may use beside its reservation."""

import pytest

from reservations.objects import (
    PREFIX,
    allocated_from,
    allocations,
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

INNER = "node.koordinator.sh/reservation"
OPTIONS = f"{PREFIX}/reservation-restricted-options"
FAKE = "example.com/fake"


def named(name):
    return {"name": name}


def aligned(name="r", **more):
    return held(name, allocate_policy="Aligned", **more)


def restricted(name="r", **more):
    return held(name, allocate_policy="Restricted", **more)


@pytest.mark.parametrize(("used", "fits"), [("8", True), ("10", False)])
async def test_R019_an_owner_of_an_aligned_reservation_may_add_free_resources(cluster, used, fits):
    await create_each(cluster, node(), aligned(cpu="6"), running(used), owner(cpu="8"))
    assert await allocated_from(cluster, "owner") == ("r" if fits else None)
    if not fits:
        assert "1 Insufficient cpu by node" in await cluster.why("owner")


async def test_R020_a_restricted_reservation_limits_the_resources_it_reserves(cluster):
    await create_each(
        cluster, node(), restricted(cpu="6"), owner("big", cpu="7", reservation_affinity="{}")
    )
    assert "1 Reservation(s) Insufficient cpu" in await cluster.why("big")
    await cluster.create(owner(cpu="6", memory="8Gi"))
    assert await allocated_from(cluster, "owner") == "r"


async def four_owners(cluster, policy):
    room = held(cpu="4", memory="8Gi", allocate_once=False, allocate_policy=policy)
    await create_each(cluster, node(), room)
    await create_each(cluster, *[owner(f"o{i}", cpu="2", memory="2Gi") for i in range(2)])
    await cluster.create(owner("third", cpu=None, memory="3Gi"))
    await cluster.create(owner("fourth", cpu=None, memory="2Gi"))


async def test_R021_the_fourth_owner_does_not_fit_in_a_restricted_reservation(cluster):
    await four_owners(cluster, "Restricted")
    assert "1 Reservation(s) Insufficient memory" in await cluster.why("fourth")
    assert len((await status(cluster))[2]) == 3


async def test_R022_the_fourth_owner_fits_in_an_aligned_reservation(cluster):
    await four_owners(cluster, "Aligned")
    _, allocated, owners = await status(cluster)
    assert (allocated["memory"], len(owners)) == ("9Gi", 4)


async def test_R023_aligned_reservations_do_not_add_up(cluster):
    more = {"allocatable": {FAKE: "1000"}}
    await create_each(
        cluster, node(**more), *[aligned(f"r{i}", requests={FAKE: "200"}) for i in "12345"]
    )
    await cluster.create(owner("big", requests={FAKE: "300"}, limits={FAKE: "300"}))
    assert await is_pending(cluster, "big")
    await cluster.create(owner(requests={FAKE: "200"}, limits={FAKE: "200"}))
    assert await allocated_from(cluster, "owner")


async def test_R024_restricted_options_name_the_limited_resources(cluster):
    options = {OPTIONS: '{"resources":["cpu"]}'}
    await create_each(
        cluster, node(), restricted(cpu="4", memory="4Gi", annotations=options, allocate_once=False)
    )
    await cluster.create(owner("big", cpu="5"))
    assert "1 Reservation(s) Insufficient cpu" in await cluster.why("big")
    await cluster.create(owner(cpu="4", memory="6Gi"))
    assert await allocated_from(cluster, "owner") == "r"


async def test_R025_a_restricted_reservation_may_limit_the_number_of_owners(cluster):
    await create_each(
        cluster, node(), restricted(cpu="8", requests={"pods": "2"}, allocate_once=False)
    )
    await create_each(cluster, *[owner(f"o{i}") for i in range(2)])
    await cluster.create(owner("third"))
    assert "1 Reservation(s) Too many pods" in await cluster.why("third")


async def test_R026_inner_reserved_amounts_cannot_be_allocated(cluster):
    kept = {INNER: '{"resources":{"cpu":"1"}}'}
    await create_each(cluster, node(), restricted(cpu="7", annotations=kept, allocate_once=False))
    await cluster.create(owner("first", cpu="2"))
    await cluster.create(owner("big", cpu="5", reservation_affinity=named("r")))
    words = "Reservation(s) Insufficient cpu, requested: 5000, used: 2000, capacity: 6000"
    assert words in await cluster.why("big")
    await cluster.create(owner("fits", cpu="4"))
    assert await allocated_from(cluster, "fits") == "r"


@pytest.mark.parametrize(
    ("there", "coming", "conflict"),
    [(None, "Aligned", True), ("Restricted", None, True), ("Aligned", "Restricted", False)],
)
async def test_R027_the_default_policy_shares_no_node_with_another(
    cluster, there, coming, conflict
):
    await create_each(
        cluster, node(), held(allocate_policy=there), held("new", allocate_policy=coming)
    )
    found = await cluster.reservation("new")
    assert (found.phase == "Pending") is conflict
    if conflict:
        words = "node(s) reservation allocate policy conflict"
        assert words in found.status.conditions[0].message


async def test_R028_two_aligned_reservations_do_not_serve_one_owner(cluster):
    await create_each(cluster, node(), aligned("a", cpu="4"), aligned("b", cpu=None, memory="8Gi"))
    await cluster.create(running("12", memory="24Gi"), owner(cpu="4", memory="8Gi"))
    assert await is_pending(cluster, "owner")


async def test_R091_default_reservations_add_up_also_after_a_restart(cluster):
    await create_each(cluster, 
        node(), held("a", cpu="4", allocate_once=False),
        held("b", cpu=None, memory="8Gi", allocate_once=False),
    )  # fmt: skip
    await cluster.create(running("12", memory="24Gi"), owner(cpu="4", memory="8Gi"))
    assert await allocations(cluster, "owner") == {
        "a": {"cpu": "4000m"},
        "b": {"memory": str(8 * 2**30)},
    }
    expected = [
        ("Available", {"cpu": "4"}, ["owner"]),
        ("Available", {"memory": "8Gi"}, ["owner"]),
    ]
    assert [await status(cluster, name) for name in "ab"] == expected
    before = [requested(cluster, resource) for resource in (0, 1, 3)]
    await cluster.restart()
    assert [await status(cluster, name) for name in "ab"] == expected
    assert [requested(cluster, resource) for resource in (0, 1, 3)] == before


async def test_R092_inner_reserved_amounts_stay_held_beside_large_owners(cluster):
    kept = {INNER: '{"resources":{"cpu":"1"}}'}
    await create_each(
        cluster, node(cpu="12"), aligned(cpu="7", annotations=kept, allocate_once=False)
    )
    await cluster.create(owner("first", cpu="2"), owner("large", cpu="7"))
    assert await allocated_from(cluster, "large") == "r"
    assert requested(cluster) == 10_000


async def test_R092_with_too_little_free_the_owner_stays_pending(cluster):
    kept = {INNER: '{"resources":{"cpu":"1"}}'}
    await create_each(
        cluster, node(cpu="9"), aligned(cpu="7", annotations=kept, allocate_once=False)
    )
    await cluster.create(owner("first", cpu="2"), owner("large", cpu="7"))
    assert "1 Insufficient cpu by node" in await cluster.why("large")


async def test_an_inner_reserved_pod_slot_cannot_be_allocated(cluster):
    kept = {INNER: '{"resources":{"pods":"1"}}'}
    await create_each(cluster, node(pods="3"))
    await create_each(
        cluster,
        held(
            cpu="4", requests={"pods": "2"}, allocate_once=False, allocate_policy="Restricted",
            annotations=kept,
        ),
    )  # fmt: skip
    await create_each(cluster, owner("first", cpu="1"), owner("second", cpu="1"))
    assert await allocated_from(cluster, "first") == "r"
    assert "Reservation(s) Too many pods" in await cluster.why("second")
    # One slot is the first owner's, one is reserved inside, one is free for all pods.
    await create_each(cluster, non_owner("third"), non_owner("fourth"))
    assert (await cluster.node_of("third"), await is_pending(cluster, "fourth")) == ("n1", True)
