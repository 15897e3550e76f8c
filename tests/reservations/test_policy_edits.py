"""An edited allocatePolicy is judged as that of a new reservation."""

import pytest

from holdfast.api.scheme import RESERVATIONS
from reservations.objects import (
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    owner,
    ready,
    requested,
    status,
)

CONFLICT = ("False", "PolicyConflict")
READY = ("True", "Available")


async def edit(cluster, policy, name="r"):
    await cluster.client.patch(RESERVATIONS, name, {"spec": {"allocatePolicy": policy}})
    await cluster.settle()


async def two(cluster, policy=""):
    await create_each(cluster, node())
    for name in ("r", "beside"):
        labels = {"app": name}
        await create_each(
            cluster, held(name, cpu="4", owner_labels=labels, allocate_policy=policy, ttl="1h")
        )


@pytest.mark.parametrize("policy", ["Restricted", "Aligned"])
async def test_edited_beside_another_it_gets_no_owner_and_says_so(cluster, policy):
    await two(cluster)
    await edit(cluster, policy)
    assert (await ready(cluster), await ready(cluster, "beside")) == (CONFLICT, READY)
    message = (await cluster.reservation("r")).condition("Ready").message
    assert f"spec.allocatePolicy: {policy} conflicts with beside on node n1" in message
    assert [reason for reason, _ in await cluster.events("r")].count("PolicyConflict") == 1
    await create_each(cluster, owner(cpu="4", labels={"app": "r"}))
    await create_each(cluster, owner("other", cpu="4", labels={"app": "beside"}))
    assert [await allocated_from(cluster, n) for n in ("owner", "other")] == [None, "beside"]
    assert requested(cluster) == 12_000, "it holds what it held"


async def test_edited_back_it_is_ready_again(cluster):
    await two(cluster)
    await edit(cluster, "Restricted")
    await create_each(cluster, owner(cpu="4", labels={"app": "r"}, reservation_affinity={}))
    assert await is_pending(cluster, "owner")
    await edit(cluster, "")
    assert await allocated_from(cluster, "owner") == "r"


async def test_when_the_other_is_gone_it_is_ready(cluster):
    await two(cluster)
    await edit(cluster, "Restricted")
    await cluster.delete(RESERVATIONS, "beside")
    await cluster.advance(2)
    assert await ready(cluster) == READY


async def test_when_the_other_is_used_it_is_ready(cluster):
    await two(cluster, "Aligned")
    await edit(cluster, "")
    assert await ready(cluster) == CONFLICT
    await create_each(cluster, owner(cpu="4", labels={"app": "beside"}))
    await cluster.advance(2)
    assert (await status(cluster, "beside"))[0] == "Succeeded"
    assert await ready(cluster) == READY


async def test_between_policies_it_may_be_edited(cluster):
    await two(cluster, "Aligned")
    await edit(cluster, "Restricted")
    assert await ready(cluster) == READY


async def test_after_a_restart_the_edited_one_is_still_the_one(cluster):
    await two(cluster)
    await edit(cluster, "Restricted")
    await cluster.restart_components()
    await cluster.advance(5)
    assert (await ready(cluster), await ready(cluster, "beside")) == (CONFLICT, READY)
    await create_each(cluster, owner(cpu="4", labels={"app": "r"}))
    assert await allocated_from(cluster, "owner") is None


async def test_an_edit_during_a_restart_is_judged_too(cluster):
    await two(cluster)
    async with cluster.components_stopped():
        await edit(cluster, "Restricted")
    await cluster.advance(5)
    assert sorted([await ready(cluster), await ready(cluster, "beside")]) == [CONFLICT, READY]


async def test_a_new_reservation_does_not_suffer_from_one_in_conflict(cluster):
    await two(cluster)
    await edit(cluster, "Restricted")
    await create_each(cluster, held("late", cpu="1"))
    assert (await status(cluster, "late"))[0] == "Available"
    assert await ready(cluster, "late") == READY
