"""Device selectors that would exhaust the scheduler are reported; other pods are scheduled.

The API server refuses them; another one, or an older one, may have stored them.
"""

import asyncio

import pytest

from apiserver.direct_store import write_directly
from holdfast.runtime.errors import Invalid
from holdfast.server.store import ObjectKey
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice

HANG = 60
"""Seconds; evaluating these selectors would take minutes or gigabytes."""
COST = "CEL runtime error: operation cancelled: actual cost limit exceeded"


def doubled(levels):
    expression = f"v{levels}.size() > 0"
    for level in range(levels, 0, -1):
        expression = f"cel.bind(v{level}, v{level - 1} + v{level - 1}, {expression})"
    return f"cel.bind(v0, device.driver, {expression})"


MULTIPLIED = "device.driver" + ".replace('', '0123456789012345')" * 8 + ".size() > 0"


def user(name, claim):
    return a_pod(name, cpu="100m", resource_claims=[{"name": "dev", "resourceClaimName": claim}])


@pytest.fixture
async def gpus(cluster):
    devices = [a_device(f"gpu-{i}", attributes={"model": "A100"}) for i in range(8)]
    await cluster.create(
        a_node("n1"), a_node("n2"), a_device_class("gpu"), a_slice("s", node="n2", devices=devices)
    )
    return cluster


async def store(cluster, obj):
    """Store an object without validation."""
    plural = {"ResourceClaim": "resourceclaims", "DeviceClass": "deviceclasses"}[obj["kind"]]
    meta = obj["metadata"]
    key = ObjectKey("resource.k8s.io", plural, meta.get("namespace", ""), meta["name"])
    await write_directly(cluster.store, key, obj)


@pytest.mark.parametrize("expression", [doubled(28), MULTIPLIED])
async def test_hostile_selectors_are_refused_when_they_are_written(gpus, expression):
    for obj in (
        a_claim("bad", selectors=[expression]),
        a_device_class("bad", selectors=[expression]),
    ):
        with pytest.raises(Invalid, match="too complex, exceeds cost limit"):
            await gpus.create(obj)


@pytest.mark.parametrize("expression", [doubled(28), MULTIPLIED])
async def test_a_hostile_claim_stays_pending_and_other_pods_are_scheduled(gpus, expression):
    async with asyncio.timeout(HANG):
        await store(gpus, a_claim("bad", selectors=[expression]))
        await gpus.create(
            user("p-bad", "bad"), a_claim("good"), user("p-good", "good"), a_pod("plain")
        )
        assert await gpus.node_of("p-good") == "n2"
        assert await gpus.node_of("plain")
        assert await gpus.node_of("p-bad") == ""
        assert f"claim default/bad: selector #0: {COST}" in await gpus.why("p-bad")


async def test_a_hostile_device_class_affects_its_own_claims_only(gpus):
    hostile = a_device_class("bad", selectors=[doubled(28)], extended_resource_name="x.com/bad")
    async with asyncio.timeout(HANG):
        await store(gpus, hostile)
        await gpus.create(
            a_claim("bad", device_class="bad"), user("p-bad", "bad"),
            a_pod("p-extended", requests={"x.com/bad": "1"}, limits={"x.com/bad": "1"}),
            a_claim("good"), user("p-good", "good"),
        )  # fmt: skip
        assert await gpus.node_of("p-good") == "n2"
        assert (await gpus.node_of("p-bad"), await gpus.node_of("p-extended")) == ("", "")
        assert f"class bad: selector #0: {COST}" in await gpus.why("p-bad")
