"""Agents and drivers that fail and restart at random points leave nothing prepared behind."""

import asyncio
import random

import msgspec
import pytest
from msgspec.structs import replace

from agent.classic_driver_server import ClassicDriverServer
from agent.driver_server import DriverServer
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.node.agent import plugin_registry
from holdfast.node.agent.claim_manager import ClaimManager
from holdfast.node.agent.plugin_registry import PluginRegistry
from holdfast.node.agent.pod_devices import NotPrepared
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import Unavailable
from holdfast.testing.builders import a_pod, typed
from holdfast.testing.device_builders import a_claim
from soak_size import SEED, rounds

DRIVERS = ("a.example.com", "b.example.com")
CLASSIC_DRIVER = "c.example.com"


class Api:
    """Claims by name, those of classic DRA too; fails now and then."""

    def __init__(self, rng, claims):
        self._rng, self._claims = rng, claims

    async def get(self, resource, name, namespace):
        await asyncio.sleep(0)
        if self._rng.random() < 0.1:
            raise Unavailable("no answer")
        claim = self._claims[name]
        assert isinstance(claim, resource.type)
        if isinstance(claim, ClassicClaim):
            claim = self._claims[name] = with_handle(claim, str(self._rng.randrange(3)))
        return claim

    async def raw(self, path):
        return b'{"groups": [{"name": "core.k8s.io"}]}'

    async def delete_collection(self, resource, *, field_selector):
        pass


class Node:
    """An agent that can be killed: what it has not written is lost."""

    def __init__(self, directory, api, active):
        self.claims = ClaimManager(api, "n", directory, SystemClock(), lambda: active)
        registry = PluginRegistry(
            directory / "plugins_registry", self.claims.handlers, SystemClock()
        )
        self._tasks = [asyncio.create_task(part.run()) for part in (self.claims, registry)]

    async def kill(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def with_handle(claim, handle):
    allocation = replace(claim.status.allocation, resource_handle=handle)
    return replace(claim, status=replace(claim.status, allocation=allocation))


def a_classic_claim(name, reserved):
    status = {
        "driverName": CLASSIC_DRIVER,
        "allocation": {"resourceHandle": "", "sharedResource": True},
        "reservedFor": reserved,
    }
    metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
    return msgspec.convert({"metadata": metadata, "status": status}, ClassicClaim)


def claims_and_pods(rng):
    """Return claims of one or two drivers, and pods that share some of them."""
    pods = []
    users = {f"c{number}": [] for number in range(4)} | {f"k{number}": [] for number in range(2)}
    for number in range(5):
        used = rng.sample(sorted(users), rng.randint(1, 2))
        listed = [
            {"name": name, "claim": {"resourceClaimName": name}}
            if name.startswith("k")
            else {"name": name, "resourceClaimName": name}
            for name in used
        ]
        pods.append(typed(a_pod(f"p{number}", claims=listed), uid=f"pod-{number}"))
        for name in used:
            users[name].append({"resource": "pods", "name": f"p{number}", "uid": f"pod-{number}"})
    claims = {}
    for name, reserved in users.items():
        if name.startswith("k"):
            claims[name] = a_classic_claim(name, reserved)
            continue
        results = [
            {"request": "req-0", "driver": driver, "pool": "n", "device": name}
            for driver in rng.sample(DRIVERS, rng.randint(1, 2))
        ]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
        claims[name] = typed(a_claim(name, status=status), uid=f"claim-{name}")
    return claims, pods


async def live(node, rng, pod, drivers):
    """Prepare a pod, check its devices, and unprepare it, whatever fails meanwhile."""
    while True:
        try:
            await node.claims.prepare(pod)
            break
        except NotPrepared:
            await asyncio.sleep(0.005)
    names = [entry.name for entry in pod.spec.resource_claims]
    found = node.claims.container_devices(pod, "main").cdi_devices
    assert len(found) == len(set(found))
    uids = {each.rpartition("=")[2].removeprefix("claim-") for each in found}
    assert uids == {name if name.startswith("c") else f"claim-{name}" for name in names}
    assert any(f"claim-{name}" in driver.prepared for name in names for driver in drivers)
    await asyncio.sleep(rng.random() * 0.02)
    while True:
        try:
            await node.claims.unprepare(pod)
            return
        except NotPrepared:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", range(SEED, SEED + rounds(2)))
async def test_nothing_stays_prepared_and_nothing_is_doubled(seed, node_directory, monkeypatch):
    monkeypatch.setattr(plugin_registry, "SCAN_SECONDS", 0.005)
    rng = random.Random(seed)
    claims, pods = claims_and_pods(rng)
    drivers = [DriverServer(node_directory, name) for name in DRIVERS]
    drivers.append(ClassicDriverServer(node_directory, CLASSIC_DRIVER))
    drivers[-1].cdi.mkdir()
    for driver in drivers:
        driver.before_prepare = lambda: asyncio.ensure_future(asyncio.sleep(rng.random() * 0.01))
        await driver.start()
    active = {pod.uid for pod in pods}
    waiting = dict.fromkeys(range(len(pods)))
    while waiting:
        node = Node(node_directory, Api(rng, claims), active)
        work = {
            asyncio.create_task(live(node, rng, pods[number], drivers)): number
            for number in waiting
        }
        end = asyncio.create_task(asyncio.sleep(rng.random() * 0.3))
        faulty = rng.choice(drivers)
        if rng.random() < 0.5:
            await asyncio.sleep(rng.random() * 0.1)
            await faulty.stop()
            await faulty.start()
        await asyncio.wait({end})
        for task in work:
            task.cancel()
        done = await asyncio.gather(*work, return_exceptions=True)
        for task, result in zip(work, done, strict=True):
            if result is None:
                del waiting[work[task]]
            elif not isinstance(result, asyncio.CancelledError):
                raise result
        await node.kill()
    assert [driver.prepared for driver in drivers] == [set()] * 3
    assert list(drivers[-1].cdi.iterdir()) == []
    assert ClaimManager(None, "n", node_directory, SystemClock(), lambda: None)._claims == {}
    for driver in drivers:
        await driver.stop()
