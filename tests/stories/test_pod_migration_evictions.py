"""How pods that migrate are evicted, and how resources go from one pod to another."""

import json

import pytest

from holdfast.api.scheme import DISRUPTION_BUDGETS, NODES, PODS
from holdfast.runtime.settings import MigrationSettings
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness
from stories.migrations import (
    a_budget,
    a_job,
    conditions,
    job_of,
    pods_of,
    reservations,
    result_of,
    web,
)

POLICY = "koordinator.sh/evict-policy"
SOFT = "scheduling.koordinator.sh/soft-eviction"


class Bodies:
    """A transport that keeps how pods were evicted: method, last part of the path, and body."""

    def __init__(self, inner, kept):
        self._inner, self._kept = inner, kept

    async def send(self, request):
        path = request.path.split("/")
        evicts = path[-1] == "eviction" or (request.method == "DELETE" and path[-2] == "pods")
        body = json.loads(request.body) if evicts and request.body else {}
        if body and body.get("gracePeriodSeconds") != 0:  # that is how a kubelet removes a pod
            self._kept.append((request.method, path[-1], body))
        return await self._inner.send(request)

    def stream(self, request):
        return self._inner.stream(request)

    async def close(self):
        await self._inner.close()


def start(tmp_path, kept, **settings):
    return Harness(
        tmp_path / "store",
        wrap=lambda inner, _: Bodies(inner, kept),
        configuration=Configuration(migration=MigrationSettings(**settings)),
    )


@pytest.fixture
def sent():
    return []


@pytest.fixture
async def cluster(tmp_path, sent):
    async with start(tmp_path, sent) as harness:
        yield harness


async def run(cluster, job, *, seconds=60):
    await cluster.create(job, settle=False)
    await cluster.advance(seconds)
    return await result_of(cluster)


async def test_an_eviction_names_the_uid_of_the_pod(cluster, sent):
    pod = await web(cluster)
    options = {"gracePeriodSeconds": 7, "propagationPolicy": "Background"}
    assert await run(cluster, a_job("j", pod, deleteOptions=options)) == ("Succeeded", "")
    ((method, last, body),) = sent
    assert (method, last, body["kind"]) == ("POST", "eviction", "Eviction")
    assert body["deleteOptions"] == {**options, "preconditions": {"uid": pod.uid}}


async def test_a_deletion_ignores_disruption_budgets(cluster, sent):
    pod = await web(cluster)
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    assert await run(cluster, a_job("j", pod, labels={POLICY: "Delete"})) == ("Succeeded", "")
    ((method, name, body),) = sent
    assert (method, name, body["preconditions"]) == ("DELETE", pod.name, {"uid": pod.uid})


async def test_the_policy_of_the_pod_comes_before_that_of_the_job(cluster, sent):
    pod = await web(cluster, labels={POLICY: "SoftEviction"})
    await run(cluster, a_job("j", pod, labels={POLICY: "Delete"}))
    assert sent == []
    assert SOFT in (await cluster.pod(pod.name)).metadata.annotations
    assert (await conditions(cluster))["Eviction"] == ("False", "Evicting")


async def test_an_unknown_policy_counts_as_the_default(tmp_path, sent):
    async with start(tmp_path, sent, eviction_policy="Delete") as cluster:
        pod = await web(cluster, labels={POLICY: "Shoot"})
        assert await run(cluster, a_job("j", pod)) == ("Succeeded", "")
        assert [method for method, _, _ in sent] == ["DELETE"]


async def test_default_delete_options_are_those_of_jobs_without_any(tmp_path, sent):
    async with start(tmp_path, sent, delete_options={"gracePeriodSeconds": 9}) as cluster:
        pod = await web(cluster)
        assert await run(cluster, a_job("j", pod)) == ("Succeeded", "")
        assert sent[0][2]["deleteOptions"]["gracePeriodSeconds"] == 9


async def test_a_soft_eviction_says_when_why_and_how(cluster):
    pod = await web(cluster)
    notes = {"koordinator.sh/evict-reason": "load", "koordinator.sh/evict-trigger": "balancer"}
    job = a_job("j", pod, labels={POLICY: "SoftEviction"}, annotations=notes,
                deleteOptions={"gracePeriodSeconds": 5})  # fmt: skip
    await run(cluster, job)
    found = json.loads((await cluster.pod(pod.name)).metadata.annotations[SOFT])
    assert found.pop("timestamp").endswith("Z")
    assert found == {
        "deleteOptions": {"gracePeriodSeconds": 5, "preconditions": {"uid": pod.uid}},
        "initiator": "balancer",
        "reason": "load",
    }


