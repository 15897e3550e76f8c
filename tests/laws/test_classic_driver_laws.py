"""Scheduler, claim controller and the kit's drivers under faults, kills, deletions, lost nodes."""

from random import Random

import pytest

from holdfast.testing import Chances, FaultyTransport
from holdfast.testing.classic_dra.driver import KINDS
from holdfast.testing.harness import Harness
from laws.driven_world import DrivenWorld
from soak_size import SEED, rounds

FAULTS = Chances(
    conflict=0.04, unavailable=0.04, unavailable_after=0.04, lost=0.04, cut=0.02, expired=0.02
)
EDITED_STEPS, STEPS = 30, 150


@pytest.mark.parametrize("number", range(rounds(2)))
async def test_every_pod_runs_and_nothing_is_double_or_left(tmp_path, number):
    random = Random(1000 * SEED + number)
    lines = []
    chances = FAULTS if number % 2 else Chances()

    def wrap(transport, clock):
        rng = Random(random.random())
        lines.append(FaultyTransport(transport, chances=chances, rng=rng, clock=clock))
        return lines[-1]

    async with Harness(tmp_path / "store", wrap=wrap, seed=number) as cluster:
        world = DrivenWorld(cluster, random, chances)
        await world.create()
        try:
            for step in range(STEPS):
                await world.serve() if step < EDITED_STEPS else None
                await cluster.advance(random.choice([0.2, 1.0, 3.0]))
                pods = await world.check()
                await world.finish_some(pods)
                if step < EDITED_STEPS:
                    await world.edit(pods)
                    if random.random() < 0.04:
                        await cluster.restart_components()
                elif step == EDITED_STEPS:
                    for line in lines:
                        line.enabled = False
                    await world.end_faults()
                elif not world.pods:
                    break
            assert not world.pods, await world.state()
            await nothing_is_left(cluster, world)
        finally:
            await world.stop()


async def nothing_is_left(cluster, world):
    """Check that claims hold what is booked and no more, and nothing when they are deleted."""
    await cluster.advance(200)
    await world.check()
    claims = (await cluster.client.list(KINDS.claims)).items
    assert set(await world.booked()) <= {claim.uid for claim in claims if claim.is_allocated}
    assert not [c.name for c in claims if c.metadata.finalizers and not c.is_allocated]
    for claim in claims:
        await cluster.client.delete(KINDS.claims, claim.name, "default")
    await cluster.advance(60)
    assert await world.leftovers() == {}
