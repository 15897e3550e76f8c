"""Costs and status of resource policies equal a recount, whatever happened to the controller."""

import pytest

from holdfast.api.deletion_cost import DELETION_COST
from laws.cluster_steps import Network
from laws.deletion_cost_recount import CostRecount
from laws.deletion_cost_steps import PolicyCluster, PolicySteps
from policies.costs import RecordedWrites
from soak_size import SEED, rounds

STEPS, CALM_STEPS = 20, 40
LONG_ENOUGH = 700.0
"""Seconds after which every failed write has been tried again."""


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(4)))
async def test_costs_and_status_equal_a_recount(tmp_path, seed):
    network, writes = Network(seed), RecordedWrites()
    async with PolicyCluster(tmp_path, (network, writes), drain_excess=seed % 2 == 1) as cluster:
        steps = PolicySteps(cluster, seed)
        try:
            await steps.begin()
            for _ in range(STEPS):
                await steps.step()
                await check_user_costs(cluster, steps)
            network.heal()
            await cluster.start_controller()
            await cluster.clock.advance(LONG_ENOUGH)
            await check(cluster, steps)
            for number in range(CALM_STEPS):
                await steps.step(most=2, calm=number % 10 > 0)
                await cluster.start_controller()
                await cluster.clock.advance(3)
                await check(cluster, steps)
            await check_resync(cluster, writes)
        except AssertionError as broken:
            broken.add_note("\n".join([*steps.log, *map(str, network.injected_faults[-12:])]))
            raise


async def check_user_costs(cluster, steps):
    for pod in await cluster.pods():
        mine = steps.user_costs.get(pod.uid)
        assert mine in (None, pod.metadata.annotations.get(DELETION_COST)), pod.key


async def check(cluster, steps):
    """Compare all costs and status with a recount."""
    recount = await CostRecount.of(cluster.client)
    assert list(recount.wrong_costs(steps.user_costs, drain_excess=cluster.drain_excess)) == []
    assert list(recount.wrong_statuses()) == []


async def check_resync(cluster, writes):
    """Check that broken watches and a restart cause no write."""
    writes.seen.clear()
    cluster.end_watches()
    await cluster.clock.advance(5)
    await cluster.stop_controller()
    await cluster.start_controller()
    await cluster.clock.advance(5)
    assert writes.seen == []
