"""PodMigrationJobs from creation to the pod that replaces the moved one, with a real scheduler."""

import pytest

from holdfast.api.scheme import (
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
)
from holdfast.errors import NotFound
from holdfast.testing import a_deployment, a_node
from holdfast.testing.builders import an_object
from holdfast.testing.harness import Harness

DONE = (
    "ReservationCreated", "ReservationScheduled", "Eviction", "ReservationBound", "BoundPodReady",
    "PodBoundReservation",
)  # fmt: skip


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


def a_job(name, pod, *, labels=None, annotations=None, **spec):
    ref = {"namespace": pod.namespace, "name": pod.name}
    return an_object(
        POD_MIGRATION_JOBS, name, {"podRef": ref, **spec}, labels=labels, annotations=annotations
    )


async def web(cluster, *, replicas=3, cpu="2", nodes=("n1", "n2"), **pod):
    """Create a Deployment whose pods all run on the first node; return one of them."""
    first, *others = nodes
    await cluster.create(a_node(first, cpu="8"))
    await cluster.create(a_deployment(replicas=replicas, cpu=cpu, **pod))
    await cluster.advance(5)
    await cluster.create(*(a_node(name, cpu="8") for name in others))
    return (await pods_of(cluster))[0]


async def pods_of(cluster, app="web"):
    listing = (await cluster.client.list(PODS, "default")).items
    return [p for p in listing if p.metadata.labels.get("app") == app and not p.terminating]


async def job_of(cluster, name="j"):
    return await cluster.client.get(POD_MIGRATION_JOBS, name)


def conditions(job):
    return {c.type: (c.status, c.reason) for c in job.status.conditions}


async def reservations(cluster):
    return (await cluster.client.list(RESERVATIONS)).items


async def test_N039_a_pod_moves_to_reserved_room(cluster):
    pod = await web(cluster)
    await cluster.create(a_job("j", pod, ttl="5m"), settle=False)
    await cluster.advance(0.6)
    (held,) = await reservations(cluster)
    assert held.status.node_name == "n2"
    await cluster.advance(60)
    job = await job_of(cluster)
    assert (job.phase, job.status.status, job.status.node_name) == ("Succeeded", "Complete", "n2")
    assert {name: status for name, (status, _) in conditions(job).items()} == dict.fromkeys(
        DONE, "True"
    )
    new = await cluster.pod(job.status.pod_ref.name)
    assert (new.spec.node_name, new.uid != pod.uid) == ("n2", True)
    with pytest.raises(NotFound):
        await cluster.pod(pod.name)
