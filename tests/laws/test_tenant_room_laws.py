"""A tenant enters no room that is reserved for others, and gets no more than quota and caps say."""

import pytest

from holdfast.testing.harness import Harness
from laws.room_steps import RoomTenant
from soak_size import SEED, rounds

SEEDS = range(SEED, SEED + rounds(8))
STEPS = 60


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_tenant_enters_no_room_and_gets_no_more_by_other_names(tmp_path, seed, repeatable):
    async with Harness(tmp_path, seed=seed) as cluster:
        tenant = RoomTenant(cluster, seed)
        await tenant.attack(STEPS)
        assert tenant.refused