async def test_events_tell_of_the_eviction(cluster):
    pod = await web(cluster)
    job = a_job("j", pod, annotations={"koordinator.sh/evict-reason": "too hot"})
    await run(cluster, job)
    message = f'Pod "default/{pod.name}" evicted from node "n1" by the reason "too hot"'
    assert ("Descheduled", message) in await cluster.events(pod.name)
    reasons = [reason for reason, _ in await cluster.events("j")]
    assert reasons == [
        "ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete",
    ]  # fmt: skip


async def test_a_pod_of_the_same_name_replaces_the_moved_one(cluster):
    """As for a StatefulSet, whose operator is played by the test."""
    owner = {"apiVersion": "example.com/v1", "kind": "Set", "name": "db", "uid": "db",
             "controller": True}  # fmt: skip
    evict = {"descheduler.alpha.kubernetes.io/evict": "true"}
    raw = a_pod("db-0", metadata={"ownerReferences": [owner]}, annotations=evict)
    await cluster.create(a_node("n1"), raw)
    old = await cluster.pod("db-0")
    await cluster.create(a_node("n2"))
    await cluster.create(a_job("j", old), settle=False)
    await cluster.advance(5)
    assert (await conditions(cluster))["Eviction"] == ("True", "EvictComplete")
    await cluster.create(raw)
    await cluster.advance(10)
    job, new = await job_of(cluster), await cluster.pod("db-0")
    assert (job.phase, job.status.pod_ref.uid) == ("Succeeded", new.uid)
    assert (new.spec.node_name, new.uid != old.uid) == ("n2", True)


async def test_pre_allocation_moves_resources_from_one_pod_to_another(cluster):
    """As the proposal says: the reservation waits for the resources of the pod that is evicted."""
    pod = await web(cluster, others=(), replicas=3, cpu="2")
    await cluster.create(a_pod("wants", cpu="4", labels={"app": "wants"}))  # 2 of 8 are free
    assert await cluster.node_of("wants") == ""
    owners = [{"labelSelector": {"matchLabels": {"app": "wants"}}}]
    room = a_reservation(
        "room", cpu="4", owners=owners, pre_allocation=True, template={"node": "n1"}
    )
    await cluster.create(room)
    job = a_job("j", pod, reservationOptions={"reservationRef": {"name": "room"}})
    assert await run(cluster, job) == ("Succeeded", "")
    assert await cluster.node_of("wants") == "n1"
    found = await job_of(cluster)
    assert (found.status.pod_ref.name, found.status.node_name) == ("wants", "n1")


async def test_a_restart_continues_with_what_was_begun(cluster):
    pod = await web(cluster, others=())
    await cluster.create(a_job("j", pod, ttl="10m"), settle=False)
    await cluster.advance(5)
    await cluster.restart()
    assert len(await reservations(cluster)) == 1
    async with cluster.components_stopped():
        await cluster.client.create(NODES, a_node("n2"))
    await cluster.advance(60)
    assert await result_of(cluster) == ("Succeeded", "")
    assert len(await pods_of(cluster)) == 3


async def test_a_pod_that_is_deleted_while_the_controller_is_away(cluster):
    """The pod is gone before its eviction, so the job fails, and its reservation is deleted."""
    pod = await web(cluster)
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    await cluster.create(a_job("j", pod), settle=False)
    await cluster.advance(0.2)
    async with cluster.components_stopped():
        await cluster.client.delete(PODS, pod.name, "default", grace_seconds=0)
    await cluster.advance(60)
    assert await result_of(cluster) == ("Failed", "MissingPod")
    assert not await reservations(cluster)


async def test_evictions_and_jobs_are_counted(cluster):
    pod = await web(cluster)
    await cluster.create(a_budget({"app": "web"}, minAvailable=3))
    notes = {"koordinator.sh/evict-trigger": "balancer"}
    await run(cluster, a_job("j", pod, ttl="5m", annotations=notes), seconds=5)
    await cluster.delete(DISRUPTION_BUDGETS, "budget", "default")
    await cluster.advance(60)
    page = cluster.components.scheduler.metrics_page().decode().splitlines()
    counts = [line for line in page if line.startswith("descheduler_pods_evicted{")]
    labels = 'namespace="default",node="n1",result="{}",strategy="balancer"'
    found = {line.split(" ")[0]: float(line.split(" ")[1]) for line in counts}
    assert found[f"descheduler_pods_evicted{{{labels.format('success')}}}"] == 1
    assert found[f"descheduler_pods_evicted{{{labels.format('error')}}}"] >= 2
    assert 'holdfast_pod_migration_jobs{phase="Succeeded"} 1.0' in page
    assert any(line.startswith('workqueue_adds_total{name="MigrationController"}')
               for line in page)  # fmt: skip
