"""Pods created with annotations of an allocation, mostly copied from another pod."""

import msgspec
import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from reservations.objects import (
    ALLOCATED,
    DRAWS,
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

IGNORING = {f"{PREFIX}/reservation-ignored": "true"}


async def copied(cluster, name="r"):
    """Return the annotation of a pod that was allocated from a reservation."""
    found = {"name": name, "uid": (await cluster.reservation(name)).uid}
    return {ALLOCATED: msgspec.json.encode(found).decode()}


@pytest.mark.parametrize("labels", [{}, IGNORING])
async def test_a_non_owner_with_an_annotation_allocates_nothing(cluster, labels):
    await create_each(cluster, node(), held(cpu="8", allocate_once=False))
    notes = await copied(cluster)
    await create_each(cluster, non_owner(cpu="8", labels=labels, annotations=notes))
    assert await cluster.node_of("stranger") == "n1"
    assert (await cluster.pod("stranger")).metadata.annotations[ALLOCATED] == ""
    assert await status(cluster) == ("Available", {}, [])
    await create_each(cluster, non_owner("second", cpu="8"))
    assert await is_pending(cluster, "second")
    await create_each(cluster, owner(cpu="8"))
    assert await allocated_from(cluster, "owner") == "r"


async def test_a_non_owner_with_an_annotation_stays_pending_like_others(cluster):
    await create_each(cluster, node(), held(cpu="8"), running("4"))
    await create_each(cluster, non_owner(cpu="8", annotations=await copied(cluster)))
    assert await is_pending(cluster, "stranger")
    assert "Insufficient cpu" in await cluster.why("stranger")


async def test_an_owner_without_a_reserved_resource_gets_empty_annotations(cluster):
    await create_each(cluster, node(), held(cpu="8"))
    notes = await copied(cluster)
    await create_each(cluster, owner(cpu=None, memory="1Gi", annotations=notes))
    assert await cluster.node_of("owner") == "n1"
    assert (await cluster.pod("owner")).metadata.annotations[ALLOCATED] == ""
    assert await status(cluster) == ("Available", {}, [])


async def test_annotations_copied_from_another_pod_are_overwritten(cluster):
    await create_each(cluster, node(), held(cpu="8", allocate_once=False))
    others = [{"name": x, "uid": x, "resources": {"cpu": "1"}} for x in "xy"]
    await create_each(
        cluster, owner(cpu="8", annotations={DRAWS: msgspec.json.encode(others).decode()})
    )
    assert await allocations(cluster, "owner") == {"r": {"cpu": "8000m"}}
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["owner"])
    await cluster.restart_components()
    assert requested(cluster) == 8000
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["owner"])


@pytest.mark.parametrize("made", [owner, non_owner])
async def test_a_pod_that_ignores_reservations_is_not_pre_allocated(cluster, made):
    await create_each(cluster, node(), made("p", cpu="16", labels=IGNORING))
    await create_each(cluster, held(cpu="16", pre_allocation=True))
    assert ALLOCATED not in (await cluster.pod("p")).metadata.annotations
    assert await status(cluster) == ("Waiting", {}, [])
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(60)
    assert await status(cluster) == ("Available", {}, [])


async def test_a_pod_whose_reservation_has_ended_may_be_pre_allocated(cluster):
    required = {f"{PREFIX}/pre-allocation-required": "true"}
    await create_each(cluster, node(), held("a", cpu="8"), held("b", memory="8Gi", cpu=None))
    await create_each(cluster, owner("p", cpu="16", memory="8Gi"))
    assert set(await allocations(cluster, "p")) == {"a", "b"}
    assert (await status(cluster, "a"))[0] == (await status(cluster, "b"))[0] == "Succeeded"
    await create_each(cluster, held(cpu="16", pre_allocation=True, labels=required))
    assert await allocated_from(cluster, "p") == "r"
    assert await status(cluster) == ("Waiting", {"cpu": "16"}, ["p"])
    assert requested(cluster) == 16_000
    await cluster.restart_components()
    assert (await status(cluster), requested(cluster)) == (
        ("Waiting", {"cpu": "16"}, ["p"]),
        16_000,
    )


async def test_a_pod_of_an_active_reservation_is_not_pre_allocated(cluster):
    required = {f"{PREFIX}/pre-allocation-required": "true"}
    await create_each(cluster, node(), held("a", cpu="8", allocate_once=False), owner("p", cpu="8"))
    await create_each(cluster, held(cpu="8", pre_allocation=True, labels=required))
    assert await allocated_from(cluster, "p") == "a"
    assert (await status(cluster))[0] == "Pending"
    await cluster.delete(RESERVATIONS, "a")
    await cluster.advance(400)
    assert await allocated_from(cluster, "p") == "r"
