"""Which migrations never begin, which wait, and in which order they begin."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import DEPLOYMENTS, DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, PODS
from holdfast.runtime.settings import MigrationSettings, ObjectLimit
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.testing import a_deployment, a_node, a_pod
from holdfast.testing.harness import Harness
from stories.migrations import (
    EvictionWitness,
    a_budget,
    a_job,
    job_of,
    pods_of,
    reservations,
    result_of,
    run_on,
    web,
)

COST = "scheduling.koordinator.sh/eviction-cost"
EVICT = "descheduler.alpha.kubernetes.io/evict"
FORBIDDEN = 'Pod "default/{}" is forbidden to migrate because it does not meet the requirements'
NO_LIMITS = MigrationSettings(
    max_per_node=None, max_per_workload=99, max_unavailable_per_workload=99,
    skip_check_expected_replicas=True, object_limits={},
)  # fmt: skip


@asynccontextmanager
async def cluster_with(tmp_path, settings):
    evicted = []
    wrap = lambda inner, _: EvictionWitness(inner, evicted)  # noqa: E731
    configuration = Configuration(migration=settings)
    async with Harness(tmp_path / "store", wrap=wrap, configuration=configuration) as harness:
        harness.evicted = evicted
        yield harness


@pytest.fixture
async def cluster(tmp_path):
    async with cluster_with(tmp_path, MigrationSettings()) as harness:
        yield harness


async def start(cluster, *jobs, seconds=0.6):
    await cluster.create(*jobs, settle=False)
    await cluster.advance(seconds)


async def why_waiting(cluster, name="j"):
    return [text for reason, text in await cluster.events(name) if reason == "WaitForArbitration"]


async def test_N044_a_workload_of_one_replica_does_not_migrate(cluster):
    pod = await web(cluster, replicas=1)
    await start(cluster, a_job("j", pod))
    job = await job_of(cluster)
    assert (job.phase, job.status.reason) == ("Failed", "ForbiddenMigratePod")
    assert job.status.message == FORBIDDEN.format(pod.name)
    cause = f'Pod "default/{pod.name}" cannot migrate: its workload has 1 replica'
    assert ("ForbiddenMigratePod", cause) in await cluster.events("j")
    assert not await reservations(cluster)


FORBIDDEN_PODS = {
    "it has local storage": {"volumes": [{"name": "v", "emptyDir": {}}]},
    "its priority 2000000000 is system critical": {
        "namespace": "kube-system", "priority_class_name": "system-cluster-critical",
    },
    f"its annotation {COST} is 2147483647": {"annotations": {COST: "2147483647"}},
    "it is a static pod": {"annotations": {"kubernetes.io/config.source": "file"}},
    "it is a mirror pod": {"annotations": {"kubernetes.io/config.mirror": "x"}},
    "it belongs to a DaemonSet": {"kind": "DaemonSet"},
    "it is a bare pod, which no controller creates again": {"kind": ""},
}  # fmt: skip


def owned_pod(*, kind="Machine", **fields):
    owner = {"apiVersion": "example.com/v1", "kind": kind, "name": "o", "uid": "o",
             "controller": True}  # fmt: skip
    return a_pod("p", metadata={"ownerReferences": [owner]} if kind else None, **fields)


@pytest.mark.parametrize("why", FORBIDDEN_PODS)
async def test_N044_pods_that_never_migrate(cluster, why):
    raw = owned_pod(**FORBIDDEN_PODS[why])
    await cluster.create(a_node("n1"), a_node("n2"), raw)
    pod = await cluster.pod("p", raw["metadata"]["namespace"])
    await start(cluster, a_job("j", pod))
    assert await result_of(cluster) == ("Failed", "ForbiddenMigratePod")
    messages = [text for _, text in await cluster.events("j")]
    assert f'Pod "{pod.namespace}/p" cannot migrate: {why}' in messages
    assert not await reservations(cluster)


async def test_N044_two_pods_of_a_node_migrate_at_once(cluster):
    await cluster.create(a_node("n1", cpu="8"))
    jobs = []
    for number in range(3):
        name = f"w{number}"
        await cluster.create(a_deployment(name, replicas=2, cpu="1"))
        pod = (await pods_of(cluster, name))[0]
        jobs.append(a_job(name, pod, ttl="10m"))
    await start(cluster, *jobs, seconds=5)  # no room elsewhere: the first two wait for it
    phases = [(await job_of(cluster, f"w{number}")).phase for number in range(3)]
    assert sorted(phases) == ["Pending", "Running", "Running"]
    waits = f"w{phases.index('Pending')}"
    (why,) = await why_waiting(cluster, waits)
    assert why.endswith("waits to migrate: 2 pods of node n1 migrate already")
    await cluster.create(a_node("n2", cpu="8"))
    await cluster.advance(60)
    assert {await result_of(cluster, f"w{n}") for n in range(3)} == {("Succeeded", "")}


LIMITS = {
    "2 pods of the cluster migrate already": {"max_globally": 2},
    "2 pods of namespace default migrate already": {"max_per_namespace": 2},
    "2 pods of node n1 migrate already": {"max_per_node": 2},
    "2 pods of its workload migrate already": {"max_per_workload": 2},
    "2 pods of its workload are not available or migrate already": {
        "max_unavailable_per_workload": "50%"
    },
}


@pytest.mark.parametrize("why", LIMITS)
async def test_a_limit_delays_the_third_job(tmp_path, why):
    settings = {f: getattr(NO_LIMITS, f) for f in MigrationSettings.__slots__} | LIMITS[why]
    async with cluster_with(tmp_path, MigrationSettings(**settings)) as cluster:
        pods = await run_on(cluster, "n1", replicas=4, cpu="1", node_cpu="4")
        jobs = [a_job(f"j{i}", pod, ttl="10m") for i, pod in enumerate(pods[:3])]
        await start(cluster, *jobs, seconds=5)
        found = [await job_of(cluster, f"j{i}") for i in range(3)]
        (waiting,) = [job for job in found if job.phase == "Pending"]
        assert [text.split(": ")[1] for text in await why_waiting(cluster, waiting.name)] == [why]
        await cluster.create(a_node("n2", cpu="4"))
        await cluster.advance(60)
        assert {await result_of(cluster, f"j{i}") for i in range(3)} == {("Succeeded", "")}


async def test_an_annotated_pod_passes_filters_and_limits(cluster):
    pod = await web(cluster, replicas=1, annotations={EVICT: "true"})
    await start(cluster, a_job("j", pod), seconds=60)
    assert await result_of(cluster) == ("Succeeded", "")


async def test_pods_of_low_eviction_cost_migrate_first(tmp_path):
    settings = MigrationSettings(max_globally=1)
    async with cluster_with(tmp_path, settings) as cluster:
        await cluster.create(a_node("n1", cpu="8"), a_node("n2", cpu="8"))
        jobs = []
        for app, cost in (("high", "30"), ("low", "10"), ("middle", "20")):
            await cluster.create(a_deployment(app, replicas=2, cpu="1", annotations={COST: cost}))
            jobs.append(a_job(app, (await pods_of(cluster, app))[0]))
        await start(cluster, *jobs, seconds=120)
        assert {await result_of(cluster, app) for app in ("high", "low", "middle")} == {
            ("Succeeded", "")
        }
        assert [name.split("-")[0] for name in cluster.evicted] == ["low", "middle", "high"]


async def test_jobs_of_one_workload_evict_in_the_order_of_their_reservations(tmp_path):
    """Otherwise a new pod takes the room of a job that has not evicted yet, which then fails."""
    async with cluster_with(tmp_path, NO_LIMITS) as cluster:
        pods = await run_on(cluster, "n1", replicas=6, cpu="1")
        await cluster.create(a_node("n2", cpu="4"), a_node("n3", cpu="4"))
        slow = {"metadata": {"labels": {"slow": "yes"}}}
        await cluster.client.patch(PODS, pods[0].name, slow, "default")
        await cluster.create(a_budget({"slow": "yes"}, maxUnavailable=0))
        await start(cluster, a_job("j0", pods[0]), seconds=5)
        jobs = [a_job(f"j{i}", pod) for i, pod in enumerate(pods) if i]
        await start(cluster, *jobs, seconds=60)
        assert cluster.evicted == []
        await cluster.delete(DISRUPTION_BUDGETS, "budget", "default")
        await cluster.advance(60)
        assert cluster.evicted[0] == pods[0].name
        assert {await result_of(cluster, f"j{i}") for i in range(6)} == {("Succeeded", "")}
        assert {p.spec.node_name for p in await pods_of(cluster)} == {"n2", "n3"}


async def test_pods_of_one_workload_are_evicted_at_intervals(tmp_path):
    """With 1 eviction a minute a second job begins a minute after the first."""
    settings = MigrationSettings(object_limits={"workload": ObjectLimit(60.0, 1)})
    async with cluster_with(tmp_path, settings) as cluster:
        pods = await run_on(cluster, "n1", replicas=4, cpu="1")
        await cluster.create(a_node("n2", cpu="8"))
        await start(cluster, a_job("a", pods[0]), seconds=5)
        await start(cluster, a_job("b", pods[1]), seconds=50)
        assert await result_of(cluster, "a") == ("Succeeded", "")
        assert (await job_of(cluster, "b")).phase == "Pending"
        assert len(await reservations(cluster)) == 1
        await cluster.advance(30)
        assert await result_of(cluster, "b") == ("Succeeded", "")


async def test_a_job_of_a_limited_workload_begins_if_it_is_annotated(tmp_path):
    settings = MigrationSettings(object_limits={"workload": ObjectLimit(3600.0, 1)})
    async with cluster_with(tmp_path, settings) as cluster:
        pods = await run_on(cluster, "n1", replicas=4, cpu="1")
        await cluster.create(a_node("n2", cpu="8"))
        await start(cluster, a_job("a", pods[0]), seconds=30)
        now = a_job("now", pods[1], annotations={EVICT: "true"})
        await start(cluster, a_job("later", pods[2]), seconds=30)
        await start(cluster, now, seconds=30)
        assert await result_of(cluster, "now") == ("Succeeded", "")
        assert (await job_of(cluster, "later")).phase == "Pending"


async def test_evictions_are_limited_by_their_rate(tmp_path):
    """With one eviction in 10 s, three jobs end at least 20 s after they began."""
    settings = MigrationSettings(evict_qps=0.1, max_per_node=None, object_limits={})
    async with cluster_with(tmp_path, settings) as cluster:
        jobs = []
        await cluster.create(a_node("n1", cpu="8"))
        for app in ("a", "b", "c"):
            await cluster.create(a_deployment(app, replicas=2, cpu="1"))
            jobs.append(a_job(app, (await pods_of(cluster, app))[0], mode="EvictDirectly"))
        await start(cluster, *jobs, seconds=15)
        done = [app for app in "abc" if (await job_of(cluster, app)).phase == "Succeeded"]
        assert len(done) == 2
        (last,) = set("abc") - set(done)
        message = [text for reason, text in await cluster.events(last) if reason == "FailedEvict"]
        assert message[0].endswith("caused by TooManyEvictions")
        await cluster.advance(15)
        assert await result_of(cluster, last) == ("Succeeded", "")


async def test_a_dry_run_reserves_and_evicts_nothing(tmp_path):
    async with cluster_with(tmp_path, MigrationSettings(dry_run=True)) as cluster:
        pod = await web(cluster)
        await start(cluster, a_job("j", pod, ttl="60s"), seconds=50)
        assert (await job_of(cluster)).phase == "Running"
        assert not await reservations(cluster)
        await cluster.advance(20)
        assert await result_of(cluster) == ("Failed", "Timeout")
        assert (await cluster.pod(pod.name)).uid == pod.uid


async def test_without_arbitration_jobs_begin_at_once(tmp_path):
    async with cluster_with(tmp_path, MigrationSettings(arbitrate=False)) as cluster:
        pod = await web(cluster, replicas=1)
        await start(cluster, a_job("j", pod), seconds=30)
        assert await result_of(cluster) == ("Succeeded", "")


async def test_a_second_job_waits_for_the_first_one_of_its_pod(cluster):
    pod = await web(cluster, others=())
    await start(cluster, a_job("first", pod, ttl="60s"), seconds=1)
    await start(cluster, a_job("second", pod, ttl="5m"), seconds=5)
    assert len(await reservations(cluster)) == 1
    (why,) = await why_waiting(cluster, "second")
    assert why.endswith("another job moves it already")
    await cluster.advance(60)
    assert await result_of(cluster, "first") == ("Failed", "Timeout")
    await cluster.create(a_node("n2"))
    await cluster.advance(30)
    assert await result_of(cluster, "second") == ("Succeeded", "")


async def test_unavailable_pods_count_for_their_workload(cluster):
    pods = await run_on(cluster, "n1", replicas=3, cpu="2", node_cpu="6")
    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, "default")
    await cluster.advance(5)  # the fourth pod has no room: 1 of 4 is not available
    patch = {"metadata": {"annotations": {COST: "1"}}}
    await cluster.client.patch(PODS, pods[0].name, patch, "default")
    await start(cluster, a_job("a", pods[0], ttl="10m"), a_job("b", pods[1]), seconds=5)
    assert (await job_of(cluster, "b")).phase == "Running"
    assert (await why_waiting(cluster, "a"))[0].endswith(
        "2 pods of its workload are not available or migrate already"
    )


async def test_jobs_of_long_ago_are_deleted_with_their_reservations(cluster):
    pod = await web(cluster, others=())
    await start(cluster, a_job("ttl", pod, ttl="10m"), seconds=5)
    await start(cluster, a_job("paused", pod, paused=True), seconds=5)
    await cluster.advance(14 * 60)
    assert {j.name for j in (await cluster.client.list(POD_MIGRATION_JOBS)).items} == {
        "ttl", "paused",
    }  # fmt: skip
    await cluster.advance(60)
    listed = (await cluster.client.list(POD_MIGRATION_JOBS)).items
    assert [job.name for job in listed] == ["paused"]
    assert not await reservations(cluster)
    await cluster.advance(15 * 60)
    assert not (await cluster.client.list(POD_MIGRATION_JOBS)).items


async def test_deleting_a_job_deletes_its_reservation(cluster):
    pod = await web(cluster, others=())
    await start(cluster, a_job("j", pod), seconds=5)
    assert len(await reservations(cluster)) == 1
    await cluster.delete(POD_MIGRATION_JOBS, "j")
    await cluster.advance(5)
    assert not await reservations(cluster)
    assert (await cluster.pod(pod.name)).uid == pod.uid
