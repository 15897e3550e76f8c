"""The descheduler with a real scheduler and real controllers: pods move, and then rest."""

import logging
import random
from dataclasses import replace

import pytest

from descheduler.clusters import configured
from holdfast.api.scheme import NODES, POD_MIGRATION_JOBS, PODS
from holdfast.client.client import Client
from holdfast.controllers.descheduler.configuration import NAME
from holdfast.controllers.descheduler.descheduler import Descheduler
from holdfast.runtime.errors import Forbidden
from holdfast.runtime.settings import MigrationSettings
from holdfast.testing import a_deployment, a_node
from holdfast.testing.faults import Chances, FaultyTransport
from holdfast.testing.harness import Harness
from rights import RestrictedTransport, rights_of_role
from stories.migrations import conditions, pods_of

LOAD = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 60}}
TAINTS = "RemovePodsViolatingNodeTaints"
CYCLE = 120


def cluster_with(tmp_path, *policies, wrap=None, **arguments):
    configuration = configured(*policies, **arguments)
    return Harness(tmp_path / "store", descheduler=configuration, wrap=wrap)


async def on_nodes(cluster):
    """Return how many pods each node has."""
    found = {}
    for pod in await pods_of(cluster):
        found[pod.spec.node_name] = found.get(pod.spec.node_name, 0) + 1
    return dict(sorted(found.items()))


async def jobs_of(cluster):
    return (await cluster.client.list(POD_MIGRATION_JOBS)).items


async def crowd(cluster, replicas=6, cpu="1"):
    """Run all pods of a Deployment on one node, then add another node."""
    await cluster.create(a_node("n1", cpu="8"))
    await cluster.create(a_deployment(replicas=replicas, cpu=cpu))
    await cluster.advance(5)
    await cluster.create(a_node("n2", cpu="8"))


async def test_a_full_node_is_relieved_with_a_reservation_first(tmp_path):
    async with cluster_with(tmp_path, "LowNodeLoad", LowNodeLoad=LOAD) as cluster:
        await crowd(cluster)
        await cluster.advance(CYCLE)
        (first, second) = await jobs_of(cluster)
        notes = first.metadata.annotations
        assert notes["koordinator.sh/evict-trigger"] == "LowNodeLoad"
        assert notes["koordinator.sh/job-created-by"] == "holdfast-descheduler"
        assert notes["koordinator.sh/evict-reason"].startswith("node is overutilized, cpu usage(")
        assert (first.spec.mode, first.spec.ttl) == ("ReservationFirst", "5m0s")
        assert not first.metadata.owner_references
        await cluster.advance(60)
        jobs = await jobs_of(cluster)
        assert {job.phase for job in jobs} == {"Succeeded"}
        assert {job.status.node_name for job in jobs} == {"n2"}
        for job in jobs:
            assert (await conditions(cluster, job.name))["ReservationScheduled"][0] == "True"
        assert await on_nodes(cluster) == {"n1": 4, "n2": 2}
        assert second.spec.pod_ref.uid != first.spec.pod_ref.uid


async def test_a_balanced_cluster_rests(tmp_path):
    async with cluster_with(tmp_path, "LowNodeLoad", LowNodeLoad=LOAD) as cluster:
        await crowd(cluster)
        await cluster.advance(2 * CYCLE)
        before = {pod.uid for pod in await pods_of(cluster)}
        await cluster.advance(6 * CYCLE)
        assert {pod.uid for pod in await pods_of(cluster)} == before
        assert not await jobs_of(cluster)  # all ended, and removed


async def test_a_pod_that_does_not_tolerate_a_new_taint_moves(tmp_path):
    async with cluster_with(tmp_path, TAINTS) as cluster:
        await crowd(cluster, replicas=4)
        await cluster.advance(CYCLE)
        assert await on_nodes(cluster) == {"n1": 4}
        taint = {"key": "maintenance", "effect": "NoSchedule"}
        await cluster.client.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        await cluster.advance(8 * CYCLE)
        assert await on_nodes(cluster) == {"n2": 4}


