"""PodMigrationJobs from creation to the pod that replaces the moved one, with a real scheduler."""

import pytest

from holdfast.api.scheme import (
    DISRUPTION_BUDGETS,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
)
from holdfast.runtime.errors import NotFound
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness
from stories.migrations import (
    EvictionWitness,
    a_budget,
    a_job,
    conditions,
    job_of,
    pause,
    pods_of,
    reservations,
    result_of,
    web,
)

DONE = (
    "ReservationCreated", "ReservationScheduled", "Eviction", "ReservationBound", "BoundPodReady",
    "PodBoundReservation",
)  # fmt: skip
WARNING = 'Failed evict Pod "default/{}" caused by Cannot evict pod'


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store", wrap=lambda inner, _: EvictionWitness(inner)) as harness:
        yield harness


async def set_finalizers(cluster, pod, *finalizers):
    patch = {"metadata": {"finalizers": list(finalizers)}}
    await cluster.client.patch(PODS, pod.name, patch, "default")


async def is_there(cluster, pod):
    try:
        return (await cluster.pod(pod.name)).uid == pod.uid
    except NotFound:
        return False


async def test_N039_R082_a_pod_moves_to_reserved_room(cluster):
    pod = await web(cluster)
    await cluster.create(a_job("j", pod, ttl="5m"), settle=False)
    await cluster.advance(0.6)
    (held,) = await reservations(cluster)
    assert held.status.node_name == "n2"
    await cluster.advance(60)
    job = await job_of(cluster)
    assert (job.phase, job.status.status, job.status.node_name) == ("Succeeded", "Complete", "n2")
    assert {name: status for name, (status, _) in (await conditions(cluster)).items()} == (
        dict.fromkeys(DONE, "True")
    )
    new = await cluster.pod(job.status.pod_ref.name)
    assert (new.spec.node_name, new.uid != pod.uid) == ("n2", True)
    assert not await is_there(cluster, pod)
    assert (await cluster.reservation(held.name)).phase == "Succeeded"
    assert job.status.message == f'Bind Pod "default/{new.name}" in Reservation "{held.name}"'


async def test_N040_R083_without_room_nothing_is_evicted(cluster):
    pod = await web(cluster, others=())
    await cluster.create(a_job("j", pod, ttl="60s"), settle=False)
    await cluster.advance(59)
    assert (await conditions(cluster))["ReservationScheduled"] == ("False", "Unschedulable")
    job = await job_of(cluster)
    assert (job.phase, len(await reservations(cluster))) == ("Running", 1)
    assert "0/1 nodes are available" in job.status.message
    await cluster.advance(1)
    job = await job_of(cluster)
    assert (job.phase, job.status.reason, job.status.message) == (
        "Failed", "Timeout", "Abort job caused by timeout",
    )  # fmt: skip
    assert not await reservations(cluster)
    assert await is_there(cluster, pod)


async def test_N041_a_disruption_budget_delays_the_eviction(cluster):
    pod = await web(cluster)
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    await cluster.create(a_job("j", pod, ttl="5m"), settle=False)
    await cluster.advance(60)
    assert await is_there(cluster, pod)
    refused = [text for reason, text in await cluster.events("j") if reason == "FailedEvict"]
    (warning,) = set(refused)
    assert warning.startswith(WARNING.format(pod.name)), warning
    relaxed = {"spec": {"minAvailable": 2}}
    await cluster.client.patch(DISRUPTION_BUDGETS, "budget", relaxed, "default")
    await cluster.advance(60)
    assert await result_of(cluster) == ("Succeeded", "")
    assert not await is_there(cluster, pod)


async def test_N041_a_disruption_budget_that_stays_ends_the_job(cluster):
    pod = await web(cluster)
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    await cluster.create(a_job("j", pod, ttl="60s"), settle=False)
    await cluster.advance(61)
    assert await result_of(cluster) == ("Failed", "Timeout")
    assert not await reservations(cluster)
    assert await is_there(cluster, pod)


async def test_N042_a_pod_is_evicted_without_a_reservation(cluster):
    pod = await web(cluster)
    await set_finalizers(cluster, pod, "example.com/slow")
    await cluster.create(a_job("j", pod, mode="EvictDirectly"), settle=False)
    await cluster.advance(30)
    assert (await cluster.pod(pod.name)).terminating
    assert (await conditions(cluster))["Eviction"] == ("False", "Evicting")
    assert (await job_of(cluster)).phase == "Running"
    await set_finalizers(cluster, pod)
    await cluster.settle()
    job = await job_of(cluster)
    assert (job.phase, job.status.status) == ("Succeeded", "Complete")
    assert job.status.message == f'Pod "default/{pod.name}" has been evicted'
    assert not await is_there(cluster, pod)
    assert not await reservations(cluster)


