"""Pods and claims of both generations in a whole cluster, with controllers of the driver kit."""

import asyncio
from collections import Counter
from contextlib import suppress

from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.scheme import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.driver import Device, Driver
from holdfast.node.driverkit.classic_dra.controller_process import ControllerProcess
from holdfast.node.driverkit.classic_dra.fitting import Choice
from holdfast.node.driverkit.classic_dra.handle import decode_handle
from holdfast.node.driverkit.classic_dra.inventory_publisher import InventoryPublisher
from holdfast.runtime.errors import AlreadyExists, HoldfastError, NotFound
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing import FaultyTransport, a_claim_template, a_device_class, a_node, a_slice
from holdfast.testing.classic_dra.builders import (
    a_classic_claim,
    a_classic_class,
    inline,
    named,
    on_nodes,
)
from holdfast.testing.classic_dra.driver import KINDS
from holdfast.testing.kill_points import KILL_POINTS, KillTransport
from laws.classic_world import ClassicWorld

DEVICES = {"n1": 2, "n2": 12, "n3": 0}
NETWORK = 6
RUN_FOR = "holdfast.dev/run-for"
OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "x",
    "effect": "NoExecute",
}


class KitDriver:
    """The controller of a driver, which can be killed, and its node parts."""

    def __init__(self, cluster, random, chances, *, name, shared):
        self.cluster, self.chances, self.random = cluster, chances, random
        self.driver = Driver(name)
        self.driver.prepare(lambda claim: None)
        self.driver.fits(lambda free, request: Choice(free[:1], shared=shared) if free else None)
        if name.startswith("nic"):
            network = [Device(f"d{i}") for i in range(NETWORK)]
            self.driver.network_inventory(lambda: network)

    def start(self):
        self.kills = KillTransport(InProcessTransport(self.cluster.server))
        self.line = FaultyTransport(
            self.kills, (), self.chances, self.random, clock=self.cluster.clock
        )
        client = Client(self.line, self.driver.name)
        process = ControllerProcess(self.driver, client, self.cluster.clock)
        self.task = asyncio.create_task(process.run())

    async def kill(self):
        """End the controller wherever it is."""
        if self.task.done():  # a server that cannot be reached at the start ends the process
            assert isinstance(self.task.exception(), HoldfastError)
        self.line.enabled = False
        self.kills.killed.set()
        self.task.cancel()
        await self.cluster.clock.advance_until(self.task.done)
        await asyncio.gather(self.task, return_exceptions=True)

    async def publish(self, node):
        """Publish the devices of a node, as the driver does there."""
        publisher = InventoryPublisher(
            self.cluster.client, self.cluster.clock, self.driver.name, self.driver.namespace, node
        )
        publisher.publish_devices([Device(f"d{i}") for i in range(DEVICES[node])])
        running = asyncio.create_task(publisher.run())
        await self.cluster.clock.settle()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class DrivenWorld(ClassicWorld):
    """The same pods and claims, some immediate, some structured; drivers die, and nodes too."""

    def __init__(self, cluster, random, chances):
        self.chances = chances
        super().__init__(cluster, random)
        self.immediate = {f"i{i}" for i in range(2)}
        self.claims |= dict.fromkeys(self.immediate, "fixed")
        self.created = len(self.pods)
        self.lost = ""
        self.renewed = set()
        """Nodes whose inventory was lost: claims prove what they have until the next booking."""

    def _drivers(self):
        shared = self.random.random() < 0.3
        return [
            KitDriver(self.cluster, self.random, self.chances, name=f"{name}.example.com", shared=s)
            for name, s in (("gpu", False), ("nic", shared))
        ]

    def _entries(self):
        entries = super()._entries()
        extra = self.random.random()
        if extra < 0.15:
            entries.append(inline("now", "fixed", immediate=True))
        elif extra < 0.3:
            entries.append(named("i", f"i{self.random.randrange(2)}"))
        elif extra < 0.5:
            entries.append({"name": "s", "resourceClaimTemplateName": "one"})
        return entries

    def _pod(self, name):
        pod = super()._pod(name)
        if int(name[1:]) % 2:
            pod["metadata"]["annotations"] = {RUN_FOR: "3s"}
            pod["spec"]["restartPolicy"] = "Never"
        return pod

    def _claim(self, name):
        return a_classic_claim(name, of_class=self.claims[name], immediate=name in self.immediate)

    async def create(self):
        """Create everything; immediate claims are for node n2, so that they suit all pods."""
        for driver in self.drivers:
            await self.client.create(NAMESPACES, {"metadata": {"name": driver.driver.namespace}})
            driver.start()
        await self.cluster.create(
            a_classic_class(),
            a_classic_class("nic", "nic.example.com"),
            a_classic_class("fixed", suitable=on_nodes("n2")),
            a_device_class("gpu", driver="old.example.com"),
            a_claim_template("one"),
            *[a_slice(f"s-{n}", node=n, driver="old.example.com", devices=2) for n in DEVICES],
            settle=False,
        )
        for node in DEVICES:
            await self._create_node(node)
        await self.cluster.create(
            *map(self._claim, self.claims), *map(self._pod, self.pods), settle=False
        )

    async def _create_node(self, name):
        await self.client.create(NODES, a_node(name))
        if DEVICES[name]:
            await self.drivers[0].publish(name)

    async def stop(self):
        for driver in self.drivers:
            await driver.kill()

    async def serve(self):
        """Kill drivers at random, between two writes or anywhere; they start again."""
        for driver in self.drivers:
            ended = driver.kills.killed.is_set() or driver.task.done()
            if ended or self.random.random() < 0.05:
                await driver.kill()
                driver.start()
            elif self.random.random() < 0.15 and self.chances.conflict:
                when = self.random.choice(["after", "before"])
                driver.kills.kill(**{when: self.random.choice(sorted(KILL_POINTS))})

    async def end_faults(self):
        """Let nothing fail from now on; what was lost comes back."""
        self.chances = type(self.chances)()
        for driver in self.drivers:
            await driver.kill()
            driver.chances = self.chances
            driver.start()
        await self._restore_node()
        await self._restore_classes()

    async def booked(self):
        """Return the pool of the claims with devices, by uid; no device is booked twice."""
        found, used = {}, Counter()
        for driver in self.drivers:
            listing = await self.client.list(NODE_INVENTORIES, driver.driver.namespace)
            for inventory in listing.items:
                for uid, claim in inventory.status.allocated.items():
                    assert uid not in found, f"{claim.name} has devices of two pools"
                    found[uid] = inventory.spec.node_name
                    used.update((inventory.key, device) for device in claim.devices)
        assert all(count == 1 for count in used.values()), used
        return found

    async def check(self):
        """No device is used twice; pods on a node have their claims there."""
        pods = (await self.client.list(PODS)).items
        claims = {claim.name: claim for claim in (await self.client.list(KINDS.claims)).items}
        booked = await self.booked()
        used = Counter()
        for claim in claims.values():
            if not claim.is_allocated:
                assert not claim.status.reserved_for
                continue
            handle = decode_handle(claim.status.allocation.resource_handle)
            ends = claim.is_deleted or claim.status.deallocation_requested
            shared = claim.status.allocation.shared_resource
            assert shared or len(claim.status.reserved_for) <= 1, claim
            assert claim.metadata.finalizers, f"{claim.name} is not protected"
            if not ends or claim.status.reserved_for:
                used.update((claim.status.driver_name, handle.node, d) for d in handle.devices)
                if handle.node not in self.renewed:
                    assert booked.get(claim.uid) == handle.node, (
                        f"{claim.name} is not booked on {handle.node}"
                    )
        assert all(count == 1 for count in used.values()), used
        self._check_pods(pods, claims)
        await self._check_structured()
        return pods

    def _check_pods(self, pods, claims):
        for pod in pods:
            if not pod.spec.node_name or pod.terminating or pod.finished:
                continue
            for entry in pod.spec.resource_claims:
                if entry.claim is None:
                    continue
                name = entry.claim.resource_claim_name or f"{pod.name}-{entry.name}"
                claim = claims[name]
                assert claim.is_reserved_for(pod.uid), f"{pod.name} runs without {name}"
                node = decode_handle(claim.status.allocation.resource_handle).node
                assert node in ("", pod.spec.node_name), (
                    f"{pod.name} runs on {pod.spec.node_name}: {claim.status}"
                )

    async def _check_structured(self):
        used = Counter()
        for claim in (await self.client.list(RESOURCE_CLAIMS)).items:
            if claim.status.allocation is not None:
                results = claim.status.allocation.devices.results
                used.update((each.pool, each.device) for each in results)
        assert all(count == 1 for count in used.values()), used

    async def finish_some(self, pods):
        """Delete pods that have run, and some that run without end."""
        for pod in pods:
            ends = RUN_FOR not in pod.metadata.annotations and self.random.random() < 0.4
            running = pod.status.phase == "Running" and not pod.terminating
            if pod.finished or (running and ends):
                if pod.status.phase != "Failed":
                    self.pods.pop(pod.name, None)
                with suppress(NotFound):
                    await self.client.delete(PODS, pod.name, "default")
        there = {pod.name for pod in pods}
        for name in self.pods:
            if name not in there:  # with its node, or by force
                with suppress(AlreadyExists):
                    await self.client.create(PODS, self._pod(name), "default")
        await self._create_lost_claims()

    async def edit(self, pods):
        """Do what users do, and lose a node or a class for a while."""
        await super().edit(pods)
        if self.random.random() < 0.7:
            self.pods[f"p{self.created}"] = self._entries()
            self.created += 1
        for edit in (self._force_delete, self._lose_node, self._lose_class):
            if self.random.random() < 0.1:
                with suppress(NotFound, AlreadyExists):
                    await edit(pods)

    async def _force_delete(self, pods):
        if pods:
            name = self.random.choice(pods).name
            await self.client.delete(PODS, name, "default", grace_seconds=0)

    async def _lose_node(self, _pods):
        """Take node n1 out of service, or remove it; or bring it back."""
        if self.lost:
            await self._restore_node()
            return
        self.lost = "n1"
        if self.random.random() < 0.5:
            await self.client.patch(NODES, "n1", {"spec": {"taints": [OUT_OF_SERVICE]}})
        else:
            self.renewed.add("n1")
            await self.client.delete(NODES, "n1")

    async def _restore_node(self):
        try:
            await self.client.patch(NODES, "n1", {"spec": {"taints": None, "unschedulable": None}})
        except NotFound:
            await self._create_node("n1")
        self.lost = ""

    async def _lose_class(self, _pods):
        if self.random.random() < 0.5:
            await self.client.delete(KINDS.classes, self.random.choice(["gpu", "nic", "fixed"]))
        else:
            await self._restore_classes()

    async def _restore_classes(self):
        for raw in (
            a_classic_class(),
            a_classic_class("nic", "nic.example.com"),
            a_classic_class("fixed", suitable=on_nodes("n2")),
        ):
            with suppress(AlreadyExists):
                await self.client.create(KINDS.classes, raw)

    async def state(self):
        """Return what is known of the pods that have not run, and of all claims."""
        lines = [f"{name} {self.pods[name]}: {await self.cluster.why(name)}" for name in self.pods]
        lines += [f"{c.name}: {c.status}" for c in (await self.client.list(KINDS.claims)).items]
        found = (await self.client.list(KINDS.pod_scheduling)).items
        return "\n".join(lines + [f"{one.name}: {one.spec} {one.status}" for one in found])

    async def leftovers(self):
        """Return what is still there after all pods have ended and their claims were deleted."""
        listed = (PODS, KINDS.claims, KINDS.pod_scheduling, RESOURCE_CLAIMS)
        found = {
            resource.plural: [one.name for one in (await self.client.list(resource)).items]
            for resource in listed
        }
        found["bookings"] = list(await self.booked())
        return {kind: names for kind, names in found.items() if names}
