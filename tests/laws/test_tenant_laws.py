"""A tenant cannot take what was given to, or reserved for, another."""

import pytest

from holdfast.api.scheme import SHARED_DEVICES
from holdfast.testing.harness import Harness
from laws.cluster_audit import broken_promises, take_census
from laws.identity_audit import shared_identities, wrong_amounts
from laws.tenant_steps import Tenant
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
