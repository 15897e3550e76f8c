"""A tenant cannot take what was given to, or reserved for, another."""

import pytest

from holdfast.testing.harness import Harness
from laws.ledger_shape import objects_of, shape_of, world_of
from laws.tenant_steps import Tenant
from laws.unchecked_tenant import UncheckedTenant
from soak_size import SEED, rounds

SEEDS = range(SEED, SEED + rounds(8))
STEPS = 40


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_tenant_takes_nothing_of_another(tmp_path, seed, repeatable):
    async with Harness(tmp_path, seed=seed) as cluster:
        tenant = Tenant(cluster, seed)
        await tenant.attack(STEPS)
        assert tenant.refused


@pytest.mark.parametrize("seed", SEEDS)
async def test_without_policies_a_tenant_takes_nothing_that_was_given(tmp_path, seed, repeatable):
    async with Harness(tmp_path, seed=seed) as cluster:
        tenant = UncheckedTenant(cluster, seed)
        with tenant.shown_in_failures():
            await tenant.begin()
            for _ in range(STEPS):
                await tenant.step()
            await check_orders(cluster, tenant.dice)
            await tenant.finish()


async def check_orders(cluster, dice):
    """What is believed after a restart depends on the objects alone, not on the order of events."""
    objects = await objects_of(cluster.client)
    expected = shape_of(world_of(objects))
    for _ in range(5):
        assert shape_of(world_of(dice.sample(objects, len(objects)))) == expected
    await cluster.restart_components()
    await cluster.settle()
    assert shape_of(cluster.world) == expected
