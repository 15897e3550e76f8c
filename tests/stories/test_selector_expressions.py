"""What CEL selectors of claims mean for pods."""

import asyncio

import pytest

from apiserver.direct_store import write_directly
from cel.sample_selectors import nested
from holdfast.runtime.errors import Invalid
from holdfast.server.store import ObjectKey
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice

DRIVER = "gpu.example.com"
OWN = f'device.attributes["{DRIVER}"]'


@pytest.fixture
async def gpus(cluster):
    """A node with eight devices."""
    attributes = {"model": "A100", "index": 3}
    devices = [
        a_device(f"gpu-{i}", attributes=attributes, capacity={"memory": "1536Mi"}) for i in range(8)
    ]
    made = a_slice("s", node="n1", driver=DRIVER, devices=devices)
    await cluster.create(a_node("n1"), a_device_class("gpu"), made)
    return cluster


async def outcomes(cluster, expressions):
    """Create a claim and a pod for each expression; return the nodes, and why pods wait."""
    for i, expression in enumerate(expressions):
        claims = [{"name": "dev", "resourceClaimName": f"c{i}"}]
        await cluster.create(
            a_claim(f"c{i}", selectors=[expression]),
            a_pod(f"p{i}", cpu="10m", resource_claims=claims),
        )
    nodes = [await cluster.node_of(f"p{i}") for i in range(len(expressions))]
    reasons = [await cluster.why(f"p{i}") if not node else "" for i, node in enumerate(nodes)]
    return nodes, reasons


async def test_D019_an_unknown_domain_is_empty_and_an_unknown_name_is_an_error(gpus):
    nodes, reasons = await outcomes(gpus, [
        '!has(device.attributes["no.com"].x)', 'has(device.attributes["no.com"].x)',
        f"{OWN}.nosuch == 1",
    ])  # fmt: skip
    assert nodes == ["n1", "", ""]
    assert "CEL runtime error" not in reasons[1]
    assert "selector #0: CEL runtime error: no such key: nosuch" in reasons[2]


async def test_D021_quantities_are_compared_by_value(gpus):
    nodes, reasons = await outcomes(gpus, [
        'quantity("1.5Gi") == quantity("1536Mi")',
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1.5Gi")) == 0',
        f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("200K"))',
    ])  # fmt: skip
    assert nodes == ["n1", "n1", ""]
    assert "selector #0: CEL runtime error: " in reasons[2]
    with pytest.raises(Invalid, match="found no matching overload for 'quantity'"):
        await gpus.create(a_claim("typed", selectors=["quantity(1) == quantity('1')"]))


async def test_D022_versions_are_compared_as_versions(gpus):
    nodes, _ = await outcomes(gpus, [
        'semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))',
        'semver("v12.4", true) == semver("12.4.0")',
        'semver("1.10.0").isLessThan(semver("1.9.0"))',
    ])  # fmt: skip
    assert nodes == ["n1", "n1", ""]


async def test_D023_an_error_beside_true_is_true(gpus):
    nodes, reasons = await outcomes(gpus, [
        f"{OWN}.nosuch == 1 || true", f"true || {OWN}.nosuch == 1",
        f"{OWN}.nosuch == 1 && false", f"{OWN}.nosuch == 1 || false",
    ])  # fmt: skip
    assert nodes == ["n1", "n1", "", ""]
    assert "CEL runtime error" not in reasons[2]
    assert "CEL runtime error: no such key: nosuch" in reasons[3]


async def test_D024_nested_loops_are_refused_and_never_hold_up_other_pods(gpus):
    for levels in (7, 20, 30):
        with pytest.raises(Invalid, match=r"too complex|too many nested|recursion"):
            await gpus.create(a_claim("loops", selectors=[nested(levels)]))
    stored = a_claim("loops", selectors=[nested(7)])  # by a server that accepts it
    key = ObjectKey("resource.k8s.io", "resourceclaims", "default", "loops")
    await write_directly(gpus.store, key, stored)
    async with asyncio.timeout(60):
        claims = [{"name": "dev", "resourceClaimName": "loops"}]
        await gpus.create(a_pod("p-loops", cpu="10m", resource_claims=claims))
        nodes, _ = await outcomes(gpus, ["true"])
        assert (nodes, await gpus.node_of("p-loops")) == (["n1"], "")
        assert "actual cost limit exceeded" in await gpus.why("p-loops")
