"""A node fails, recovers and goes out of service: the stock kube-controller-manager and ours.

No kubelet runs: the test renews leases and writes status. Both write the same conditions, taints
and events; tests/stories/test_node_failure.py tells the same story on the embedded cluster.
"""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from holdfast.api.node_names import LEASE_NAMESPACE
from holdfast.api.scheme import EVENTS, LEASES, NAMESPACES, NODES, PODS
from holdfast.api.timestamps import rfc3339, rfc3339_micro
from holdfast.client.client import Client, PatchType
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.controllers.node_lifecycle.controller import NodeLifecycleController
from holdfast.controllers.pod_garbage_collector import PodGarbageCollector
from holdfast.controllers.taint_eviction import TaintEvictionController
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import NotFound
from holdfast.runtime.settings import ControllerSettings, NodeLifecycleSettings
from holdfast.testing import a_namespace, a_node, a_pod
from real.programs import kube_controller_manager

pytestmark = pytest.mark.real
KINDS = (NodeLifecycleController, TaintEvictionController, PodGarbageCollector)
GRACE_SECONDS = 10
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}


@asynccontextmanager
async def ours(client):
    """Run the three controllers of Holdfast against the API server."""
    settings = ControllerSettings(nodes=NodeLifecycleSettings(monitor_grace_seconds=GRACE_SECONDS))
    manager = ControllerManager(client, SystemClock(), kinds=KINDS, settings=settings)
    await manager.start()
    try:
        yield
    finally:
        await manager.stop()


@asynccontextmanager
async def theirs(plane, directory):
    flags = {"node-monitor-grace-period": f"{GRACE_SECONDS}s", "node-monitor-period": "1s"}
    with kube_controller_manager(plane, directory, **flags):
        yield


class Story:
    """Two nodes: ``n-fails`` stops and starts again, ``n-stays`` is always ready."""

    def __init__(self, client, name):
        self.client = client
        self.space = f"nodes-{name}"
        self.fails, self.stays = f"{name}-fails", f"{name}-stays"
        self.silent = False
        self.seen = {}

    async def begin(self):
        await self.client.create(NAMESPACES, a_namespace(self.space))
        for name in (self.fails, self.stays):
            await self.client.create(NODES, a_node(name))
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40},
            }
            await self.client.create(LEASES, lease, LEASE_NAMESPACE)
            await self.report_ready(name)
        for name, tolerations in (
            ("short", [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}]),
            ("usual", []),
        ):
            pod = a_pod(name, namespace=self.space, node=self.fails, tolerations=tolerations)
            await self.client.create(PODS, pod, self.space)
            await self.write_status(
                PODS, name, {"phase": "Running", "conditions": [condition("Ready", "True")]}
            )

    async def write_status(self, resource, name, status):
        await self.client.patch(
            resource,
            name,
            {"status": status},
            self.space if resource is PODS else "",
            type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def report_ready(self, name):
        types = (("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"))
        conditions = [condition(*each) | {"lastHeartbeatTime": rfc3339(now())} for each in types]
        await self.write_status(NODES, name, {"conditions": conditions})

    async def renew(self):
        for name in (self.stays, *(() if self.silent else (self.fails,))):
            patch = {"spec": {"renewTime": rfc3339_micro(now())}}
            await self.client.patch(LEASES, name, patch, LEASE_NAMESPACE)

    async def until(self, reached, seconds=90):
        deadline = time.monotonic() + seconds
        while not await reached():
            assert time.monotonic() < deadline, f"{reached.__name__}: not reached"
            await self.renew()
            await asyncio.sleep(0.5)

    async def note(self, moment):
        """Record the node, its pods and their events, without names and times."""
        node = await self.client.get(NODES, self.fails)
        pods = (await self.client.list(PODS, self.space)).items
        self.seen[moment] = {
            "taints": sorted(
                (t.key, t.value, t.effect, bool(t.time_added)) for t in node.spec.taints
            ),
            "node": conditions_of(node),
            "pods": {p.name: (p.status.phase, p.terminating, *conditions_of(p)) for p in pods},
        }

    async def note_events(self, name, count):
        """Record the events of an object; they may be written later than the object."""

        async def written():
            return len(await self.events(name)) >= count

        await self.until(written)
        self.seen[f"events of {name.split('-')[-1]}"] = await self.events(name)

    async def events(self, name):
        found = (await self.client.list(EVENTS)).items
        return sorted(
            {
                (e.type, e.reason, e.message.replace(self.space, "SPACE").replace(name, "NAME"))
                for e in found
                if e.involved_object.name == name
                and e.involved_object.namespace in ("", self.space)
                and e.reason in ("NodeNotReady", "TaintManagerEviction")
            }
        )

    async def tell(self):
        async def tainted():
            return "NoExecute" in [t.effect for t in (await self.node()).spec.taints]

        async def untainted():
            return not (await self.node()).spec.taints

        async def short_leaves():
            return (await self.client.get(PODS, "short", self.space)).terminating

        async def usual_is_gone():
            try:
                await self.client.get(PODS, "usual", self.space)
            except NotFound:
                return True
            return False

        async def cancelled():
            return any("Cancelling" in m for _, _, m in await self.events("usual"))

        await self.until(untainted)
        self.silent = True
        await self.until(tainted)
        await self.until(short_leaves)
        await self.note("failed")
        # Later the stock one also schedules the deletion of pods that are terminating.
        await self.note_events("short", 2)
        self.silent = False
        await self.report_ready(self.fails)
        await self.until(untainted)
        await self.until(cancelled)
        await self.note("recovered")
        self.silent = True
        await self.until(tainted)
        taints = [{"key": t.key, "effect": t.effect} for t in (await self.node()).spec.taints]
        patch = {"spec": {"taints": [*taints, OUT_OF_SERVICE]}}
        await self.client.patch(NODES, self.fails, patch)
        await self.until(usual_is_gone)
        await self.note_events(self.fails, 1)
        await self.note_events("usual", 3)

    async def node(self):
        return await self.client.get(NODES, self.fails)

    async def end(self):
        for name in (self.fails, self.stays):
            await self.client.delete(NODES, name)
        for pod in (await self.client.list(PODS, self.space)).items:
            await self.client.delete(PODS, pod.name, self.space, grace_seconds=0)


def now():
    return time.time()


def condition(type_, status):
    return {"type": type_, "status": status, "lastTransitionTime": rfc3339(now())}


def conditions_of(obj):
    return sorted(
        (c.type, c.status, c.reason, c.message, c.observed_generation)
        for c in obj.status.conditions
    )


async def test_both_controller_managers_tell_the_same_story(control_plane, tmp_path):
    endpoint = await load(control_plane.kubeconfig)
    client = Client(HttpTransport(endpoint), "test")
    seen = []
    try:
        for name, running in (("ours", ours(client)), ("stock", theirs(control_plane, tmp_path))):
            story = Story(client, name)
            await story.begin()
            try:
                async with running:
                    await story.tell()
            finally:
                await story.end()
            seen.append(story.seen)
    finally:
        await client.close()
    assert seen[0] == seen[1]
