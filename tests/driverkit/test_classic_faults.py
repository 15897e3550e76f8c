"""A classic driver under faults of the network and kills: nothing is lost, nothing is doubled."""

import random
from collections import Counter
from contextlib import suppress

import pytest

from driverkit.classic_controller import CLAIMS, SCHEDULINGS, DriverTest, a_driver
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.quantity import units
from holdfast.api.scheme import PODS
from holdfast.driver import Device
from holdfast.node.driverkit.classic_dra.handle import decode_handle
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.testing import Chances
from holdfast.testing.kill_points import KILL_POINTS
from soak_size import TIMES

NODES = ("n1", "n2", "n3")
CHANCES = Chances(
    conflict=0.05, unavailable=0.05, unavailable_after=0.05, lost=0.05, cut=0.05, ended=0.05
)
SIZES = ("1Gi", "3Gi", "8Gi")


class RandomLife:
    """Users, scheduler and controllers that do things at random."""

    def __init__(self, test, rng):
        self.test = test
        self.rng = rng
        self.number = 0
        self.calls = Counter()

    async def step(self):
        """Do one thing; what cannot be done is left out."""
        work = self.rng.choice(
            [self.create, self.create, self.ask, self.ask, self.end, self.release, self.kill]
        )
        try:
            await work()
        except HoldfastError:
            self.calls["refused"] += 1
        self.calls[work.__name__] += 1
        await self.test.clock.advance(self.rng.choice([0, 0.01, 1, 35]))

    async def create(self):
        self.number += 1
        name = f"c{self.number}"
        size = self.rng.choice(SIZES)
        reference = {"apiGroup": "gpu.example.com", "kind": "Memory", "name": size.lower()}
        mode = {"allocationMode": "Immediate"} if self.rng.random() < 0.2 else {}
        await self.test.create_claim(name, parametersRef=reference, **mode)
        await self.test.create_pod(f"p-{name}", name, potential=NODES)

    async def ask(self):
        listing = await self.test.client.list(SCHEDULINGS, "default")
        if listing.items:
            name = self.rng.choice(listing.items).name
            await self.test.ask(name, potential=NODES, selected=self.rng.choice(NODES))

    async def end(self):
        """End a pod: its reservation is dropped, and perhaps its claim deleted."""
        claim = await self.any_claim()
        if claim is not None:
            for resource in (SCHEDULINGS, PODS):
                with suppress(NotFound):
                    await self.test.client.delete(
                        resource, f"p-{claim.name}", "default", grace_seconds=0
                    )
            if claim.status.reserved_for:
                await self.test.set_status(claim.name, reservedFor=None)
            if self.rng.random() < 0.7:
                await self.test.delete_claim(claim.name)

    async def release(self):
        claim = await self.any_claim()
        if claim is not None and claim.is_allocated:
            await self.test.set_status(claim.name, reservedFor=None, deallocationRequested=True)

    async def kill(self):
        point = self.rng.choice([*KILL_POINTS, ""])
        if point:
            self.test.kills.kill(**{self.rng.choice(["after", "before"]): point})
            await self.ask()
        await self.test.restart(faults=True)

    async def any_claim(self):
        found = (await self.test.client.list(CLAIMS, "default")).items
        return self.rng.choice(found) if found else None


async def check(test):
    """Compare claims and inventories."""
    claims = {c.uid: c for c in (await test.client.list(CLAIMS, "default")).items}
    used = Counter()
    booked = {}
    for inventory in (await test.client.list(NODE_INVENTORIES, test.driver.namespace)).items:
        for uid, claim in inventory.status.allocated.items():
            assert uid not in booked, f"{claim.name} has devices of two nodes"
            booked[uid] = inventory.name
            for device in claim.devices:
                used[inventory.name, device] += units("8Gi")
            for share in claim.shares:
                used[inventory.name, share.device] += units(share.capacity["memory"])
    assert all(amount <= units("8Gi") for amount in used.values()), used
    for uid, claim in claims.items():
        ends = claim.is_deleted or claim.status.deallocation_requested
        if claim.is_allocated and not ends:  # else it is freed before that is written
            handle = decode_handle(claim.status.allocation.resource_handle)
            assert booked.get(uid) == handle.node, f"{claim.name} is not booked on {handle.node}"
            assert claim.metadata.finalizers, f"{claim.name} is allocated without finalizer"
    return claims, booked


@pytest.mark.parametrize("seed", range(3 * TIMES))
async def test_C045_C046_random_faults_and_kills_neither_leak_nor_double(tmp_path, seed):
    rng = random.Random(seed)
    async with DriverTest(tmp_path, a_driver(), chances=CHANCES, rng=rng) as test:
        await test.create_class()
        for size in SIZES:
            await test.create_parameters(size.lower(), memory=size)
        for node in NODES:
            await test.create_node(
                node, *(Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(2))
            )
        life = RandomLife(test, rng)
        for _ in range(60):
            await life.step()
            await check(test)
        await test.restart()  # without faults
        for _ in range(3):
            await test.clock.advance(61)
        claims, booked = await check(test)
        assert {uid for uid, c in claims.items() if c.is_allocated} == set(booked), "leaked"
        assert not [c.name for c in claims.values() if c.is_deleted and not c.status.reserved_for]
        for claim in claims.values():
            if not claim.is_allocated:
                assert not claim.metadata.finalizers or claim.is_immediate
        assert life.calls["kill"], life.calls
