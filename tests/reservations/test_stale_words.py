"""Pods that say they draw on a reservation before they were given any: copied manifests, mostly."""

import msgspec
import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from reservations.rooms import (
    ALLOCATED,
    DRAWS,
    PREFIX,
    drawn_from,
    draws,
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

IGNORING = {f"{PREFIX}/reservation-ignored": "true"}


async def copied(cluster, name="r"):
    """What a pod carries that was allocated from a reservation."""
    found = {"name": name, "uid": (await cluster.reservation(name)).uid}
    return {ALLOCATED: msgspec.json.encode(found).decode()}


@pytest.mark.parametrize("labels", [{}, IGNORING])
async def test_a_stranger_with_an_owners_annotation_draws_on_nothing(cluster, labels):
    await given(cluster, node(), held(cpu="8", allocate_once=False))
    notes = await copied(cluster)
    await given(cluster, stranger(cpu="8", labels=labels, annotations=notes))
    assert await cluster.node_of("stranger") == "n1"
    assert (await cluster.pod("stranger")).metadata.annotations[ALLOCATED] == ""
    assert await status(cluster) == ("Available", {}, [])
    await given(cluster, stranger("second", cpu="8"))
    assert await waits(cluster, "second")
    await given(cluster, owner(cpu="8"))
    assert await drawn_from(cluster, "owner") == "r"


async def test_a_stranger_with_an_owners_annotation_waits_like_any_other(cluster):
    await given(cluster, node(), held(cpu="8"), filler("4"))
    await given(cluster, stranger(cpu="8", annotations=await copied(cluster)))
    assert await waits(cluster, "stranger")
    assert "Insufficient cpu" in await cluster.why("stranger")


async def test_an_owner_that_shares_nothing_says_nothing(cluster):
    await given(cluster, node(), held(cpu="8"))
    notes = await copied(cluster)
    await given(cluster, owner(cpu=None, memory="1Gi", annotations=notes))
    assert await cluster.node_of("owner") == "n1"
    assert (await cluster.pod("owner")).metadata.annotations[ALLOCATED] == ""
    assert await status(cluster) == ("Available", {}, [])


async def test_an_owner_with_draws_of_another_says_what_it_drew_itself(cluster):
    await given(cluster, node(), held(cpu="8", allocate_once=False))
    others = [{"name": x, "uid": x, "resources": {"cpu": "1"}} for x in "xy"]
    await given(cluster, owner(cpu="8", annotations={DRAWS: msgspec.json.encode(others).decode()}))
    assert await draws(cluster, "owner") == {"r": {"cpu": "8000m"}}
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["owner"])
    await cluster.restart_components()
    assert requested(cluster) == 8000
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["owner"])


@pytest.mark.parametrize("made", [owner, stranger])
async def test_a_reservation_inherits_from_nobody_who_ignores_it_and_waits_all_the_same(
    cluster, made
):
    await given(cluster, node(), made("p", cpu="16", labels=IGNORING))
    await given(cluster, held(cpu="16", pre_allocation=True))
    assert ALLOCATED not in (await cluster.pod("p")).metadata.annotations
    assert await status(cluster) == ("Waiting", {}, [])
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(60)
    assert await status(cluster) == ("Available", {}, [])


async def test_a_reservation_inherits_from_pods_whose_own_has_ended(cluster):
    required = {f"{PREFIX}/pre-allocation-required": "true"}
    await given(cluster, node(), held("a", cpu="8"), held("b", memory="8Gi", cpu=None))
    await given(cluster, owner("p", cpu="16", memory="8Gi"))
    assert set(await draws(cluster, "p")) == {"a", "b"}
    assert (await status(cluster, "a"))[0] == (await status(cluster, "b"))[0] == "Succeeded"
    await given(cluster, held(cpu="16", pre_allocation=True, labels=required))
    assert await drawn_from(cluster, "p") == "r"
    assert await status(cluster) == ("Waiting", {"cpu": "16"}, ["p"])
    assert requested(cluster) == 16_000
    await cluster.restart_components()
    assert (await status(cluster), requested(cluster)) == (
        ("Waiting", {"cpu": "16"}, ["p"]),
        16_000,
    )


async def test_a_reservation_inherits_from_nobody_who_draws_on_a_living_one(cluster):
    required = {f"{PREFIX}/pre-allocation-required": "true"}
    await given(cluster, node(), held("a", cpu="8", allocate_once=False), owner("p", cpu="8"))
    await given(cluster, held(cpu="8", pre_allocation=True, labels=required))
    assert await drawn_from(cluster, "p") == "a"
    assert (await status(cluster))[0] == "Pending"
    await cluster.delete(RESERVATIONS, "a")
    await cluster.advance(400)
    assert await drawn_from(cluster, "p") == "r"
