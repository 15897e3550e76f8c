"""A node with an agent whose pods use classic claims; the test allocates as a driver would."""

import asyncio
import json
from contextlib import asynccontextmanager

from agent.classic_driver_server import ClassicDriverServer
from agent.polling import until
from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.node_names import STANDALONE
from holdfast.api.scheme import EVENTS
from holdfast.client.client import Client
from holdfast.node.agent.dra_plugins import NotRegistered
from holdfast.node.agent.node_agent import NodeIdentity
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.node.agent.node_setup import make_agent
from holdfast.runtime.errors import NotFound
from holdfast.runtime.settings import NodeSettings
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.kinds.printers.pods import POD
from holdfast.server.user import own_user
from holdfast.testing.builders import a_pod
from holdfast.testing.faults import FaultyTransport

CLASSIC = classic_resources()


def a_container(name, script, claims):
    """A container that uses claims."""
    listed = [{"name": each} for each in claims]
    command = {"command": ["sh", "-c", script, name]} if script else {}
    return {"name": name, "image": "none", "resources": {"claims": listed}, **command}


class ClassicNode:
    """Node ``n`` of a small cluster, with containers that are simulated."""

    def __init__(self, cluster, directory):
        self.cluster, self.client, self.directory = cluster, cluster.client, directory
        self.driver = ClassicDriverServer(directory)
        self.agent = None

    @asynccontextmanager
    async def running_agent(self, **settings):
        """Run the agent until the end of the block; what it wrote stays."""
        user = own_user("system:node:n")
        self.faults = FaultyTransport(InProcessTransport(self.cluster.server, user))
        client = Client(self.faults, "agent")
        identity = NodeIdentity("n", self.directory, agent=STANDALONE)
        clock = self.cluster.clock
        self.agent = make_agent(identity, client, clock, NodeSettings(0, **settings))
        clock.busy.append(lambda: self.agent._devices.busy)
        await self.agent.start()
        try:
            await clock.settle()
            yield self.agent
        finally:
            await self.agent.stop(stop_containers=False)
            clock.busy.clear()

    async def registered(self):
        """Wait until the driver is registered and connected."""
        await self.cluster.clock.advance(0.5)
        while not (await self.driver.statuses.get()).plugin_registered:
            pass
        await self.connected()

    async def connected(self):
        """Wait until the agent is connected with the driver."""
        await until(lambda: self.endpoint is not None and self.endpoint.connected)

    @property
    def endpoint(self):
        try:
            return self.agent._devices.claims._drivers.endpoint(self.driver.name, classic=True)
        except NotRegistered:
            return None

    async def claim(self, name="c", *, handle="h", shared=False, allocated=True, owner=None):
        """Create a claim and allocate it as its driver does."""
        metadata = {"name": name, "namespace": "default"}
        if owner is not None:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}
            metadata["ownerReferences"] = [reference | {"controller": True}]
        raw = {
            "apiVersion": CLASSIC.claims.api_version, "kind": "ResourceClaim",
            "metadata": metadata, "spec": {"resourceClassName": "gold"},
        }  # fmt: skip
        await self.client.create(CLASSIC.claims, raw, "default")
        if allocated:
            return await self.allocate(name, handle, shared=shared)
        return await self.client.get(CLASSIC.claims, name, "default")

    async def allocate(self, name, handle, *, shared=False):
        allocation = {"resourceHandle": handle, "sharedResource": shared}
        return await self.status(name, driverName=self.driver.name, allocation=allocation)

    async def status(self, name, **changes):
        patch = {"status": changes}
        return await self.client.patch(CLASSIC.claims, name, patch, "default", subresource="status")

    async def reserve(self, name, *pods):
        users = [{"resource": "pods", "name": pod.name, "uid": pod.uid} for pod in pods]
        await self.status(name, reservedFor=users)

    async def release(self, name):
        """Delete a claim that is used no more, as its driver deallocates it."""
        await self.reserve(name)
        await self.client.delete(CLASSIC.claims, name, "default")

    async def create(self, name, *claims, uses=None, script="", **fields):
        """Create a pod of no node; ``uses`` are the claims of its containers, by name."""
        entries = [{"name": each, "claim": {"resourceClaimName": each}} for each in claims]
        pod = a_pod(name, schedulerName="none", **fields)
        pod["spec"]["resourceClaims"] = entries
        pod["spec"]["containers"] = [
            a_container(each, script, used) for each, used in (uses or {"main": claims}).items()
        ]
        return await self.client.create(NODE_PODS, pod, "default")

    async def bind(self, *names):
        for name in names:
            binding = {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
            }  # fmt: skip
            await self.client.bind("default", name, binding)
        await self.cluster.clock.settle()

    async def run(self, name, *claims, **fields):
        """Create a pod, reserve its claims for it and bind it, as the scheduler does."""
        pod = await self.create(name, *claims, **fields)
        for claim in claims:
            await self.reserve(claim, pod)
        await self.bind(name)
        return await self.pod(name)

    async def pod(self, name):
        """Return a pod; None if it is gone."""
        try:
            return await self.client.get(NODE_PODS, name, "default")
        except NotFound:
            return None

    async def shown_status(self, name):
        """Return the STATUS of a pod in ``kubectl get pods``."""
        raw = json.loads(await self.client.raw(f"/api/v1/namespaces/default/pods/{name}"))
        return POD.cells(raw, self.cluster.clock.now())[2]

    async def phase(self, name):
        return (await self.pod(name)).status.phase

    async def rejected(self, name):
        """Return the status of a pod that the node does not take, once its files are removed.

        That happens in a thread, which the virtual clock does not wait for.
        """
        async with asyncio.timeout(60):
            while (pod := await self.pod(name)).status.phase != "Failed":
                await asyncio.sleep(0.01)
        return pod.status

    async def delete(self, name, grace=None):
        await self.client.delete(NODE_PODS, name, "default", grace_seconds=grace)
        await self.cluster.clock.settle()

    async def said(self, name):
        """Return reason and message of the warnings about a pod."""
        listed = (await self.client.list(EVENTS, "default")).items
        mine = [e for e in listed if e.involved_object.name == name and e.type == "Warning"]
        return [(e.reason, e.message) for e in mine]

    async def env(self, name):
        """Return the variables that devices give each container of a pod."""
        edits = (await self.pod(name)).metadata.annotations.get("holdfast.dev/device-edits", "{}")
        return {container: each["env"] for container, each in json.loads(edits).items()}
