from __future__ import annotations

import asyncio
import logging

from controllers.small_cluster import start_small_cluster
from holdfast.api.devices import CLAIM_FINALIZER
from holdfast.api.scheme import EVENTS, PODS, RESOURCE_CLAIMS
from holdfast.testing import (
    Fault,
    FaultyTransport,
    a_claim,
    a_claim_template,
    a_node,
    a_pod,
)

ENTRY = [{"name": "gpu", "resourceClaimTemplateName": "t"}]


async def claims(cluster):
    return (await cluster.client.list(RESOURCE_CLAIMS, "default")).items


async def allocate(cluster, claim, pod):
    """Allocate and reserve a claim, as the scheduler does before it binds."""
    protect = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
    await cluster.client.patch(RESOURCE_CLAIMS, claim.name, protect, "default")
    result = {"request": "req-0", "driver": "d.example.com", "pool": "n", "device": "gpu-0"}
    result["request"] = claim.spec.devices.requests[0].name
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
    }
    await cluster.client.patch(
        RESOURCE_CLAIMS, claim.name, {"status": status}, "default", subresource="status"
    )
    await cluster.clock.settle()


async def test_the_claim_of_a_pod_is_created_used_and_deleted_with_it(cluster):
    await cluster.create(a_node("n"), a_claim_template("t"), a_pod("p", claims=ENTRY))
    (claim,) = await claims(cluster)
    pod = await cluster.get(PODS, "p", "default")
    assert claim.name.startswith("p-gpu-")
    (recorded,) = pod.status.resource_claim_statuses
    assert (recorded.name, recorded.resource_claim_name) == ("gpu", claim.name)

    await allocate(cluster, claim, pod)
    await cluster.bind_all("n")
    assert (await cluster.get(PODS, "p", "default")).status.phase == "Running"

    await cluster.client.delete(PODS, "p", "default")
    await cluster.clock.advance(2)
    assert await claims(cluster) == ()


async def test_D071_a_claim_from_a_template_is_named_annotated_and_owned(cluster):
    long = [{"name": "e" * 40, "resourceClaimTemplateName": "t"}]
    await cluster.create(
        a_claim_template("t"), a_pod("p", claims=ENTRY), a_pod("p" * 60, claims=long)
    )
    short, cut = sorted(await claims(cluster), key=lambda c: len(c.name))
    pod = await cluster.get(PODS, "p", "default")
    assert short.name.startswith("p-gpu-")
    assert short.metadata.annotations["resource.kubernetes.io/pod-claim-name"] == "gpu"
    (owner,) = short.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", pod.uid, True)
    assert len(cut.name) <= 63
    assert cut.name.startswith("p" * 20) and "-" + "e" * 20 in cut.name


async def test_D073_a_users_claim_is_deallocated_after_its_last_pod_and_not_deleted(cluster):
    entry = [{"name": "gpu", "resourceClaimName": "c"}]
    await cluster.create(a_node("n"), a_claim("c"), a_pod("p", claims=entry))
    (claim,) = await claims(cluster)
    await allocate(cluster, claim, await cluster.get(PODS, "p", "default"))
    await cluster.bind_all("n")
    assert (await cluster.get(PODS, "p", "default")).status.phase == "Running"

    await cluster.client.delete(PODS, "p", "default")
    await cluster.clock.advance(2)
    (claim,) = await claims(cluster)
    assert (claim.status.allocation, claim.status.reserved_for) == (None, ())
    assert claim.metadata.finalizers == ()


async def test_a_pod_waits_for_its_claim_template(cluster):
    await cluster.create(a_node("n"), a_pod("p", claims=ENTRY))
    await cluster.clock.advance(1)
    assert await claims(cluster) == ()
    events = (await cluster.client.list(EVENTS, "default")).items
    assert [e.reason for e in events] == ["FailedResourceClaimCreation"]
    assert 'resource claim template "t"' in events[0].message

    await cluster.create(a_claim_template("t"))
    assert len(await claims(cluster)) == 1


async def test_the_claim_of_a_finished_pod_is_released_at_once(cluster):
    short = {"holdfast.dev/run-for": "5s"}
    await cluster.create(
        a_node("n"), a_claim_template("t"), a_pod("p", claims=ENTRY, annotations=short)
    )
    (claim,) = await claims(cluster)
    await allocate(cluster, claim, await cluster.get(PODS, "p", "default"))
    await cluster.bind_all("n")
    assert len(await claims(cluster)) == 1
    await cluster.clock.advance(6)
    assert (await cluster.get(PODS, "p", "default")).status.phase == "Succeeded"
    assert await claims(cluster) == ()


async def test_a_deleted_claim_is_created_again(cluster):
    await cluster.create(a_node("n"), a_claim_template("t"), a_pod("p", claims=ENTRY))
    (first,) = await claims(cluster)
    await cluster.client.delete(RESOURCE_CLAIMS, first.name, "default")
    await cluster.clock.advance(1)
    (second,) = await claims(cluster)
    assert second.uid != first.uid
    pod = await cluster.get(PODS, "p", "default")
    assert [s.resource_claim_name for s in pod.status.resource_claim_statuses] == [second.name]


async def test_a_pod_that_is_deleted_meanwhile_is_no_failure(cluster, caplog):
    """The controller's write finds no pod: it logs nothing and leaves no claim."""
    await cluster.create(a_node("n"), a_claim_template("t"))
    for number in range(3):
        name = f"p{number}"
        await cluster.client.create(PODS, a_pod(name, claims=ENTRY), "default")
        await asyncio.sleep(0)
        await cluster.client.delete(PODS, name, "default", grace_seconds=0)
    await cluster.clock.settle()
    assert not await claims(cluster)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


async def test_a_claim_reserved_for_a_pod_that_the_cache_does_not_show_yet_is_kept(tmp_path):
    """The cache still shows the pod of the same name that was deleted."""
    transports = []

    def with_faults(transport, clock):
        transports.append(FaultyTransport(transport, clock=clock))
        return transports[0]

    entry = [{"name": "gpu", "resourceClaimName": "c"}]
    async with start_small_cluster(tmp_path, with_faults) as cluster:
        await cluster.create(a_claim("c"), a_pod("p", claims=entry))
        transports[0].add(Fault("unavailable", "GET", "/pods", times=1000, watch=True))
        cluster.end_watches()
        await cluster.clock.settle()
        await cluster.client.delete(PODS, "p", "default", grace_seconds=0)
        await cluster.create(a_pod("p", claims=entry))
        (claim,) = await claims(cluster)
        await allocate(cluster, claim, await cluster.get(PODS, "p", "default"))
        await cluster.clock.advance(0.1)
        (claim,) = await claims(cluster)
        assert len(claim.status.reserved_for) == 1
        transports[0].enabled = False
