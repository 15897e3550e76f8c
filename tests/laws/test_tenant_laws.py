"""A tenant cannot take what was given to, or reserved for, another."""

import pytest

from holdfast.api.scheme import SHARED_DEVICES
from holdfast.framework.world import World
from holdfast.testing.harness import Harness
from laws.cluster_audit import broken_promises, take_census
from laws.identity_audit import shared_identities, wrong_amounts
from laws.ledger_shape import SOURCES, shape_of
from laws.tenant_steps import Tenant
from laws.unchecked_tenant import UncheckedTenant
from soak_size import SEED, rounds

SEEDS = range(SEED, SEED + rounds(8))
STEPS = 40


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_tenant_takes_nothing_of_another(tmp_path, seed, repeatable):
    async with Harness(tmp_path, seed=seed) as cluster:
        tenant = Tenant(cluster, seed)
        try:
            await tenant.begin()
            for _ in range(STEPS):
                await tenant.step()
                await audit(cluster)
            await tenant.finish()
            await audit(cluster)
        except AssertionError as broken:
            broken.add_note("\n".join(tenant.log))
            raise
        assert tenant.refused


@pytest.mark.parametrize("seed", SEEDS)
async def test_without_policies_a_tenant_takes_nothing_that_was_given(tmp_path, seed, repeatable):
    async with Harness(tmp_path, seed=seed) as cluster:
        tenant = UncheckedTenant(cluster, seed)
        try:
            await tenant.begin()
            for _ in range(STEPS):
                await tenant.step()
            await check_orders(cluster, tenant.dice)
            await tenant.finish()
        except AssertionError as broken:
            broken.add_note("\n".join(tenant.log))
            raise


async def check_orders(cluster, dice):
    """What is believed after a restart depends on the objects alone, not on the order of events."""
    objects = [obj for source in SOURCES for obj in (await cluster.client.list(source)).items]
    expected = shape_of(world_of(objects))
    for _ in range(5):
        assert shape_of(world_of(dice.sample(objects, len(objects)))) == expected
    await cluster.restart_components()
    await cluster.settle()
    assert shape_of(cluster.world) == expected


def world_of(objects):
    world = World()
    for obj in objects:
        world.upsert(obj)
    return world


async def audit(cluster):
    """Every CPU and device has one holder, and no pod has more than it requests."""
    census = await take_census(cluster.client)
    devices = (await cluster.client.list(SHARED_DEVICES)).items
    broken = [
        *broken_promises(census),
        *shared_identities(census.pods, census.reservations, devices),
        *wrong_amounts(census.pods, census.reservations, (), ()),
    ]
    assert not broken, broken
