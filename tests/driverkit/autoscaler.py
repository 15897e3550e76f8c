"""A small autoscaler that asks a driver's extender, as the cluster autoscaler would."""

from __future__ import annotations

from aiohttp.test_utils import TestClient, TestServer

from holdfast.client.client import Client
from holdfast.node.driverkit.classic_dra.extender import ExtenderProcess
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing import a_node


class Autoscaler:
    """Serves the extender of a driver over HTTP and simulates with it."""

    def __init__(self, kit, **labels):
        self._kit = kit
        self.labels = labels
        """Labels of the nodes that it would add."""

    async def __aenter__(self):
        client = Client(InProcessTransport(self._kit.server), "extender")
        kit = self._kit
        self._process = ExtenderProcess(kit.driver, client, kit.clock, group="core.k8s.io")
        await self._process.informers.__aenter__()
        await kit.clock.settle()
        self.http = TestClient(TestServer(self._process.extender.application()))
        await self.http.start_server()
        return self

    async def __aexit__(self, *error):
        await self.http.close()
        await self._process.informers.__aexit__(*error)

    async def start(self):
        """Start a session and return its id."""
        return (await self.post("start", {}))["Session"]

    async def post(self, verb, body, session=""):
        """Send a request that must succeed."""
        async with self.send(verb, body, session) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    def send(self, verb, body, session=""):
        """Send a request."""
        return self.http.post(
            f"/{verb}", json=body, headers={"session": session} if session else {}
        )

    async def passing(self, session, pod, *nodes):
        """Return the names of the nodes on which a pod's claims would be allocated."""
        found = await self.filter(session, pod, *nodes)
        return [node["metadata"]["name"] for node in found["Nodes"]["items"]]

    async def filter(self, session, pod, *nodes):
        """Return the whole answer about nodes."""
        return await self.post("filter", {"Pod": pod, "Nodes": {"items": list(nodes)}}, session)

    async def select(self, session, pod, node):
        """Book the claims of a pod on a node; return the error."""
        return (await self.post("nodeselected", {"Pod": pod, "Node": node}, session))["Error"]

    async def nodes_to_add(self, pods, *existing):
        """Return how many nodes would have to be added so that all pods run.

        A pod that does not even fit on a new node adds none.
        """
        session = await self.start()
        nodes, added = list(existing), 0
        for pod in pods:
            fitting = await self.passing(session, pod, *nodes)
            if not fitting:
                new = a_node(f"new-{added}", labels=self.labels)
                if not await self.passing(session, pod, new):
                    continue
                nodes.append(new)
                added += 1
                fitting = [f"new-{added - 1}"]
            node = next(node for node in nodes if node["metadata"]["name"] == fitting[0])
            assert await self.select(session, pod, node) == ""
        return added
