"""``enableReservationForPreemptor``: what victims free is reserved for the preempting pod."""

import asyncio
import json

import msgspec
import pytest

from device_share.objects import a_device_object, a_gpu_node, a_gpu_pod, devices_of
from holdfast.api import koordinator_names as names
from holdfast.api.reservation_names import PREEMPTOR
from holdfast.api.scheme import NODES, PODS, RESERVATIONS
from holdfast.testing import a_priority_class
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from reservations.objects import (
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    non_owner,
    requested,
    running,
)
from reservations.preemptors import HIGH, HIGHER, SLOW, configured

CLASSES = (a_priority_class(), a_priority_class("higher", 2000))


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store", configuration=configured()) as harness:
        yield harness


async def reservations(cluster):
    return list((await cluster.client.list(RESERVATIONS)).items)


async def the_reservation(cluster):
    (found,) = await reservations(cluster)
    return found


async def preempting(cluster, **more):
    """Let a pod preempt another that takes 30 s to stop."""
    await create_each(cluster, *CLASSES, node(), running("16", "v", **SLOW))
    await create_each(cluster, non_owner("p", cpu="16", **HIGH, **more))
    assert (await cluster.pod("p")).status.nominated_node_name == "n1"


async def test_R098_a_pod_of_higher_priority_does_not_take_the_room(cluster):
    await preempting(cluster)
    found, pod = await the_reservation(cluster), await cluster.pod("p")
    assert (found.status.phase, found.status.node_name) == ("Waiting", "n1")
    assert found.status.allocatable == {"cpu": "16"}
    assert [owner.object.uid for owner in found.spec.owners] == [pod.uid]
    assert found.metadata.labels == {PREEMPTOR: pod.uid}
    assert (await cluster.pod("v")).terminating
    await cluster.advance(10)
    await create_each(cluster, non_owner("rival", cpu="16", **HIGHER))
    assert await is_pending(cluster, "rival")
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n1"
    assert await allocated_from(cluster, "p") == found.name
    assert await is_pending(cluster, "rival")
    assert await reservations(cluster) == [], "it is gone when the pod is bound"
    assert requested(cluster) == 16000


async def test_R098_contrast_without_the_argument_the_higher_priority_wins(tmp_path):
    async with Harness(tmp_path / "store", configuration=configured(enabled=False)) as cluster:
        await preempting(cluster)
        assert await reservations(cluster) == []
        await create_each(cluster, non_owner("rival", cpu="16", **HIGHER))
        await cluster.advance(60)
        assert await cluster.node_of("rival") == "n1" and await is_pending(cluster, "p")


async def test_R098_it_is_there_before_any_pod_is_evicted(tmp_path):
    """While the reservation cannot be created, no pod is evicted; the attempt is repeated."""
    fault = Fault("unavailable", method="POST", path="/reservations", times=3)

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "s", configuration=configured(), wrap=spoiled) as cluster:
        await create_each(cluster, *CLASSES, node(), running("16", "v", **SLOW))
        await create_each(cluster, non_owner("p", cpu="16", **HIGH))
        assert not (await cluster.pod("v")).terminating
        assert "running PostFilter plugins" in await cluster.why("p")
        await cluster.advance(20)
        assert (await cluster.pod("v")).terminating
        assert (await the_reservation(cluster)).status.phase == "Waiting"
        await cluster.advance(60)
        assert await cluster.node_of("p") == "n1" and await reservations(cluster) == []


@pytest.mark.parametrize("trouble", ["unavailable", "unavailable_after", "lost"])
async def test_R098_a_status_that_is_not_written_at_once(tmp_path, trouble):
    fault = Fault(trouble, method="PATCH", path="/reservations/preemptor-")

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with Harness(tmp_path / "s", configuration=configured(), wrap=spoiled) as cluster:
        await create_each(cluster, *CLASSES, node(), running("16", "v", **SLOW))
        await create_each(cluster, non_owner("p", cpu="16", **HIGH))
        await cluster.advance(150)
        assert await cluster.node_of("p") == "n1" and await reservations(cluster) == []


class LateResponses:
    """A transport that keeps responses to patches of such reservations until ``release``."""

    def __init__(self, inner, release):
        self.inner, self.stream, self.release = inner, inner.stream, release

    async def send(self, request):
        response = await self.inner.send(request)
        if request.method == "PATCH" and "/reservations/preemptor-" in request.path:
            await self.release.wait()
        return response


async def test_R098_deleted_before_the_response_of_its_status_arrives(tmp_path):
    """The watch has told the deletion already: the response brings nothing back."""
    release = asyncio.Event()

    def spoiled(transport, _clock):
        return LateResponses(transport, release)

    async with Harness(tmp_path / "s", configuration=configured(), wrap=spoiled) as cluster:
        await create_each(cluster, *CLASSES, node(), running("16", "v", **SLOW))
        await create_each(cluster, non_owner("p", cpu="16", **HIGH))
        found = await the_reservation(cluster)
        assert found.status.phase == "Waiting"
        await cluster.delete(RESERVATIONS, found.name)
        release.set()
        await cluster.settle()
        assert found.uid not in cluster.world.reservations.by_uid
        await cluster.advance(150)
        assert await cluster.node_of("p") == "n1" and await reservations(cluster) == []
        assert requested(cluster) == 16000