@pytest.mark.parametrize("mode", ["EvictDirectly", "ReservationFirst"])
async def test_N042_a_missing_pod_fails_the_job(cluster, mode):
    pod = await web(cluster)
    absent = a_job("j", pod, mode=mode)
    absent["spec"]["podRef"]["name"] = "absent"
    await cluster.create(absent, settle=False)
    await cluster.advance(2)
    job = await job_of(cluster)
    assert (job.phase, job.status.reason, job.status.message) == (
        "Failed", "MissingPod", 'Abort job caused by missing Pod "default/absent"',
    )  # fmt: skip


async def test_N043_a_soft_eviction_leaves_the_deletion_to_the_operator(cluster):
    pod = await web(cluster)
    soft = {"koordinator.sh/evict-policy": "SoftEviction"}
    reason = {"koordinator.sh/evict-reason": "rebalance"}
    await cluster.create(a_job("j", pod, labels=soft, annotations=reason), settle=False)
    await cluster.advance(30)
    noted = (await cluster.pod(pod.name)).metadata.annotations
    assert '"reason":"rebalance"' in noted["scheduling.koordinator.sh/soft-eviction"]
    assert (await conditions(cluster))["Eviction"] == ("False", "Evicting")
    await cluster.delete(PODS, pod.name, "default")
    await cluster.advance(60)
    assert await result_of(cluster) == ("Succeeded", "")


async def test_N043_a_paused_job_does_nothing(cluster):
    pod = await web(cluster)
    await cluster.create(a_job("j", pod, paused=True, ttl="60s"), settle=False)
    await cluster.advance(120)
    job = await job_of(cluster)
    assert (job.phase, job.status.conditions) == ("Pending", ())
    assert not await reservations(cluster)
    await cluster.client.patch(POD_MIGRATION_JOBS, "j", {"spec": {"ttl": "10m"}})
    await pause(cluster, paused=False)
    await cluster.advance(60)
    assert await result_of(cluster) == ("Succeeded", "")


async def test_a_job_is_paused_between_reservation_and_eviction(cluster):
    pod = await web(cluster, others=())
    await cluster.create(a_job("j", pod), settle=False)
    await cluster.advance(5)
    await pause(cluster, paused=True)
    await cluster.create(a_node("n2"))
    await cluster.advance(60)
    (held,) = await reservations(cluster)
    assert (held.phase, await is_there(cluster, pod)) == ("Available", True)
    await pause(cluster, paused=False)
    await cluster.advance(60)
    assert await result_of(cluster) == ("Succeeded", "")


async def test_R084_room_that_another_pod_takes_ends_the_job(cluster):
    """A pod of the same Deployment is created between the reservation and the eviction."""
    pod = await web(cluster, cpu="2")
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    await cluster.create(a_job("j", pod, ttl="5m"), settle=False)
    await cluster.advance(5)
    (held,) = await reservations(cluster)
    assert held.phase == "Available"
    other = next(p for p in await pods_of(cluster) if p.name != pod.name)
    await cluster.delete(PODS, other.name, "default")
    await cluster.advance(20)
    assert (await cluster.reservation(held.name)).phase == "Succeeded"
    job = await job_of(cluster)
    assert (job.phase, job.status.reason, job.status.message) == (
        "Failed", "ForbiddenMigratePod", "Reservation is already bound by another Pod",
    )  # fmt: skip
    assert await is_there(cluster, pod)


async def test_R084_a_pending_pod_whose_room_is_taken_fails_the_job(cluster):
    await cluster.create(a_node("n1", cpu="2"), a_pod("big", cpu="4", labels={"app": "big"}))
    given = a_reservation(
        "r", cpu="4", owners=[{"object": {"name": "big", "namespace": "default"}}]
    )
    await cluster.create(given)
    job = a_job("j", await cluster.pod("big"), reservationOptions={"reservationRef": {"name": "r"}})
    await cluster.create(job, settle=False)
    await cluster.advance(5)
    taken = {"phase": "Succeeded", "nodeName": "n2", "currentOwners": [
        {"namespace": "default", "name": "other", "uid": "other"}]}  # fmt: skip
    await cluster.client.patch(RESERVATIONS, "r", {"status": taken}, subresource="status")
    await cluster.advance(5)
    assert await result_of(cluster) == ("Failed", "ForbiddenMigratePod")


async def test_a_pending_pod_gets_the_room_that_is_reserved_for_it(cluster):
    await cluster.create(a_node("n1", cpu="2"), a_pod("big", cpu="4"))
    await cluster.create(a_job("j", await cluster.pod("big"), ttl="5m"), settle=False)
    await cluster.advance(5)
    (held,) = await reservations(cluster)
    assert [owner.object.name for owner in held.spec.owners] == ["big"]
    assert (await job_of(cluster)).phase == "Running"
    await cluster.create(a_node("n2", cpu="8"))
    await cluster.advance(30)
    job = await job_of(cluster)
    assert (job.phase, job.status.message) == (
        "Succeeded", 'Assign Pod "default/big" to node "n2"',
    )  # fmt: skip
    assert await cluster.node_of("big") == "n2"
    assert all(held.phase == "Succeeded" for held in await reservations(cluster))
