"""Deletion costs and the status of policies, read from a cluster, and the writes of components."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST, POLICY_UID
from holdfast.api.scheme import PODS, RESOURCE_POLICIES
from policies.objects import WEB

MANAGED = (DELETION_COST, MANAGED_DELETION_COST, POLICY_UID)


async def costs(cluster, namespace=WEB):
    """Return the sorted deletion costs of the pods, by the first letter of their nodes."""
    found = {}
    for pod in (await cluster.client.list(PODS, namespace)).items:
        cost = pod.metadata.annotations.get(DELETION_COST)
        found.setdefault(pod.spec.node_name[:1], []).append(cost)
    return {letter: sorted(values, key=str) for letter, values in sorted(found.items())}


async def marks(cluster, name):
    """Return a pod's cost, the marker and the uid of the policy, None for what it lacks."""
    found = (await cluster.pod(name, WEB)).metadata.annotations
    return tuple(found.get(key) for key in MANAGED)


async def set_cost(cluster, name, cost):
    """Set a pod's deletion cost, as a user does; None removes it."""
    patch = {"metadata": {"annotations": {DELETION_COST: cost}}}
    await cluster.client.patch(PODS, name, patch, WEB)
    await cluster.settle()


async def status(cluster, name="p"):
    """Return a policy's status, written after a second without changes."""
    await cluster.advance(2)
    return (await cluster.client.get(RESOURCE_POLICIES, name, WEB)).status


async def condition(cluster, type_, name="p"):
    """Return (status, message) of a condition of a policy."""
    found = (await status(cluster, name)).conditions
    return next((c.status, c.message) for c in found if c.type == type_)


@dataclass
class RecordedWrites:
    """Lists the write requests of all components, as method and path, without events."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    def wrap(self, inner, _clock):
        """Return a transport that records the requests it sends."""
        return _Recording(inner, self.seen)

    def of(self, part):
        """Return the writes with ``part`` in the path."""
        return [write for write in self.seen if part in write[1]]


@dataclass
class _Recording:
    inner: object
    seen: list[tuple[str, str]]

    async def send(self, request):
        if request.method != "GET" and "/events" not in request.path:
            self.seen.append((request.method, request.path))
        return await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request):
        async with self.inner.stream(request) as stream:
            yield stream

    async def close(self):
        await self.inner.close()
