"""Classic claims under faults, restarts and users: no device twice, and every pod runs."""

from random import Random

import pytest

from holdfast.testing import Chances, FaultyTransport
from holdfast.testing.harness import Harness
from laws.classic_world import ClassicWorld
from soak_size import SEED, rounds

FAULTS = Chances(
    conflict=0.04, unavailable=0.04, unavailable_after=0.04, lost=0.04, cut=0.02, expired=0.02
)
EDITED_STEPS, STEPS = 40, 150


@pytest.mark.parametrize("number", range(rounds(2)))
async def test_every_pod_with_classic_claims_runs(tmp_path, number):
    random = Random(1000 * SEED + number)
    lines = []

    def wrap(transport, clock):
        chances = FAULTS if number % 2 else Chances()
        rng = Random(random.random())
        lines.append(FaultyTransport(transport, chances=chances, rng=rng, clock=clock))
        return lines[-1]

    async with Harness(tmp_path / "store", wrap=wrap, seed=number) as cluster:
        world = ClassicWorld(cluster, random)
        await world.create()
        for step in range(STEPS):
            await world.serve()
            await cluster.advance(random.choice([0.2, 1.0, 3.0]))
            pods = await world.check()
            await world.finish_some(pods)
            if not world.pods:
                break
            if step < EDITED_STEPS:
                await world.edit(pods)
                if random.random() < 0.02:
                    await cluster.restart_components()
            for line in lines if step >= EDITED_STEPS else ():
                line.enabled = False
        assert not world.pods, [await cluster.why(name) for name in world.pods]
