"""Namespaces share what their objects cost to evaluate, whatever kind of work that is."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from holdfast.api.scheme import PODS
from holdfast.runtime.errors import NotFound
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing.builders import resource_of
from holdfast.testing.clock import VirtualClock
from holdfast.testing.harness import Harness
from laws.cluster_identities import audit
from laws.turns_world import PlainPods, Record, TurnsWorld
from soak_size import SEED, rounds

SEEDS = range(SEED, SEED + rounds(8))
OPERATIONS = 60
MOST_IN_A_STEP = 3
"""Costly selectors evaluated without a pause."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_namespaces_take_turns_and_other_pods_wait_for_none(
    tmp_path, seed, repeatable, monkeypatch
):
    world, clock = TurnsWorld(seed), VirtualClock()
    record = Record(monkeypatch, clock)
    plain = PlainPods(record)
    stock = default_profiles()["default-scheduler"]
    profiles = {stock.name: replace(stock, plugins=(*stock.plugins, plain))}
    async with Harness(tmp_path, seed=seed, profiles=profiles, clock=clock) as cluster:
        await cluster.create(*world.objects())
        made = 0
        for _ in range(OPERATIONS):
            roll = world.dice.random()
            if roll < 0.7:
                await cluster.create(*world.work(), settle=False)
            elif roll < 0.75:
                await replace_stored(cluster, world.change())
            elif roll < 0.93:
                await cluster.create(world.plain(), settle=False)
                made += 1
            else:
                await delete_one(cluster, world.dice)
            for _ in range(world.dice.randrange(30)):
                await asyncio.sleep(0)
        await cluster.settle()
        assert not [*record.unfair_turns()]
        assert record.evaluated["in a step"] in range(1, MOST_IN_A_STEP + 1)
        assert record.evaluated["outside"] == 0
        assert set(plain.waited.values()) == {0}
        assert len(plain.waited) == made
        await audit(cluster, all_scheduled=True)


async def replace_stored(cluster, raw):
    resource, name = resource_of(raw), raw["metadata"]["name"]
    await cluster.client.patch(resource, name, {"spec": raw["spec"]})


async def delete_one(cluster, dice):
    pods = [p for p in (await cluster.client.list(PODS)).items if p.name.startswith("w")]
    if pods:
        pod = dice.choice(sorted(pods, key=lambda p: p.name))
        with suppress(NotFound):  # it may have stopped since it was listed
            await cluster.client.delete(PODS, pod.name, pod.namespace)
