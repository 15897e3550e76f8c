"""Random pods, claims, restarts and faults: stale consumers are dropped, and no others."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from controllers.classic_objects import CLASSIC, a_classic_claim, a_user, inline, named
from controllers.small_cluster import start_small_cluster
from holdfast.api.devices import pod_consumer
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.controllers.claim_consumers import raw_consumers
from holdfast.controllers.classic_dra.controller import ClassicClaimController
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.runtime.errors import AlreadyExists, Conflict, NotFound
from holdfast.testing import Chances, Fault, FaultyTransport
from soak_size import SEED, TIMES

FAULTS = Chances(
    conflict=0.05, unavailable=0.05, unavailable_after=0.05, lost=0.05, expired=0.05, cut=0.1,
    torn=0.05, ended=0.05,
)  # fmt: skip
KINDS = (ClassicClaimController,)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", Object)
NAMES = ("a", "b", "c", "a-b")
CLAIMS = ("a-gpu", "shared", "a-b-gpu", "b-gpu", "c-gpu")
STEPS = 200


class RandomEvents:
    """What users, scheduler, driver and agents do, at random; pods never leave by themselves."""

    def __init__(self, cluster, faulty, rng):
        self.cluster, self.client, self.faulty, self.rng = cluster, cluster.client, faulty, rng
        once = (
            *(self.end_pod, self.delete_pod, self.remove_pod, self.create_claim),
            *(self.delete_claim, self.deallocate, self.restart, self.break_watches, self.wait),
            *(self.create_map, self.delete_map),
        )
        self.weights = {self.create_pod: 4, self.reserve: 5} | dict.fromkeys(once, 1)

    async def step(self):
        [choice] = self.rng.choices(*zip(*self.weights.items(), strict=True))
        with suppress(NotFound, AlreadyExists, Conflict):  # users name what is not there
            await choice()
        if self.rng.random() < 0.6:
            await self.cluster.clock.settle()

    async def create_pod(self):
        name = self.rng.choice(NAMES)
        entries = self.rng.sample([inline("gpu"), inline("b-gpu"), named("shared", "net")], 2)
        node = self.rng.choice(("n", None))
        held = {"finalizers": ["example.com/held"]} if self.rng.random() < 0.3 else None
        pod = a_user(name, *entries, node=node, metadata=held)
        await self.client.create(PODS, pod, "default")

    async def end_pod(self):
        phase = {"status": {"phase": self.rng.choice(("Running", "Succeeded", "Failed"))}}
        pod = await self.client.get(PODS, self.rng.choice(NAMES), "default")
        if not pod.finished:
            await self.client.patch(PODS, pod.name, phase, "default", subresource="status")

    async def delete_pod(self):
        await self.client.delete(PODS, self.rng.choice(NAMES), "default", grace_seconds=3600)

    async def remove_pod(self):
        name = self.rng.choice(NAMES)
        await self.client.patch(PODS, name, {"metadata": {"finalizers": None}}, "default")
        await self.client.delete(PODS, name, "default", grace_seconds=0)

    async def create_claim(self):
        claim = a_classic_claim(self.rng.choice(CLAIMS))
        await self.client.create(CLASSIC.claims, claim, "default")

    async def delete_claim(self):
        await self.client.delete(CLASSIC.claims, self.rng.choice(CLAIMS), "default")

    async def create_map(self):
        """Create an object that is not a pod and may use a claim."""
        settings = {"metadata": {"name": self.rng.choice(NAMES)}}
        await self.client.create(CONFIG_MAPS, settings, "default")

    async def delete_map(self):
        await self.client.delete(CONFIG_MAPS, self.rng.choice(NAMES), "default")

    async def random_claim(self):
        return await self.client.get(CLASSIC.claims, self.rng.choice(CLAIMS), "default")

    async def set_status(self, claim, **status):
        guard = {"resourceVersion": claim.metadata.resource_version}
        change = {"metadata": guard, "status": status}
        await self.client.patch(CLASSIC.claims, claim.name, change, "default", subresource="status")

    async def reserve(self):
        """Allocate a claim and reserve it for an object, which may have ended meanwhile."""
        claim, name = await self.random_claim(), self.rng.choice(NAMES)
        resource = PODS if self.rng.random() < 0.8 else CONFIG_MAPS
        user = await self.client.get(resource, name, "default")
        if claim.is_deleted or claim.is_reserved_for(user.uid):
            return
        if self.rng.random() < 0.2:
            await self.end_pod()
        entry = pod_consumer(user) | {"resource": resource.plural}
        entries = [entry, *raw_consumers(claim.status.reserved_for)]
        allocation = {"resourceHandle": "h", "sharedResource": True}
        await self.set_status(
            claim, driverName="gpu.example.com", allocation=allocation, reservedFor=entries
        )

    async def deallocate(self):
        claim = await self.random_claim()
        if claim.is_allocated and not claim.status.reserved_for:
            await self.set_status(claim, driverName=None, allocation=None)

    async def restart(self):
        clock, client = self.cluster.clock, Client(self.faulty, "components")
        old = self.cluster.controllers
        self.cluster.controllers = ControllerManager(client, clock, kinds=KINDS)
        for change in (old.stop(), self.cluster.controllers.start()):
            changing = asyncio.create_task(change)
            while not changing.done():
                await clock.advance(0.1)
            changing.result()

    async def break_watches(self):
        """End all watches; one of pods or claims continues only when time passes."""
        path = self.rng.choice(("/pods", "/resourceclaims"))
        self.faulty.add(Fault("unavailable", "GET", path, watch=True))
        self.cluster.end_watches()

    async def wait(self):
        await self.cluster.clock.advance(self.rng.choice((0.02, 1, 70)))


class Reservations:
    """All reservations that were seen, to find those that were dropped too early."""

    def __init__(self, client):
        self._client, self._seen = client, set()

    async def check(self):
        """Return the stale reservations and the claims; fail if one that is needed was dropped."""
        claims = {c.uid: c for c in (await self._client.list(CLASSIC.claims, "default")).items}
        pods = {p.uid: p for p in (await self._client.list(PODS, "default")).items}
        maps = {m.uid: m for m in (await self._client.list(CONFIG_MAPS, "default")).items}
        now = {(c.uid, e.uid) for c in claims.values() for e in c.status.reserved_for}
        active = {*maps, *(pod.uid for pod in pods.values() if self._active(pod))}
        for claim, user in self._seen - now:
            assert claim not in claims or user not in active, (claim, user)
        self._seen = now
        stale = {(claim, user) for claim, user in now if user not in active}
        return stale, claims.values(), pods.values()

    @staticmethod
    def _active(pod):
        if pod.status.phase in ("Succeeded", "Failed"):
            return False
        return bool(pod.spec.node_name) or pod.metadata.deletion_timestamp is None


@pytest.mark.parametrize("seed", range(SEED, SEED + 2 * TIMES))
async def test_stale_consumers_are_dropped_and_no_other(tmp_path, seed):
    rng, faulty = random.Random(seed), []

    def with_faults(transport, clock):
        faulty.append(
            FaultyTransport(transport, chances=FAULTS, rng=rng, clock=clock, enabled=False)
        )
        return faulty[0]

    async with start_small_cluster(tmp_path, with_faults, KINDS) as cluster:
        faulty[0].enabled = True
        events, reservations = RandomEvents(cluster, faulty[0], rng), Reservations(cluster.client)
        try:
            for _ in range(STEPS):
                await events.step()
                await reservations.check()
        finally:
            faulty[0].enabled = False
        await cluster.clock.advance(400)
        stale, claims, pods = await reservations.check()
        assert not stale
        by_name = {claim.name: claim for claim in claims}
        for pod in pods:
            if pod.finished or pod.terminating:
                continue
            for entry in pod.spec.resource_claims:
                if entry.claim.template is not None:
                    assert f"{pod.name}-{entry.name}" in by_name
        done = {pod.uid for pod in pods if pod.finished}
        left = [c for c in claims if {o.uid for o in c.metadata.owner_references} & done]
        assert all(c.status.reserved_for for c in left), "claims of finished pods are deleted"
        assert cluster.controllers.healthy
        assert faulty[0].injected_faults
