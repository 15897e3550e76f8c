"""Reservations and policies: reserved resources bypass neither units nor caps."""

import pytest

from holdfast.testing import a_reservation
from policies.objects import (
    UNIT_FULL,
    WEB,
    create_each,
    event_messages,
    node_of,
    od,
    place,
    pod,
    pods_in_table,
    policy,
    spot,
    why,
)
from reservations.objects import AFFINITY, allocated_from


def reserved_on(node, name="r", **more):
    """A reservation for the pods of `web` on one node."""
    return a_reservation(
        name, owner_labels={"app": "web"}, template={"node": node}, allocate_once=False, **more
    )


async def test_P048_required_units_exclude_a_reservation_outside_of_them(required):
    await required.create(reserved_on("c1"))
    assert (await required.reservation("r")).status.node_name == "c1"
    assert await place(required, 6) == ["a", "a", "b", "b", "b", ""]
    assert await allocated_from(required, "w0", WEB) is None


async def test_P048_with_prefer_units_come_before_the_reservation(governed):
    await governed.create(reserved_on("c1"))
    assert await place(governed, 6) == ["a", "a", "b", "b", "b", "c"]
    used = [await allocated_from(governed, f"w{i}", WEB) for i in range(6)]
    assert used == [None, None, None, None, None, "r"]


async def test_P048_with_the_units_out_of_cpu_the_reservation_is_used(governed):
    fillers = [pod(f"f-{n}", app="x", cpu="8", node=n) for n in ("a1", "a2", "b1", "b2")]
    await create_each(governed, reserved_on("c1", cpu="8"), *fillers)
    assert await place(governed, 1) == ["c"]
    assert await allocated_from(governed, "w0", WEB) == "r"


async def test_a_reservation_does_not_count(governed):
    await create_each(governed, *(reserved_on(f"a{i}", f"r{i}") for i in (1, 2)))
    assert await place(governed, 3) == ["a", "a", "b"]


async def test_an_owner_counts_where_it_lands(governed):
    await create_each(governed, reserved_on("a1", cpu="4"))
    assert await place(governed, 2) == ["a", "a"]
    assert [await allocated_from(governed, f"w{i}", WEB) for i in range(2)] == ["r", "r"]
    assert pods_in_table(governed) == {"a": 2}
    # The reservation has CPU left for two more owners, but its unit is full.
    assert await place(governed, 1, "x") == ["b"]
    assert await event_messages(governed, UNIT_FULL, "x0") == ["unit od is full (2/2)"]


async def test_a_reservation_breaks_ties_inside_a_tier(governed):
    await create_each(governed, reserved_on("a2", cpu="1"), reserved_on("b1", "lower", cpu="4"))
    assert await place(governed, 1) == ["a"]
    assert await node_of(governed, "w0") == "a2"


@pytest.mark.parametrize("where", ["c1", "a1"])
async def test_a_required_reservation_outside_the_open_units_names_both(required, where):
    """On c1 it is in no unit, on a1 its unit is full."""
    await required.create(reserved_on(where, cpu="4"))
    if where == "a1":
        await create_each(required, pod("x", node="a2"), pod("y", node="a2"))
    asking = pod("w", annotations={AFFINITY: "{}"})
    await required.create(asking)
    assert await node_of(required) == ""
    message = await why(required)
    rule = {
        "c1": "node matches no unit of ResourcePolicy web/p",
        "a1": "unit od is full (2/2)",
    }[where]
    assert message.startswith(
        f"0/5 nodes are available: 1 {rule}, 4 node(s) didn't satisfy plugin(s) [Reservation]. "
    )
    assert message.endswith(
        f"1 Reservation(s) for node reason that {rule}, 1 Reservation(s) matched owner total"
    )
    if where == "c1":
        assert "5 Preemption is not helpful for scheduling" in message


async def test_a_required_reservation_inside_an_open_unit_is_used(required):
    await required.create(reserved_on("b2", cpu="4"))
    await required.create(pod("w", annotations={AFFINITY: "{}"}))
    assert await node_of(required) == "b2"
    assert await allocated_from(required, "w", WEB) == "r"


async def test_units_without_caps_and_reservations_together_hold_all_cpu(cluster):
    await cluster.create(policy(units=[od(max_count=None), spot(max_count=None)]))
    await create_each(cluster, reserved_on("b1", cpu="8"))
    assert await place(cluster, 17) == ["a"] * 16 + ["b"]
    assert await node_of(cluster, "w16") == "b1"
