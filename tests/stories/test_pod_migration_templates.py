"""What a job reserves: room for the pod that replaces its own, and no more."""

import json

import pytest

from holdfast.api.scheme import RESERVATIONS
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness
from stories.migrations import a_job, conditions, job_of, reservations, result_of, web

RESIZE = "scheduling.koordinator.sh/reservation-resize-allocatable"
INNER = "node.koordinator.sh/reservation"
REFUSED = ("Failed", "ForbiddenMigratePod")


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


def templated(pod, **template):
    return a_job("j", pod, ttl="10m", reservationOptions={"template": template})


def pod_of(cpu, **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"template": {"spec": {"containers": [container], **spec}}}


LARGER = {
    "requests": {"spec": pod_of("3")},
    "limits": {"spec": {"template": {"spec": {"containers": [{
        "name": "c", "image": "i", "resources": {"limits": {"cpu": "3"}}}]}}}},
    "another resource": {"spec": {"template": {"spec": {"containers": [{
        "name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"},
                      "limits": {"example.com/gpu": "1"}}}]}}}},
    "overhead": {"spec": pod_of("2", overhead={"cpu": "1"})},
    "annotation": {"metadata": {"annotations": {RESIZE: '{"resources":{"cpu":"64"}}'}}},
}  # fmt: skip


@pytest.mark.parametrize("how", LARGER)
async def test_a_template_larger_than_the_pod_is_refused(cluster, how):
    pod = await web(cluster, cpu="2")
    await cluster.create(templated(pod, **LARGER[how]), settle=False)
    await cluster.advance(5)
    assert await result_of(cluster) == REFUSED
    assert not await reservations(cluster)
    assert (await conditions(cluster))["ReservationCreated"] == ("False", "ForbiddenMigratePod")
    job = await job_of(cluster)
    assert "spec.reservationOptions.template: more " in job.status.message
    assert f"than Pod default/{pod.name} requests" in job.status.message
    assert await cluster.node_of(pod.name) == "n1"


def controller_of(pod):
    (found,) = pod.metadata.owner_references
    return found


OTHERS = {
    "by labels": lambda pod: {"labelSelector": {"matchLabels": {"app": "web"}}},
    "every pod": lambda pod: {"object": {}},
    "of the namespace": lambda pod: {"object": {"namespace": "default"}},
    "another pod": lambda pod: {"object": {"namespace": "default", "name": "other"}},
    "another controller": lambda pod: {"controller": {"name": "other", "namespace": "default"}},
    "in every namespace": lambda pod: {"controller": {"uid": controller_of(pod).uid}},
}


@pytest.mark.parametrize("which", OTHERS)
async def test_a_template_for_other_pods_is_refused(cluster, which):
    pod = await web(cluster)
    await cluster.create(templated(pod, spec={"owners": [OTHERS[which](pod)]}), settle=False)
    await cluster.advance(5)
    assert await result_of(cluster) == REFUSED
    message = (await job_of(cluster)).status.message
    assert "spec.reservationOptions.template.spec.owners[0]: matches other pods than" in message
    assert not await reservations(cluster)


async def test_a_template_for_the_successor_alone_is_followed(cluster):
    pod = await web(cluster, cpu="2")
    made = {"uid": controller_of(pod).uid, "namespace": "default"}
    spec = {**pod_of("2"), "owners": [{"controller": made}]}
    await cluster.create(templated(pod, metadata={"name": "room"}, spec=spec), settle=False)
    await cluster.advance(60)
    assert await result_of(cluster) == ("Succeeded", "")


async def test_annotations_of_a_pod_do_not_resize_the_reservation_made_from_it(cluster):
    """A tenant writes them on its own pod; the reservation must not hold other room for it."""
    notes = {
        RESIZE: json.dumps({"resources": {"cpu": "7"}}),
        INNER: json.dumps({"resources": {"cpu": "1"}}),
    }
    pod = await web(cluster, cpu="2", annotations=notes)
    await cluster.create(a_node("n3", cpu="1"))
    await cluster.create(a_job("j", pod, ttl="10m", paused=False), settle=False)
    await cluster.advance(60)
    (held,) = await reservations(cluster)
    assert held.status.allocatable["cpu"] == "2"
    assert await result_of(cluster) == ("Succeeded", "")


async def test_annotations_in_the_template_of_a_reservation_do_not_resize_it(cluster):
    raw = a_reservation("r", cpu="2")
    raw["spec"]["template"]["metadata"]["annotations"] = {RESIZE: '{"resources":{"cpu":"64"}}'}
    await cluster.create(a_node("n1", cpu="8"), raw)
    assert (await cluster.reservation("r")).status.allocatable["cpu"] == "2"


async def test_a_job_that_fails_changes_no_reservation_of_others(cluster):
    pod = await web(cluster)
    await cluster.create(a_reservation("theirs", owners=[{"object": {"name": "x"}}]))
    before = await cluster.client.get(RESERVATIONS, "theirs")
    job = a_job("j", pod, reservationOptions={"reservationRef": {"name": "theirs"}})
    await cluster.create(job, settle=False)
    await cluster.advance(5)
    assert await result_of(cluster) == REFUSED
    assert (await cluster.client.get(RESERVATIONS, "theirs")).metadata == before.metadata


async def test_a_job_without_a_template_reserves_for_the_successor_only(cluster):
    pod = await web(cluster, others=())
    await cluster.create(a_job("j", pod, ttl="10m"), settle=False)
    await cluster.advance(5)
    (held,) = await reservations(cluster)
    (owner,) = held.spec.owners
    assert owner.controller.uid == controller_of(pod).uid
    assert owner.controller.namespace == "default"
    stranger = a_pod("stranger", namespace="default", labels={"app": "web"})
    await cluster.create(a_node("n2", cpu="2"), settle=False)
    await cluster.create(stranger)
    assert "reservation-allocated" not in str((await cluster.pod("stranger")).metadata.annotations)
