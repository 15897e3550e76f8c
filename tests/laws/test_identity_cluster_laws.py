"""One holder a CPU and a unit of a device through faults, restarts, expiries and migrations."""

import pytest

from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.controllers.pod_migration.job_fields import is_limited
from holdfast.testing.harness import Harness
from laws.cluster_audit import take_census
from laws.cluster_identities import audit
from laws.cluster_steps import Network
from laws.cluster_truth import stale_statuses, wrong_phases
from laws.core_steps import CoreLife
from laws.ledger_shape import rebuilt, shape_of
from soak_size import SEED, rounds

SEEDS = range(SEED, SEED + rounds(2))
STEPS = 30
LONG_ENOUGH = 700.0
"""Seconds after which every unschedulable pod was tried again, and every job has ended."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_identities_have_one_holder_through_faults_and_restarts(tmp_path, seed, repeatable):
    network = Network(seed)
    async with Harness(tmp_path, wrap=network.wrap, seed=seed) as cluster:
        life, nodes_of = CoreLife(cluster, seed), {}
        try:
            await life.begin()
            for _ in range(STEPS):
                await life.step()
                await check(cluster, nodes_of)
            network.heal()
            await life.finish()
            await cluster.advance(LONG_ENOUGH)
            await check(cluster, nodes_of)
            await check_idle_cluster(cluster)
        except AssertionError as broken:
            broken.add_note(
                "\n".join([*map(str, life.log), *map(str, network.injected_faults[-12:])])
            )
            raise


async def check(cluster, identities_of):
    """Check all objects; what a bound pod has never changes."""
    for pod in (await audit(cluster)).pods:
        if pod.spec.node_name:
            has = (pod.spec.node_name, pod.metadata.annotations)
            assert identities_of.setdefault(pod.uid, has) == has, f"{pod.name} changed"


async def check_idle_cluster(cluster):
    """Statuses are right, jobs have ended or say what limits them, and worlds are equal."""
    census = await take_census(cluster.client)
    now = cluster.clock.now()
    jobs = (await cluster.client.list(POD_MIGRATION_JOBS)).items
    faults = [
        *stale_statuses(census), *wrong_phases(census, now),
        *(f"{job.name} is {job.phase}" for job in jobs if not (job.finished or is_limited(job))),
    ]  # fmt: skip
    assert not faults, faults
    assert shape_of(cluster.world) == shape_of(await rebuilt(cluster.client))
