"""Shadows of classic claims: written before the pod is bound, kept over attempts that fail."""

import json

import pytest

from holdfast.api.classic_dra.claims import classic_entries
from holdfast.api.classic_dra.names import OWN_GROUP, POD_CLAIMS
from holdfast.api.classic_dra.shadows import SHADOW_POOL, classic_reference, shadow_of
from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.testing import Fault, FaultyTransport, a_claim, a_node, a_pod
from holdfast.testing.classic_dra.builders import a_classic_class
from holdfast.testing.classic_dra.driver import KINDS, ClassicDriver
from holdfast.testing.harness import Harness
from plugins.classic_desk import Desk

DRIVER = "gpu.example.com"
TEMPLATE = {"template": {"spec": {"resourceClassName": "gpu"}}}


def a_shadowed_pod(name="p"):
    """Return a pod with an inline claim in its annotation, and the shadow in its spec."""
    entries = [{"name": "x", "claim": TEMPLATE, "containers": ["main"]}]
    shadow = {"name": "x", "resourceClaimName": "s"}
    return a_pod(name, annotations={POD_CLAIMS: json.dumps(entries)}, claims=[shadow])


async def shadow_in(cluster):
    return await cluster.client.get(RESOURCE_CLAIMS, "s", "default")


async def is_filled(cluster):
    """Return whether the shadow is allocated and reserved for the pod as it should be."""
    shadow, pod = await shadow_in(cluster), await cluster.pod("p")
    classic = await cluster.client.get(KINDS.claims, "p-x", "default")
    reference = classic_reference(shadow, DRIVER)
    [result], [consumer] = shadow.results, shadow.status.reserved_for
    assert (result.driver, result.pool) == (DRIVER, SHADOW_POOL)
    assert shadow.status.allocation.node_selector is None
    assert [owner.uid for owner in shadow.metadata.owner_references] == [pod.uid]
    assert (reference.name, reference.uid) == ("p-x", classic.uid)
    return consumer.uid == pod.uid and classic.is_reserved_for(pod.uid)


@pytest.mark.parametrize("faults", [(), (Fault("conflict", method="POST", path="/binding"),)])
async def test_a_shadow_is_filled_before_the_pod_is_bound(tmp_path, faults):
    def wrap(transport, clock):
        return FaultyTransport(transport, faults, clock=clock)

    async with Harness(tmp_path, wrap=wrap) as cluster:
        driver = ClassicDriver(cluster.client)
        await cluster.create(a_node("n"), a_classic_class(), a_shadowed_pod())
        await driver.serve(cluster.settle)
        if faults:
            first = await shadow_in(cluster)
            assert await cluster.node_of("p") == ""
            await cluster.advance(30)
            await driver.serve(cluster.settle)
            assert (await shadow_in(cluster)).uid == first.uid
        assert await cluster.node_of("p") == "n"
        assert await is_filled(cluster)


async def test_an_allocation_for_another_claim_is_replaced(tmp_path):
    async with Harness(tmp_path) as cluster:
        driver = ClassicDriver(cluster.client)
        await cluster.create(a_classic_class(), a_shadowed_pod())
        pod = await cluster.pod("p")
        [entry] = classic_entries(pod)
        await cluster.create(shadow_of(pod, entry, "s"))
        result = {"request": "classic", "driver": DRIVER, "pool": SHADOW_POOL, "device": "d"}
        consumer = {"resource": "pods", "name": "p", "uid": pod.uid}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
        await cluster.client.patch(
            RESOURCE_CLAIMS, "s", {"status": status}, "default", subresource="status"
        )
        await cluster.create(a_node("n"))
        await cluster.advance(30)
        await driver.serve(cluster.settle)
        assert await cluster.node_of("p") == "n"
        assert await is_filled(cluster)


async def test_a_claim_of_the_same_name_keeps_the_pod_waiting(tmp_path):
    async with Harness(tmp_path) as cluster:
        driver = ClassicDriver(cluster.client)
        await cluster.create(a_claim("s"), a_node("n"), a_classic_class(), a_shadowed_pod())
        await driver.serve(cluster.settle)
        assert await cluster.node_of("p") == ""
        assert 'resourceclaim "s" exists and does not belong to pod' in await cluster.why("p")
        await cluster.client.delete(RESOURCE_CLAIMS, "s", "default")
        await cluster.advance(30)
        await driver.serve(cluster.settle)
        assert await cluster.node_of("p") == "n"
        assert await is_filled(cluster)


def test_a_kubelet_would_start_a_pod_that_has_no_shadow():
    entries = [{"name": "x", "claim": {"resourceClaimName": "c"}}]
    pod = a_pod("p", annotations={POD_CLAIMS: json.dumps(entries)})
    desk = Desk(a_node("n"), a_classic_class())
    assert "created" in desk.why_waiting(pod)  # agents of Holdfast read the annotation
    desk.ledger.resources = classic_resources(OWN_GROUP)
    assert "has no entry for the classic claim 'x': use the webhook" in desk.why_waiting(pod)
    assert "created" in desk.why_waiting(a_shadowed_pod())
