"""Jobs that a limit holds back: they say which one, and their time does not pass."""

import pytest

from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.runtime.settings import MigrationSettings
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.testing import a_deployment, a_node
from holdfast.testing.harness import Harness
from stories.migrations import a_job, job_of, pods_of, result_of, run_on


@pytest.fixture
async def cluster(tmp_path):
    """A cluster with the default limits."""
    async with Harness(tmp_path / "store") as harness:
        yield harness


async def three_on_a_node(cluster, **job):
    """Create a job for each of three workloads of one node; there is no room elsewhere."""
    await cluster.create(a_node("n1", cpu="8"))
    for name in ("a", "b", "c"):
        await cluster.create(a_deployment(name, replicas=2, cpu="1"))
        pod = (await pods_of(cluster, name))[0]
        await cluster.create(a_job(name, pod, **job), settle=False)
    await cluster.advance(2)
    jobs = [await job_of(cluster, name) for name in ("a", "b", "c")]
    (waiting,) = [job.name for job in jobs if job.status.phase == "Pending"]
    return waiting


def limited(job):
    found = job.condition("Limited")
    return found and (found.status, found.reason)


async def test_phase_and_step_are_never_empty_and_the_limit_is_named(cluster):
    waiting = await three_on_a_node(cluster)
    for name in ("a", "b", "c"):
        status = (await job_of(cluster, name)).status
        assert status.phase and status.status
    job = await job_of(cluster, waiting)
    assert (job.status.phase, job.status.status) == ("Pending", "Limited")
    assert limited(job) == ("True", "maxMigratingPerNode")
    assert job.status.message.endswith(
        "waits for maxMigratingPerNode: 2 pods of node n1 migrate already"
    )


@pytest.mark.parametrize("restart", [False, True])
async def test_the_wait_does_not_count_against_the_ttl(cluster, restart):
    waiting = await three_on_a_node(cluster, ttl="5m")
    others = [name for name in ("a", "b", "c") if name != waiting]
    await cluster.advance(280)
    if restart:
        await cluster.restart()
    await cluster.advance(15)
    assert limited(await job_of(cluster, waiting)) == ("True", "maxMigratingPerNode")
    await cluster.advance(20)  # the others time out, so that it may begin
    assert {await result_of(cluster, name) for name in others} == {("Failed", "Timeout")}
    job = await job_of(cluster, waiting)
    assert (job.phase, limited(job)[0]) == ("Running", "False")
    assert job.status.status == "ReservationScheduled"
    await cluster.advance(270)
    assert (await job_of(cluster, waiting)).phase == "Running"
    await cluster.advance(40)
    assert await result_of(cluster, waiting) == ("Failed", "Timeout")


async def test_a_limited_job_without_a_ttl_is_not_deleted(cluster):
    waiting = await three_on_a_node(cluster)
    others = [name for name in ("a", "b", "c") if name != waiting]
    for name in others:
        await cluster.client.patch(POD_MIGRATION_JOBS, name, {"spec": {"ttl": "2h"}})
    await cluster.advance(3000)
    assert limited(await job_of(cluster, waiting)) == ("True", "maxMigratingPerNode")


async def test_a_limit_of_evictions_of_a_workload_is_named(cluster):
    pods = await run_on(cluster, "n1", replicas=4, cpu="1", node_cpu="8")
    await cluster.create(a_node("n2", cpu="8"))
    for i, pod in enumerate(pods[:3]):
        await cluster.create(a_job(f"j{i}", pod, ttl="4m"), settle=False)
        await cluster.advance(20)
    job = await job_of(cluster, "j2")
    assert limited(job) == ("True", "objectLimiters_workload")
    assert (job.status.phase, job.status.status) == ("Pending", "Limited")
    assert "as many pods of its workload as allowed were evicted lately" in job.status.message
    await cluster.advance(400)
    assert {await result_of(cluster, f"j{i}") for i in range(3)} == {("Succeeded", "")}


async def test_a_limit_of_all_evictions_is_named_and_ends(tmp_path):
    settings = MigrationSettings(
        evict_qps=0.01, evict_burst=1, max_per_node=None, object_limits={},
        max_per_workload=9, max_unavailable_per_workload=9, skip_check_expected_replicas=True,
    )  # fmt: skip
    configuration = Configuration(migration=settings)
    async with Harness(tmp_path / "store", configuration=configuration) as cluster:
        pods = await run_on(cluster, "n1", replicas=4, cpu="1", node_cpu="8")
        await cluster.create(a_node("n2", cpu="8"))
        for i, pod in enumerate(pods[:2]):
            await cluster.create(a_job(f"j{i}", pod, ttl="90s", mode="EvictDirectly"), settle=False)
        await cluster.advance(20)
        jobs = [await job_of(cluster, f"j{i}") for i in range(2)]
        assert sorted(str(limited(job)) for job in jobs) == ["('True', 'evictQPS')", "None"]
        await cluster.advance(120)
        jobs = [await job_of(cluster, f"j{i}") for i in range(2)]
        assert [job.phase for job in jobs] == ["Succeeded", "Succeeded"]


async def test_a_paused_job_says_so(cluster):
    pods = await run_on(cluster, "n1")
    await cluster.create(a_job("j", pods[0], paused=True), settle=False)
    await cluster.advance(2)
    status = (await job_of(cluster)).status
    assert (status.phase, status.status) == ("Pending", "Paused")
    await cluster.client.patch(POD_MIGRATION_JOBS, "j", {"spec": {"paused": False}})
    await cluster.create(a_node("n2", cpu="8"))
    await cluster.advance(60)
    assert await result_of(cluster) == ("Succeeded", "")
