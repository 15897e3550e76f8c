"""Two users with ``edit`` in one namespace each, on a cluster with scheduler and controllers."""

from contextlib import asynccontextmanager

from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.user import AUTHENTICATED, User
from holdfast.testing import a_namespace
from holdfast.testing.builders import resource_of
from holdfast.testing.harness import Harness

RBAC = "rbac.authorization.k8s.io"
ROLE_BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding", dict)


class Tenant:
    """A user with ``edit`` in one namespace, by default that of its own name."""

    def __init__(self, cluster, namespace, user="", group=""):
        known = User(user or namespace, (*filter(None, [group]), AUTHENTICATED))
        self.namespace = namespace
        self.client = Client(InProcessTransport(cluster.server, known), known.name)
        self._cluster = cluster

    async def create(self, *objects):
        """Create objects in the tenant's namespace, then settle."""
        for raw in objects:
            resource = resource_of(raw)
            if resource.namespaced:
                raw["metadata"]["namespace"] = self.namespace
            await self.client.create(resource, raw, raw["metadata"].get("namespace", ""))
        await self._cluster.settle()


@asynccontextmanager
async def two_tenants(directory, **options):
    """Start a cluster; yield it with its tenants `a` and `b`."""
    async with Harness(directory, **options) as cluster:
        for name in ("a", "b"):
            binding = {
                "metadata": {"name": "edit"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
            }
            await cluster.create(a_namespace(name))
            await cluster.client.create(ROLE_BINDINGS, binding, name)
        yield cluster, Tenant(cluster, "a"), Tenant(cluster, "b")
