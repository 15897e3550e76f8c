"""Whatever happens to a cluster, its promises hold, and in the end it says so and gets on."""

import pytest
from cluster_audit import broken_promises, left_waiting, stale_statuses, take_census
from cluster_steps import Life, Network
from ledger_shape import rebuilt, shape_of

from holdfast.testing.harness import Harness

SEEDS = range(8)
STEPS = 30
LONG_ENOUGH = 400.0
"""Seconds after which even a pod nobody thought of has been tried again."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_promises_hold_through_faults_and_restarts(tmp_path, seed, repeatable):
    network = Network(seed)
    async with Harness(tmp_path, wrap=network.wrap, seed=seed) as cluster:
        life, nodes_of = Life(cluster, seed), {}
        try:
            await life.begin()
            for _ in range(STEPS):
                await life.step()
                await audit(cluster, nodes_of)
            network.heal()
            await cluster.advance(LONG_ENOUGH)
            await audit(cluster, nodes_of)
            await all_is_well(cluster)
        except AssertionError as broken:
            broken.add_note("\n".join([*life.log, *map(str, network.told[-12:])]))
            raise


async def audit(cluster, nodes_of):
    census = await take_census(cluster.client)
    assert not broken_promises(census)
    for pod in census.pods:
        if pod.spec.node_name:
            known = nodes_of.setdefault(pod.uid, pod.spec.node_name)
            assert known == pod.spec.node_name, f"{pod.name} moved"


async def all_is_well(cluster):
    """Statuses tell the truth, whoever can be placed is, and a new picture equals the old."""
    census = await take_census(cluster.client)
    assert not list(stale_statuses(census))
    assert not list(left_waiting(census))
    assert shape_of(cluster.world) == shape_of(await rebuilt(cluster.client))
