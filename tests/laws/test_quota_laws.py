"""No commit raises the usage of a quota above its limit, and usage equals a slow count at rest.

Random writes, several at a time, with faults of the network, ended watches and restarts.
"""

import asyncio
import random
from functools import partial

import pytest

from controllers.small_cluster import start_small_cluster
from holdfast.api.scheme import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
)
from holdfast.runtime.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from holdfast.server.descriptor import untyped_resource
from holdfast.server.store import Store
from holdfast.testing import Chances, FaultyTransport
from laws.quota_recount import QUOTAS, SCOPES, recount, shown
from quota.quota_cases import CONFIG_MAP, asking, claim, exactly, pod, quota, service, volume_claim
from soak_size import SEED, rounds

FAULTS = Chances(
    conflict=0.03, unavailable=0.03, unavailable_after=0.03, lost=0.03, expired=0.03, cut=0.05,
    ended=0.05, delay=0.3, seconds=0.5,
)  # fmt: skip
CONFIG_MAPS = untyped_resource("", "configmaps", "ConfigMap")
REFUSALS = (AlreadyExists, Conflict, Forbidden, Invalid, NotFound)
STEPS = 40


class Witness:
    """Compares the slow count before and after every commit with the limits."""

    def __init__(self, monkeypatch):
        self.commits = self.refused = 0
        self.exceeded = []
        self._usage = None
        committed = Store._committed

        def observe(store, batch):
            committed(store, batch)
            self.check(store)

        monkeypatch.setattr(Store, "_committed", observe)

    def check(self, store):
        usage, before = recount(store), self._usage
        self._usage = usage
        self.commits += 1
        for name, hard in shown(store, "hard").items():
            for key, limit in hard.items():
                now = usage[name][key]
                if before is not None and before[name][key] < now and limit < now:
                    self.exceeded.append(f"{name}: {key} rises to {now}, the limit is {limit}")


class RandomWrites:
    """Random writes of objects that quotas count."""

    def __init__(self, client, dice):
        self.client, self.dice = client, dice

    def choose(self):
        """Return one random write."""
        others = (self.finish, self.change, self.set_limit)
        return self.dice.choice((self.create,) * 6 + (self.delete,) * 3 + others)()

    def _name(self):
        return f"o{self.dice.randrange(20)}"

    def create(self):
        resource, obj = self.dice.choice(
            (
                lambda: (PODS, asking(cpu=f"{self.dice.choice((100, 250, 500))}m")),
                lambda: (PODS, pod()),
                lambda: (PODS, pod(activeDeadlineSeconds=9)),
                lambda: (SERVICES, service("NodePort", self.dice.randint(1, 2))),
                lambda: (SERVICES, service("ClusterIP")),
                lambda: (CONFIG_MAPS, CONFIG_MAP),
                lambda: (PERSISTENT_VOLUME_CLAIMS, volume_claim(str(self.dice.randint(1, 9)))),
                lambda: (RESOURCE_CLAIMS, claim(exactly("gpu", self.dice.randint(1, 3)))),
            )
        )()
        named = {**obj, "metadata": {"name": self._name()}}
        return self.client.create(resource, named, "default")

    def delete(self):
        resource = self.dice.choice(
            (PODS, PODS, SERVICES, CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS)
        )
        return self.client.delete(resource, self._name(), "default")

    def finish(self):
        phase = {"status": {"phase": self.dice.choice(("Succeeded", "Failed"))}}
        return self.client.patch(PODS, self._name(), phase, "default", subresource="status")

    def change(self):
        size = {"resources": {"requests": {"storage": str(self.dice.randint(1, 15))}}}
        resource, spec = self.dice.choice(
            (
                (SERVICES, {"type": self.dice.choice(("NodePort", "ClusterIP"))}),
                (PERSISTENT_VOLUME_CLAIMS, size),
                (PODS, {"activeDeadlineSeconds": 5}),
            )
        )
        return self.client.patch(resource, self._name(), {"spec": spec}, "default")

    def set_limit(self):
        name = self.dice.choice(tuple(QUOTAS))
        key = self.dice.choice(tuple(QUOTAS[name]))
        limit = max(1, QUOTAS[name][key] + self.dice.randint(-2, 2))
        change = {"spec": {"hard": {key: str(limit)}}}
        return self.client.patch(RESOURCE_QUOTAS, name, change, "default")


async def tried(witness, write):
    try:
        await write
    except Forbidden:
        witness.refused += 1
    except REFUSALS:
        pass


@pytest.mark.parametrize("seed", range(SEED * 1000, SEED * 1000 + rounds(3)))
async def test_quotas_are_never_exceeded_and_converge(tmp_path, monkeypatch, seed):
    dice, witness = random.Random(seed), Witness(monkeypatch)
    for life in range(2):
        faulty = []

        def with_faults(transport, clock, faulty=faulty):
            faults = partial(FaultyTransport, chances=FAULTS, rng=random.Random(seed), clock=clock)
            faulty.append(faults(transport, enabled=False))
            return faulty[0]

        async with start_small_cluster(tmp_path / "store", with_faults) as cluster:
            for name, hard in QUOTAS.items() if life == 0 else ():
                texts = {key: str(limit) for key, limit in hard.items()}
                raw = quota(texts, **({"scopes": SCOPES[name]} if name in SCOPES else {}))
                raw["metadata"] = {"name": name}
                await cluster.client.create(RESOURCE_QUOTAS, raw, "default")
            await cluster.clock.settle()
            writes = RandomWrites(cluster.client, dice)
            faulty[0].enabled = True
            for _ in range(STEPS):
                some = [writes.choose() for _ in range(dice.randint(1, 4))]
                await asyncio.gather(*(tried(witness, write) for write in some))
                if dice.random() < 0.3:
                    await cluster.clock.settle()
                if dice.random() < 0.4:
                    await cluster.clock.advance(dice.choice((0.3, 0.3, 1, 20)))
                if dice.random() < 0.05:
                    cluster.end_watches()
            if life == 0 and dice.random() < 0.5:
                continue  # restarted in the middle of its work
            faulty[0].enabled = False
            await cluster.clock.advance(400)
            store = cluster.server.context.store
            usage = recount(store)
            counted = {name: {key: usage[name][key] for key in QUOTAS[name]} for name in QUOTAS}
            assert shown(store, "used") == counted
    assert not witness.exceeded
    assert witness.commits > 20
    assert witness.refused > 5