async def test_duplicates_spread(tmp_path):
    async with cluster_with(tmp_path, "RemoveDuplicates") as cluster:
        await crowd(cluster, replicas=4)
        await cluster.advance(6 * CYCLE)
        assert await on_nodes(cluster) == {"n1": 2, "n2": 2}


async def test_after_a_restart_it_goes_on_and_writes_no_second_job(tmp_path):
    async with cluster_with(tmp_path, "LowNodeLoad", LowNodeLoad=LOAD) as cluster:
        await crowd(cluster)
        await cluster.advance(CYCLE - 4)
        names = {job.name for job in await jobs_of(cluster)}
        assert len(names) == 2
        await cluster.restart()
        await cluster.advance(60)
        assert {job.name for job in await jobs_of(cluster)} == names
        assert await on_nodes(cluster) == {"n1": 4, "n2": 2}


async def test_lost_responses_and_errors_delay_it_only(tmp_path):
    def wrap(transport, clock):
        chances = Chances(conflict=0.05, unavailable=0.05, lost=0.05)
        return FaultyTransport(transport, chances=chances, rng=random.Random(3), clock=clock)

    async with cluster_with(tmp_path, "LowNodeLoad", wrap=wrap, LowNodeLoad=LOAD) as cluster:
        await crowd(cluster)
        await cluster.advance(8 * CYCLE)
        found = await on_nodes(cluster)
        assert found["n1"] == 4
        assert sum(found.values()) == 6


async def test_pods_with_local_storage_stay_and_others_move(tmp_path):
    volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
    async with cluster_with(tmp_path, TAINTS) as cluster:
        await crowd(cluster, replicas=3)
        await cluster.create(a_deployment("db", replicas=3, **volume), settle=False)
        await cluster.advance(5)
        taint = {"key": "maintenance", "effect": "NoSchedule"}
        for node in ("n1", "n2"):
            await cluster.client.patch(NODES, node, {"spec": {"taints": [taint]}})
        await cluster.create(a_node("n3", cpu="8"))
        await cluster.advance(8 * CYCLE)
        assert await on_nodes(cluster) == {"n3": 3}
        assert "n3" not in {p.spec.node_name for p in await pods_of(cluster, "db")}


async def test_a_dry_run_writes_nothing(tmp_path, caplog):
    caplog.set_level(logging.INFO, "holdfast.controllers.descheduler")
    dry = {**LOAD, "dryRun": True}
    async with cluster_with(tmp_path, "LowNodeLoad", LowNodeLoad=dry) as cluster:
        await crowd(cluster)
        await cluster.advance(CYCLE)
        assert not await jobs_of(cluster)
        assert "LowNodeLoad: pod default/web-" in caplog.text
        assert "(dry-run)" in caplog.text


async def test_it_needs_exactly_the_rights_in_deploy_rbac(tmp_path):
    async with Harness(tmp_path / "store") as cluster:
        await crowd(cluster)
        transport = RestrictedTransport(
            cluster.server_transport("system:holdfast:descheduler"),
            NAME,
            cluster.failures.append,
        )
        ours = MigrationSettings(scheduler_names=frozenset(("default-scheduler",)))
        given = replace(configured("LowNodeLoad", LowNodeLoad=LOAD), migration=ours)
        descheduler = Descheduler(Client(transport, "descheduler"), cluster.clock, given)
        await cluster.as_time_passes(descheduler.sync())
        await cluster.settle()
        assert len(await descheduler.run_cycle()) == 2
        await descheduler.stop()
        # A watch also lists, where the server can do that.
        granted = {right for right in rights_of_role(NAME) if right[1] != "leases"}
        assert {right for right in granted - transport.used if right[2] != "list"} == set()


async def test_in_the_embedded_cluster_it_may_not_touch_pods(tmp_path):
    async with Harness(tmp_path / "store") as cluster:
        await crowd(cluster, replicas=1)
        client = Client(cluster.server_transport("system:holdfast:descheduler"), "test")
        (pod,) = await pods_of(cluster)
        assert (await client.get(PODS, pod.name, "default")).uid == pod.uid
        with pytest.raises(Forbidden):
            await client.delete(PODS, pod.name, "default")
