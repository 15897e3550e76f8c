"""Devices that share counters or capacity, in a running cluster."""

import pytest

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice

DRIVER = "gpu.example.com"


def a_part(name, profile, amount):
    uses = [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]
    return a_device(name, attributes={"profile": profile}, consumesCounters=uses)


def a_partitioned_card(node, slices=2):
    memory = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    counters = a_slice(f"{node}-counters", node=node, slices=slices, sharedCounters=memory)
    del counters["spec"]["devices"]
    parts = [
        a_part("whole", "whole", "80Gi"),
        a_part("a", "half", "40Gi"),
        a_part("b", "half", "40Gi"),
    ]
    return counters, a_slice(f"{node}-gpu", node=node, slices=slices, devices=parts)


def wants(name, profile):
    rule = f'device.attributes["{DRIVER}"].profile == "{profile}"'
    claims = [{"name": "gpu", "resourceClaimName": name}]
    return a_claim(name, selectors=[rule]), a_pod(name, cpu="100m", resource_claims=claims)


async def devices_of(cluster, name):
    claim = await cluster.client.get(RESOURCE_CLAIMS, name, "default")
    return [(r.pool, r.device) for r in claim.status.allocation.devices.results]


@pytest.fixture
async def two_cards(cluster):
    """Two nodes with a card each, as a whole and as two halves."""
    await cluster.create(
        a_node("n1"),
        a_node("n2"),
        a_device_class("gpu"),
        *a_partitioned_card("n1"),
        *a_partitioned_card("n2"),
    )
    return cluster


async def test_D038_a_whole_card_and_its_halves_are_never_allocated_together(two_cards):
    await two_cards.create(*wants("half-1", "half"))
    [(card, _)] = await devices_of(two_cards, "half-1")
    await two_cards.create(*wants("whole", "whole"))
    [(other, _)] = await devices_of(two_cards, "whole")
    assert {card, other} == {"n1", "n2"}
    await two_cards.create(*wants("half-2", "half"), *wants("half-3", "half"))
    halves = {await two_cards.node_of("half-2"), await two_cards.node_of("half-3")}
    assert halves == {card, ""}
    waiting = "half-2" if await two_cards.node_of("half-3") else "half-3"
    assert "cannot allocate all claims" in await two_cards.why(waiting)
    # The card becomes free as a whole, and the half that waited is allocated.
    await two_cards.delete(PODS, "whole", "default")
    await two_cards.advance(15)
    assert await two_cards.node_of(waiting) == other


async def test_D028_a_pool_without_its_counters_waits_until_they_are_published(cluster):
    counters, devices = a_partitioned_card("n")
    await cluster.create(a_node("n"), a_device_class("gpu"), devices, *wants("half", "half"))
    assert await cluster.node_of("half") == ""
    await cluster.create(counters)
    await cluster.advance(15)
    assert await cluster.node_of("half") == "n"
    await cluster.delete(RESOURCE_SLICES, "n-counters")
    await cluster.create(*wants("more", "half"))
    assert await cluster.node_of("more") == ""
    assert await cluster.node_of("half") == "n"


async def test_D039_three_pods_share_a_card_until_its_memory_is_used_up(cluster):
    policy = {"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}
    memory = {"memory": {"value": "10Gi", "requestPolicy": policy}}
    card = a_device("card", capacity=memory, allowMultipleAllocations=True)
    await cluster.create(a_node("n"), a_device_class("gpu"), a_slice(devices=[card]))
    for name, amount in (("a", "4Gi"), ("b", "3Gi"), ("c", "4Gi")):
        exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": amount}}}
        claim = a_claim(name, requests=[{"name": "r", "exactly": exactly}])
        claims = [{"name": "gpu", "resourceClaimName": name}]
        await cluster.create(claim, a_pod(name, cpu="100m", resource_claims=claims))
    assert [await cluster.node_of(name) for name in "abc"] == ["n", "n", ""]
    results = [
        result
        for name in "ab"
        for result in (
            await cluster.client.get(RESOURCE_CLAIMS, name, "default")
        ).status.allocation.devices.results
    ]
    assert [r.consumed_capacity for r in results] == [{"memory": "4Gi"}, {"memory": "4Gi"}]
    assert len({r.share_id for r in results}) == 2
    await cluster.delete(PODS, "a", "default")
    await cluster.advance(15)
    assert await cluster.node_of("c") == "n"
