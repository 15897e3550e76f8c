"""Each part of the embedded cluster has its own certificate and only its own rights."""

from contextlib import AsyncExitStack

import msgspec
import pytest

from apiserver.node_requests import LEASES, NODES, SECRETS, lease, node, secret
from apiserver.sample_objects import CONFIGMAPS, NAMESPACES, PODS, binding, configmap, pod
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request
from holdfast.runtime.clock import SystemClock
from holdfast.server.access.credentials import ensure_component_certificates
from holdfast.server.user import COMPONENTS, certificate_name
from validation.device_builders import CLAIMS, SLICES, claim, slice_of

DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = {"metadata": {"name": "r"}, "rules": []}
ADMIN_BINDING = {
    "metadata": {"name": "b"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    },
    "subjects": [{"kind": "User", "name": "eve"}],
}
AS_NODE = {"impersonate-user": "system:node:n1"}
SCHEDULER, CONTROLLERS, SIMULATED_NODES, DESCHEDULER = COMPONENTS
# What no component may do.
REFUSED_TO_ALL = [
    ("POST", SECRETS, secret("new")),
    ("PUT", f"{SECRETS}/s", secret("s")),
    ("POST", CONFIGMAPS, configmap("new")),
    ("POST", f"{RBAC}/clusterroles", ROLE),
    ("POST", f"{RBAC}/clusterrolebindings", ADMIN_BINDING),
    ("POST", SLICES, slice_of(name="new", nodeName="n1")),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {}),
    ("GET", "/metrics", None),
]
# Acting as another user.
IMPERSONATIONS = [
    {"impersonate-user": "kubernetes-admin", "impersonate-group": "system:masters"},
    {"impersonate-user": "system:kube-scheduler"},
    {"impersonate-user": "system:kube-controller-manager"},
    {"impersonate-user": "system:serviceaccount:default:default"},
]
REFUSED = {
    SCHEDULER: [
        ("GET", SECRETS, None),
        ("POST", PODS, pod("new")),
        ("DELETE", f"{NODES}/n1", None),
        ("PATCH", f"{NODES}/n1", {}),
        ("PATCH", f"{NODES}/n1/status", {}),
        ("PATCH", f"{SLICES}/slice", {}),
        ("POST", NAMESPACES, {"metadata": {"name": "new"}}),
        ("DELETE", f"{DEVICES}/n1", None),
        ("PATCH", f"{TOPOLOGIES}/n1", {}),
        ("POST", JOBS, {"metadata": {"name": "new"}}),
    ],
    CONTROLLERS: [
        ("POST", f"{PODS}/p/binding", binding("p", "n1")),
        ("POST", NODES, node("new")),
        ("PUT", f"{NODES}/n1", node("n1")),
        ("POST", LEASES, lease("new")),
        ("POST", f"{PODS}/p/exec", {}),
        (
            "PATCH",
            f"{RBAC}/clusterrolebindings/cluster-admin",
            {
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}
                ]
            },
        ),
    ],
    SIMULATED_NODES: [
        ("GET", SECRETS, None),
        ("GET", f"{SECRETS}/s", None),
        ("GET", CONFIGMAPS, None),
        ("GET", "/api/v1/services", None),
        ("POST", PODS, pod("new")),
        ("DELETE", f"{PODS}/p", None),
        ("PATCH", f"{PODS}/p/status", {}),
        ("PATCH", f"{NODES}/n1/status", {}),
        ("POST", f"{PODS}/p/binding", binding("p", "n1")),
        ("POST", LEASES, lease("new")),
        ("DELETE", f"{NODES}/n1", None),
        ("POST", CLAIMS, claim(name="new")),
    ],
    DESCHEDULER: [
        ("GET", SECRETS, None),
        ("DELETE", f"{PODS}/p", None),
        ("PATCH", f"{PODS}/p", {}),
        ("POST", f"{PODS}/p/eviction", {}),
        ("PATCH", f"{NODES}/n1", {}),
    ],
}
ALLOWED = {
    SCHEDULER: [
        ("GET", PODS, None),
        ("POST", f"{PODS}/p/binding", binding("p", "n1")),
        ("PATCH", f"{PODS}/p/status", {"status": {"message": "m"}}),
    ],
    CONTROLLERS: [
        ("GET", SECRETS, None),
        ("POST", PODS, pod("made")),
        ("DELETE", f"{PODS}/made", None),
        ("PATCH", f"{NODES}/n1", {"metadata": {"annotations": {"a": "b"}}}),
    ],
    SIMULATED_NODES: [("GET", "/api/v1/nodes", None), ("GET", "/api/v1/pods", None)],
    DESCHEDULER: [("GET", "/api/v1/nodes", None), ("GET", f"{PODS}/p", None)],
}
# What that user may do as the node n1, and what not, although it may act as any node.
AS_N1 = [
    ("POST", LEASES, lease("n1"), 201),
    ("PATCH", f"{LEASES}/n1", {"spec": {"holderIdentity": "n1"}}, 200),
    ("PATCH", f"{NODES}/n1/status", {"status": {"capacity": {"cpu": "2"}}}, 200),
    ("PATCH", f"{PODS}/p/status", {"status": {"message": "n"}}, 200),
    ("PATCH", f"{PODS}/other/status", {"status": {"message": "n"}}, 403),
    ("PATCH", f"{NODES}/n2/status", {"status": {}}, 403),
    ("DELETE", f"{PODS}/other", None, 403),
    ("DELETE", f"{NODES}/n1", None, 403),
    ("GET", f"{SECRETS}/used", None, 403),  # n1 itself may, for its pod; its user need not
    ("POST", SLICES, slice_of(name="mine", nodeName="n1"), 403),
    ("GET", "/api/v1/services", None, 403),
    ("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}, 200),
]


@pytest.fixture
async def identities(api):
    """The transports of the components, with the certificates that the server has made."""
    ensure_component_certificates(api.credentials, SystemClock().now())
    pki = api.credentials.directory
    for name in ("n1", "n2"):
        await api.create(NODES, node(name))
    for name in ("s", "used"):
        await api.create(SECRETS, secret(name))
    await api.create(SLICES, slice_of(name="slice", nodeName="n1"))
    used = [{"name": "v", "secret": {"secretName": "used"}}]
    await api.create(PODS, pod("p", volumes=used))
    await api.create(PODS, pod("other", nodeName="n2"))
    async with AsyncExitStack() as stack:
        transports = {}
        for user in COMPONENTS:
            name = certificate_name(user)
            files = {"cert": pki / f"{name}.crt", "key": pki / f"{name}.key"}
            transports[user] = HttpTransport(Endpoint(api.url, ca=pki / "ca.crt", **files))
            stack.push_async_callback(transports[user].close)
        yield transports


async def status_of(transport, method, path, body, headers=None):
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    data = b"" if body is None else msgspec.json.encode(body)
    sent = {"content-type": kind} | (headers or {})
    return (await transport.send(Request(method, path, {}, sent, data))).status


async def test_A048_each_identity_may_do_only_its_own(identities):
    for user, transport in identities.items():
        for method, path, body in (*REFUSED[user], *REFUSED_TO_ALL):
            got = await status_of(transport, method, path, body)
            assert got == 403, (user, method, path, got)
        for headers in (*IMPERSONATIONS, *([] if user == SIMULATED_NODES else [AS_NODE])):
            got = await status_of(transport, "GET", f"{NODES}/n1", None, headers)
            assert got == 403, (user, headers, got)
    for user in (SCHEDULER, CONTROLLERS, SIMULATED_NODES):
        for method, path, body in ALLOWED[user]:
            got = await status_of(identities[user], method, path, body)
            assert got in (200, 201), (user, method, path, got)
    for method, path, body, wanted in AS_N1:
        got = await status_of(identities[SIMULATED_NODES], method, path, body, AS_NODE)
        assert got == wanted, (method, path, got)
    for name in ("", "UPPER", "a/b"):  # no names of nodes
        headers = {"impersonate-user": f"system:node:{name}"}
        assert (
            await status_of(identities[SIMULATED_NODES], "GET", f"{LEASES}/n1", None, headers)
            == 403
        )
    headers = AS_NODE | {"impersonate-group": "system:masters"}
    assert await status_of(identities[SIMULATED_NODES], "GET", f"{LEASES}/n1", None, headers) == 403
