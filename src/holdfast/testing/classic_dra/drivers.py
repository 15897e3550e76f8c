"""Run the controller and the node part of a classic DRA driver on a separate node.

``ClassicDriverNode`` acts as scheduler and kubelet: a test decides when to request and call what,
and can kill the controller between two of its writes::

    async with ClassicDriverNode(driver) as node:
        claim = await node.allocate_claim()
        assert node.edits_of(await node.prepare_classic(claim)).environment == {"GPU": "gpu-0"}
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES, NodeInventory
from holdfast.api.classic_dra.types import ClassicClaim, classic_resources
from holdfast.api.resource import Resource
from holdfast.api.scheme import NAMESPACES, PODS
from holdfast.client.client import Client
from holdfast.driver import Driver
from holdfast.node.cdi.registry import CdiRegistry
from holdfast.node.cdi.spec import ContainerEdits
from holdfast.node.driverkit.classic_dra.controller_process import ControllerProcess
from holdfast.node.kubelet_api import dra_classic_pb2
from holdfast.node.kubelet_api.dra_classic_pb2_grpc import NodeStub
from holdfast.runtime.clock import SystemClock
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing.builders import a_pod
from holdfast.testing.drivers import CALL_SECONDS, DriverNode
from holdfast.testing.kill_points import KillTransport

RESOURCES = classic_resources()
CLAIMS, SCHEDULINGS = RESOURCES.claims, RESOURCES.pod_scheduling
_CRDS: Resource[dict[str, Any]] = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    dict,
    namespaced=False,
)


class ClassicDriverNode(DriverNode):
    """A node with one driver and its controller; methods do what scheduler and kubelet would do."""

    def __init__(
        self, driver: Driver, node: str = "node-1", parameters: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(driver, node)
        self._parameters = parameters
        self._controlling: asyncio.Task[None] | None = None
        self.kills: KillTransport

    async def start(self) -> None:
        """Start the node part; the first time, also create the class and start the controller."""
        if self._controlling is None:
            await self._set_up()
            self.start_controller()
        await super().start()

    async def __aexit__(self, *error: Any) -> None:
        """Stop everything."""
        await self.stop_controller()
        await super().__aexit__(*error)

    def start_controller(self) -> None:
        """Start the controller."""
        self.kills = KillTransport(InProcessTransport(self._server))
        client = Client(self.kills, self.driver.name)
        process = ControllerProcess(self.driver, client, SystemClock())
        self._controlling = asyncio.create_task(process.run())

    async def stop_controller(self) -> None:
        """Stop the controller at whatever point it has reached."""
        if self._controlling is not None:
            self.kills.killed.set()
            self._controlling.cancel()
            await asyncio.gather(self._controlling, return_exceptions=True)

    async def restart_controller(self) -> None:
        """Stop the controller and start it again."""
        await self.stop_controller()
        self.start_controller()

    async def inventory(self) -> NodeInventory:
        """Return the NodeInventory of the node, or of the network."""
        network = self.driver.classic.has_network_inventory
        name = self.driver.name if network else self.name
        return await self.client.get(NODE_INVENTORIES, name, self.driver.namespace)

    async def new_claim(self) -> ClassicClaim:
        """Create a claim of the driver that is allocated when a pod needs it."""
        spec: dict[str, Any] = {"resourceClassName": "class"}
        if self._parameters is not None:
            kind = self.driver.classic.params.__name__
            spec["parametersRef"] = {
                "apiGroup": self.driver.name,
                "kind": kind,
                "name": "parameters",
            }
        raw = {"metadata": {"name": f"claim-{next(self._numbers)}"}, "spec": spec}
        return await self.client.create(CLAIMS, raw, "default")

    async def select(self, claim: ClassicClaim) -> None:
        """Create a pod with a claim, and request its allocation on the node."""
        entry = {"name": "claim", "claim": {"resourceClaimName": claim.name}}
        raw = a_pod(claim.name)
        raw["spec"]["resourceClaims"] = [entry]
        pod = await self.client.create(PODS, raw, "default")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        meta = {"name": pod.name, "ownerReferences": [{**owner, "controller": True}]}
        await self.client.create(
            SCHEDULINGS, {"metadata": meta, "spec": {"selectedNode": self.name}}, "default"
        )

    async def answers(self, claim: ClassicClaim) -> dict[str, list[str]]:
        """Return the unsuitable nodes that the driver has reported for a pod of ``select``."""
        scheduling = await self.client.get(SCHEDULINGS, claim.name, "default")
        return {
            one.pod_resource_claim_name: list(one.unsuitable_nodes)
            for one in scheduling.status.claims
        }

    async def forget(self, claim: ClassicClaim) -> None:
        """Delete a pod of ``select``, its PodScheduling and its claim; wait for the claim to go."""
        await self.delete_user(claim)
        await self.until_claim(claim, lambda now: now is None)

    async def delete_user(self, claim: ClassicClaim) -> None:
        """Delete a pod of ``select``, its PodScheduling and its claim, without waiting."""
        await self.client.delete(SCHEDULINGS, claim.name, "default")
        await self.client.delete(PODS, claim.name, "default", grace_seconds=0)
        if (await self.client.get(CLAIMS, claim.name, "default")).status.reserved_for:
            status = {"status": {"reservedFor": None}}
            await self.client.patch(CLAIMS, claim.name, status, "default", subresource="status")
        await self.client.delete(CLAIMS, claim.name, "default")

    async def allocate_claim(self) -> ClassicClaim:
        """Create a claim and wait until the driver has allocated it."""
        claim = await self.new_claim()
        await self.select(claim)
        await self.until_claim(claim, lambda now: now is not None and now.is_allocated)
        return await self.client.get(CLAIMS, claim.name, "default")

    async def until_claim(
        self, claim: ClassicClaim, holds: Callable[[ClassicClaim | None], bool]
    ) -> None:
        """Wait until a condition holds for a claim, which is None after its deletion."""
        fields = f"metadata.name={claim.name}"
        listing = await self.client.list(CLAIMS, "default", fields=fields)
        now = listing.items[0] if listing.items else None
        if holds(now):
            return
        watch = self.client.watch(
            CLAIMS, "default", fields=fields, resource_version=listing.resource_version
        )
        async with aclosing(watch) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    continue
                now = None if event.type == "DELETED" else event.object
                if holds(now):
                    return
        raise AssertionError(f"the watch of claim {claim.name} has ended")

    async def release_claim(self, claim: ClassicClaim) -> None:
        """End the use of a claim, delete it and wait until it does not exist."""
        status = {"status": {"reservedFor": None}}
        await self.client.patch(CLAIMS, claim.name, status, "default", subresource="status")
        await self.client.delete(CLAIMS, claim.name, "default")
        await self.until_claim(claim, lambda now: now is None)

    async def prepare_classic(self, claim: ClassicClaim) -> list[str]:
        """Prepare a claim as a kubelet does and return the names of its CDI devices."""
        assert claim.status.allocation is not None
        request = dra_classic_pb2.NodePrepareResourceRequest(
            namespace=claim.namespace,
            claim_uid=claim.uid,
            claim_name=claim.name,
            resource_handle=claim.status.allocation.resource_handle,
        )
        stub = NodeStub(self._channel)
        answer = await stub.NodePrepareResource(request, timeout=CALL_SECONDS)
        return list(answer.cdi_devices)

    async def unprepare_classic(self, claim: ClassicClaim) -> None:
        """Unprepare a claim."""
        request = dra_classic_pb2.NodeUnprepareResourceRequest(
            namespace=claim.namespace, claim_uid=claim.uid, claim_name=claim.name
        )
        await NodeStub(self._channel).NodeUnprepareResource(request, timeout=CALL_SECONDS)

    def edits_of(self, names: list[str]) -> ContainerEdits:
        """Return the edits that a container gets for CDI devices."""
        return CdiRegistry([self.cdi_dir]).resolve(names)

    async def _set_up(self) -> None:
        await self.client.create(NAMESPACES, {"metadata": {"name": self.driver.namespace}})
        for crd in self.driver.crds():
            await self.client.create(_CRDS, crd)
        raw = {"metadata": {"name": "class"}, "driverName": self.driver.name}
        await self.client.create(RESOURCES.classes, raw)
        if self._parameters is not None:
            [names] = [
                crd["spec"]["names"]
                for crd in self.driver.crds()
                if crd["spec"]["scope"] != "Cluster"
            ]
            resource: Resource[dict[str, Any]] = Resource(
                self.driver.name, "v1", names["plural"], names["kind"], dict
            )
            fields = {"metadata": {"name": "parameters"}, **self._parameters}
            await self.client.create(resource, fields, "default")
