"""Devices and extended resources beside a policy: both exclude nodes, and messages tell which."""

import pytest

from holdfast.testing import a_claim, a_device_class, a_namespace, a_slice
from policies.objects import (
    WEB,
    condition,
    create_each,
    explained,
    node,
    node_of,
    place,
    pod,
    policy,
    why,
)

GPU = "example.com/gpu"
NO_DEVICE = "cannot allocate all claims"


def reasons(cluster, raw):
    """Return (plugin, reasons) of every node for a pod."""
    nodes = explained(cluster, raw)["nodes"]
    return {n["name"]: (n["plugin"], n["reasons"]) for n in nodes}


def with_claim(name="w", claim="c", **more):
    return pod(name, claims=[{"name": "dev", "resourceClaimName": claim}], **more)


@pytest.fixture
async def devices(required):
    """One device on b1 and one on c1; od has none."""
    slices = [a_slice(f"{name}-gpu", node=name) for name in ("b1", "c1")]
    await required.create(a_device_class("gpu"), *slices)
    return required


async def test_the_message_tells_which_nodes_lack_devices_and_which_are_in_no_unit(devices):
    await devices.create(a_claim("taken", namespace=WEB), a_claim("c", namespace=WEB))
    await create_each(devices, with_claim("first", "taken"))
    assert await node_of(devices, "first") == "b1"
    await create_each(devices, with_claim())
    assert await node_of(devices) == ""
    assert (await why(devices)).startswith(
        f"0/5 nodes are available: 1 node matches no unit of ResourcePolicy web/p, 4 {NO_DEVICE}. "
    )


async def test_the_message_tells_which_nodes_lack_devices_and_which_unit_is_full(devices):
    await create_each(devices, *(pod(f"s{i}", node="b2") for i in range(3)))
    await devices.create(a_claim("c", namespace=WEB))
    await create_each(devices, with_claim())
    assert (await why(devices)).startswith(
        "0/5 nodes are available: 1 node matches no unit of ResourcePolicy web/p, "
        f"1 unit spot is full (3/3), 3 {NO_DEVICE}. "
    )
    # More nodes with devices in od would help.
    assert (await condition(devices)).reason == "Unschedulable"


async def test_a_claim_that_is_allocated_in_a_lower_unit_decides(cluster):
    """od is open, but the claim has its device on b1 already."""
    await cluster.create(a_device_class("gpu"))
    await create_each(cluster, *(a_slice(f"{n}-gpu", node=n) for n in ("a1", "b1")))
    await cluster.create(a_claim("c", namespace=WEB))
    pinned = with_claim("user", app="other", node_selector={"kubernetes.io/hostname": "b1"})
    await create_each(cluster, pinned, policy())
    assert await node_of(cluster, "user") == "b1"
    await create_each(cluster, with_claim())
    assert await node_of(cluster) == "b1"


async def test_it_does_not_bypass_a_full_unit(cluster):
    await cluster.create(a_device_class("gpu"), a_slice("b1-gpu", node="b1"))
    await cluster.create(a_claim("c", namespace=WEB))
    await create_each(cluster, with_claim("user", app="other"), policy())
    await create_each(cluster, *(pod(f"s{i}", node="b2") for i in range(3)))
    await create_each(cluster, with_claim())
    assert await node_of(cluster) == ""
    assert (await why(cluster)).startswith(
        "0/5 nodes are available: 1 unit spot is full (3/3), "
        "4 resourceclaim not available on the node. "
    )


async def test_a_device_is_allocated_in_the_unit_of_the_highest_priority(governed):
    await governed.create(a_device_class("gpu"))
    await create_each(governed, *(a_slice(f"{n}-gpu", node=n) for n in ("a2", "b1", "c1")))
    for name in ("one", "two", "three"):
        await governed.create(a_claim(name, namespace=WEB))
        await create_each(governed, with_claim(name, name))
    assert [await node_of(governed, name) for name in ("one", "two", "three")] == ["a2", "b1", "c1"]


async def test_extended_resources_of_devices_and_of_nodes(start):
    nodes = [node("a1"), node("b1", allocatable={GPU: "1"}), node("c1", allocatable={GPU: "9"})]
    cluster = await start(nodes=[a_namespace(WEB), *nodes])
    await cluster.create(policy(strategy="required"))
    amounts = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    assert await place(cluster, 2, **amounts) == ["b", ""]
    assert (await why(cluster, "w1")).startswith(
        "0/3 nodes are available: 1 node matches no unit of ResourcePolicy web/p, "
        f"2 Insufficient {GPU}. "
    )
    assert reasons(cluster, pod("asking", **amounts)) == {
        "a1": ("NodeResourcesFit", [f"Insufficient {GPU}"]),
        "b1": ("NodeResourcesFit", [f"Insufficient {GPU}"]),
        "c1": ("resourcepolicy", ["node matches no unit of ResourcePolicy web/p"]),
    }