async def test_R098_it_is_gone_when_the_pod_is_deleted(cluster):
    await preempting(cluster)
    await cluster.delete(PODS, "p", "default")
    assert await reservations(cluster) == []
    await cluster.advance(40)
    await create_each(cluster, non_owner("other", cpu="16"))
    assert await cluster.node_of("other") == "n1"


async def test_R098_it_is_gone_when_the_pod_is_bound_elsewhere(cluster):
    await preempting(cluster)
    await create_each(cluster, node("n2"))
    await cluster.advance(5)
    assert await cluster.node_of("p") == "n2" and await allocated_from(cluster, "p") is None
    assert await reservations(cluster) == []


async def test_R098_it_is_gone_when_the_pod_is_nominated_elsewhere(cluster):
    await create_each(cluster, a_priority_class("mid", 500), node("n2"))
    await create_each(cluster, running("16", "w", "n2", priority_class_name="mid", **SLOW))
    await preempting(cluster)
    first = await the_reservation(cluster)
    await cluster.advance(5)
    await cluster.delete(NODES, "n1")
    await cluster.advance(20)
    assert (await cluster.pod("p")).status.nominated_node_name == "n2"
    found = await the_reservation(cluster)
    assert found.status.node_name == "n2" and found.name != first.name
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n2" and await reservations(cluster) == []


async def test_R098_a_restart_keeps_it(cluster):
    await preempting(cluster)
    await cluster.restart()
    await create_each(cluster, non_owner("rival", cpu="16", **HIGHER))
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n1" and await is_pending(cluster, "rival")
    assert await reservations(cluster) == []


@pytest.mark.parametrize("phase", ["Waiting", "Pending"])
async def test_R098_after_a_crash_before_the_eviction_the_pod_preempts_again(cluster, phase):
    """The scheduler stopped after it had created the reservation, or written its status."""
    await preempting(cluster)
    body = msgspec.to_builtins(await the_reservation(cluster))
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(40)
    await create_each(cluster, running("16", "w", **SLOW))
    async with cluster.components_stopped():
        await cluster.client.create(PODS, non_owner("p", cpu="16", **HIGH), "default")
        uid = (await cluster.pod("p")).uid
        status = {**body.pop("status"), "phase": phase}
        if phase == "Pending":
            status = {}
        body["metadata"] = {"name": f"preemptor-{uid}-0", "labels": {PREEMPTOR: uid}}
        body["spec"]["owners"][0]["object"]["uid"] = uid
        await cluster.client.create(RESERVATIONS, body)
        await cluster.client.patch(
            RESERVATIONS, f"preemptor-{uid}-0", {"status": status}, subresource="status"
        )
    await cluster.advance(200)
    assert await cluster.node_of("p") == "n1" and await reservations(cluster) == []


async def test_R098_CPUs_of_the_preemptor(cluster):
    await create_each(cluster, *CLASSES, a_topology("n1"), node())
    await create_each(cluster, a_bound_pod("v", "16", **SLOW), a_bound_pod("p", "16", **HIGH))
    found = await the_reservation(cluster)
    template = found.spec.template.metadata
    assert names.RESOURCE_STATUS not in template.annotations
    assert template.labels[names.QOS_CLASS] == "LSR"
    await create_each(cluster, a_bound_pod("rival", "12", **HIGHER))
    await cluster.advance(60)
    status = json.loads((await cluster.pod("p")).metadata.annotations[names.RESOURCE_STATUS])
    assert status["cpuset"] and await allocated_from(cluster, "p") == found.name
    assert await is_pending(cluster, "rival") and await reservations(cluster) == []


async def test_R098_a_pod_with_a_reservation_on_the_node_gets_no_other(cluster):
    await create_each(cluster, *CLASSES, node(), held(cpu="8", allocate_once=False))
    web = {"labels": {"app": "web"}}
    await create_each(cluster, running("8", "o"), non_owner("low", cpu="8", **web, **SLOW))
    assert await allocated_from(cluster, "low") == "r"
    await create_each(cluster, non_owner("p", cpu="8", **web, **HIGH))
    assert (await cluster.pod("low")).terminating
    assert [r.name for r in await reservations(cluster)] == ["r"]
    await cluster.advance(60)
    assert await allocated_from(cluster, "p") == "r"


async def test_R098_GPUs_of_the_preemptor(cluster):
    await create_each(cluster, *CLASSES, a_device_object("n"), a_gpu_node("n"))
    await create_each(cluster, a_gpu_pod("v", 200, **SLOW), a_gpu_pod("p", 200, **HIGH))
    found = await the_reservation(cluster)
    assert names.DEVICE_ALLOCATED not in found.spec.template.metadata.annotations
    await create_each(cluster, a_gpu_pod("rival", 50, **HIGHER))
    await cluster.advance(60)
    assert await devices_of(cluster, "p")
    assert await allocated_from(cluster, "p") == found.name
    assert await is_pending(cluster, "rival") and await reservations(cluster) == []
