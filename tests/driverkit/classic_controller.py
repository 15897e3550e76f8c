"""The controller of a classic driver on an API server of its own; the test is the scheduler."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.resource import Resource
from holdfast.api.scheme import EVENTS, NAMESPACES, PODS
from holdfast.client.client import Client
from holdfast.driver import Device, Driver
from holdfast.node.driverkit.classic_dra.controller_process import ControllerProcess
from holdfast.node.driverkit.classic_dra.fitting import Choice, Share
from holdfast.node.driverkit.classic_dra.inventory_conversion import raw_spec
from holdfast.runtime.errors import NotFound
from holdfast.server.api_server import ApiServer
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store.store import Store
from holdfast.testing import Chances, FaultyTransport, VirtualClock, a_pod
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from holdfast.testing.kill_points import KillTransport
from holdfast.testing.loop_writer import LoopWriter

DRIVER = "gpu.example.com"
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    dict,
    namespaced=False,
)
PARAMETERS = Resource(DRIVER, "v1", "memorys", "Memory", dict)
RESOURCES = classic_resources()
CLAIMS, CLASSES, SCHEDULINGS = RESOURCES.claims, RESOURCES.classes, RESOURCES.pod_scheduling


@dataclass
class Memory:
    """Parameters of a claim."""

    memory: str = "8Gi"
    optional: bool = False


def a_driver(**more):
    """Return a driver that gives shares of one device, or the whole one."""
    driver = Driver(DRIVER, params=Memory, **more)
    driver.prepare(lambda claim: None)

    @driver.fits
    def fits(free, request):
        wanted = {"memory": request.memory}
        for device in free:
            if device.has(wanted):
                whole = str(device.capacity["memory"]) == request.memory and not device.in_use
                return Choice([device if whole else Share(device.name, wanted)])
        return None

    return driver


class DriverTest:
    """An API server, a driver's controller, and writes of a scheduler."""

    def __init__(self, directory, driver, *faults, chances=Chances(), rng=None):  # noqa: B008
        self._directory = directory
        self.driver = driver
        self.clock = VirtualClock()
        self.faults = faults
        self.chances = chances
        self.rng = rng or random.Random(0)
        self.task = None

    async def __aenter__(self):
        self._store = Store.open(self._directory, self.clock, writer=LoopWriter)
        self.server = ApiServer.create(self._store, self.clock)
        await self.server.start(copy_bootstrap_objects)
        self.client = Client(InProcessTransport(self.server), "test")
        await self.client.create(NAMESPACES, {"metadata": {"name": self.driver.namespace}})
        for crd in self.driver.crds():
            await self.client.create(CRDS, crd)
        self.start()
        await self.clock.settle()
        return self

    async def __aexit__(self, *error):
        await self.kill()
        await self.server.stop()
        await self._store.close()

    def start(self):
        """Start the controller."""
        self.kills = KillTransport(InProcessTransport(self.server))
        self.transport = FaultyTransport(
            self.kills, self.faults, self.chances, self.rng, clock=self.clock
        )
        client = Client(self.transport, DRIVER)
        self.process = ControllerProcess(self.driver, client, self.clock)
        self.task = asyncio.create_task(self.process.run())

    async def kill(self):
        """End the controller wherever it is."""
        self.transport.enabled = False
        self.kills.killed.set()
        self.task.cancel()
        await self.clock.advance_until(self.task.done)
        await asyncio.gather(self.task, return_exceptions=True)

    async def restart(self, *, faults=False):
        """Start it again; it knows what the API server knows."""
        await self.kill()
        if not faults:
            self.faults, self.chances = (), Chances()
        self.start()
        await self.clock.settle()

    async def create_class(self, name="gpu", driver=DRIVER, **fields):
        """Create a class."""
        raw = {"metadata": {"name": name}, "driverName": driver, **fields}
        return await self.client.create(CLASSES, raw)

    async def create_claim(self, name="claim", settle=True, **spec):
        """Create a claim."""
        raw = {"metadata": {"name": name}, "spec": {"resourceClassName": "gpu", **spec}}
        found = await self.client.create(CLAIMS, raw, "default")
        if settle:
            await self.clock.settle()
        return found

    async def freeze(self, resource, **scope):
        """Let the controller see no more events of a resource; its cache stays as it is."""
        await self.process.controller.informers.get(resource, **scope).stop()

    async def create_parameters(self, name, **fields):
        """Create parameters of claims."""
        raw = {"metadata": {"name": name}, **fields}
        await self.client.create(PARAMETERS, raw, "default")
        await self.clock.settle()

    async def until(self, holds):
        """Wait for work outside of the event loop."""
        while not holds():
            await asyncio.sleep(0.001)
        await self.clock.settle()

    async def create_node(self, name="n1", *devices, ready=True):
        """Publish the inventory of a node, as the driver's node part does."""
        given = devices or (Device("gpu-0", {}, {"memory": "8Gi"}),)
        raw = {
            "metadata": {"name": name},
            "spec": raw_spec(DRIVER, name, given, ready=ready),
        }
        await self.client.create(NODE_INVENTORIES, raw, self.driver.namespace)
        await self.clock.settle()

    async def create_pod(self, name="pod", *claims, potential=(), selected=""):
        """Create a pod with claims by name, and what the scheduler asks of drivers."""
        entries = [
            {"name": claim, "claim": {"resourceClaimName": claim}} for claim in claims or ("claim",)
        ]
        pod = await self.client.create(PODS, a_pod(name, claims=entries), "default")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.uid}
        raw = {
            "metadata": {"name": name, "ownerReferences": [{**owner, "controller": True}]},
            "spec": _spec(potential, selected),
        }
        await self.client.create(SCHEDULINGS, raw, "default")
        await self.clock.settle()
        return pod

    async def ask(self, name="pod", potential=(), selected=""):
        """Change what the scheduler asks."""
        spec = {"potentialNodes": None, "selectedNode": None, **_spec(potential, selected)}
        await self.client.patch(SCHEDULINGS, name, {"spec": spec}, "default")
        await self.clock.settle()

    async def claim(self, name="claim"):
        """Read a claim; None if it is gone."""
        try:
            return await self.client.get(CLAIMS, name, "default")
        except NotFound:
            return None

    async def answers(self, name="pod"):
        """Return the unsuitable nodes by entry."""
        found = await self.client.get(SCHEDULINGS, name, "default")
        return {
            one.pod_resource_claim_name: list(one.unsuitable_nodes) for one in found.status.claims
        }

    async def booked(self, node="n1"):
        """Return the names of claims that have devices, from the NodeInventory."""
        found = await self.client.get(NODE_INVENTORIES, node, self.driver.namespace)
        return sorted(claim.name for claim in found.status.allocated.values())

    async def set_status(self, name="claim", **status):
        """Patch the status of a claim as another component does."""
        await self.client.patch(CLAIMS, name, {"status": status}, "default", subresource="status")
        await self.clock.settle()

    async def delete_claim(self, name="claim"):
        """Delete a claim."""
        await self.client.delete(CLAIMS, name, "default")
        await self.clock.settle()

    async def events(self, name):
        """Return the messages of events with reason Failed about an object."""
        await self.clock.settle()
        listing = await self.client.list(EVENTS, "default")
        return [
            e.message
            for e in listing.items
            if e.involved_object.name == name and e.reason == "Failed"
        ]


def _spec(potential, selected):
    spec = {"potentialNodes": list(potential)} if potential else {}
    return spec | ({"selectedNode": selected} if selected else {})
