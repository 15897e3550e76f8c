"""Requests of the node n1, and what they get: here and from a real kube-apiserver.

An object is n1's if its name ends with 1. ``refused`` are words of the message of a 403.
"""

from apiserver.sample_objects import CONFIGMAPS, PODS, configmap, pod
from validation.device_builders import CLAIMS, SLICES, claim, slice_of

MERGE = {"content-type": "application/merge-patch+json"}
CORE = "/api/v1/namespaces/default"
NODES, VOLUMES, SECRETS = "/api/v1/nodes", "/api/v1/persistentvolumes", f"{CORE}/secrets"
VOLUME_CLAIMS, ACCOUNTS = f"{CORE}/persistentvolumeclaims", f"{CORE}/serviceaccounts"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
OTHER_LEASES = LEASES.replace("kube-node-lease", "default")
STORAGE = "/apis/storage.k8s.io/v1"
CSI_NODES = f"{STORAGE}/csinodes"
SIGNING_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
EVENTS = f"{CORE}/events"
UNRELATED = "no relationship found between node 'n1' and this object"
MIRROR = {"kubernetes.io/config.mirror": "x"}


def named(name, **parts):
    return {"metadata": {"name": name}, **parts}


def secret(name):
    return {"apiVersion": "v1", "kind": "Secret", **named(name)}


def node(name, **parts):
    return {"apiVersion": "v1", "kind": "Node", **named(name), **parts}


def lease(name):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **named(name)}


def csi_node(name):
    spec = {"drivers": []}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", **named(name), "spec": spec}


def account(name):
    return {"apiVersion": "v1", "kind": "ServiceAccount", **named(name)}


def volume_claim(name):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        **named(name),
        "spec": spec,
    }


def volume(number):
    """A volume of the claim data-NUMBER, with a secret to mount it and one for controllers."""
    csi = {"driver": "d", "volumeHandle": f"v{number}"}
    csi["nodePublishSecretRef"] = {"namespace": "default", "name": f"mount-{number}"}
    csi["controllerPublishSecretRef"] = {"namespace": "default", "name": f"attach-{number}"}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": f"data-{number}"},
        "csi": csi,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", **named(f"v-{number}"), "spec": spec}


def pod_on(number):
    """A pod of the node nNUMBER that refers to objects of every kind."""
    container = {
        "name": "c",
        "image": "i",
        "env": [
            {
                "name": "A",
                "valueFrom": {"secretKeyRef": {"name": f"env-{number}", "key": "a"}},
            }
        ],
        "envFrom": [{"configMapRef": {"name": f"from-{number}"}}],
    }
    sources = [{"secret": {"name": f"projected-{number}"}}]
    return pod(
        f"p-{number}",
        nodeName=f"n{number}",
        serviceAccountName=f"account-{number}",
        containers=[container],
        imagePullSecrets=[{"name": f"pull-{number}"}],
        volumes=[
            {"name": "s", "secret": {"secretName": f"volume-{number}"}},
            {"name": "c", "configMap": {"name": f"volume-{number}"}},
            {"name": "d", "persistentVolumeClaim": {"claimName": f"data-{number}"}},
            {"name": "p", "projected": {"sources": sources}},
        ],
        resourceClaims=[{"name": "gpu", "resourceClaimName": f"claim-{number}"}],
    )


def mirror(name, owners=None, **spec):
    made = pod(name, **{"nodeName": "n1", **spec})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "x", "controller": True}
    made["metadata"] |= {
        "annotations": MIRROR,
        "ownerReferences": [owner | part for part in ([{}] if owners is None else owners)],
    }
    return made


def eviction(name):
    return {"apiVersion": "policy/v1", "kind": "Eviction", **named(name)}


def event():
    about = {"kind": "Pod", "namespace": "default", "name": "p-1"}
    return {"apiVersion": "v1", "kind": "Event", **named("e"), "involvedObject": about}


SETUP = [
    *((NODES, node(name)) for name in ("n1", "n2")),
    *((ACCOUNTS, account(f"account-{i}")) for i in (1, 2)),
    *((PODS, pod_on(i)) for i in (1, 2)),
    *(
        (SECRETS, secret(f"{name}-{i}"))
        for i in (1, 2)
        for name in ("env", "pull", "projected", "volume", "mount", "attach")
    ),
    *((CONFIGMAPS, configmap(f"{name}-{i}")) for i in (1, 2) for name in ("from", "volume")),
    *((VOLUME_CLAIMS, volume_claim(f"data-{i}")) for i in (1, 2)),
    *((VOLUMES, volume(i)) for i in (1, 2)),
    *((CLAIMS, claim(name=f"claim-{i}")) for i in (1, 2)),
    *((SLICES, slice_of(name=f"slice-{i}", nodeName=f"n{i}")) for i in (1, 2)),
    (LEASES, lease("n2")),
    (CSI_NODES, csi_node("n2")),
]


def reads():
    """Every object that a pod may refer to: that of n1's pod is read, that of n2's is not."""
    paths = [
        *(f"{SECRETS}/{name}" for name in ("env", "pull", "projected", "volume", "mount")),
        f"{CONFIGMAPS}/from",
        f"{CONFIGMAPS}/volume",
        f"{VOLUME_CLAIMS}/data",
        f"{VOLUMES}/v",
        f"{CLAIMS}/claim",
        f"{ACCOUNTS}/account",
        f"{PODS}/p",
        f"{SLICES}/slice",
    ]
    for path in paths:
        yield "GET", f"{path}-1", None, {}, 200, ""
        yield "GET", f"{path}-2", None, {}, 403, UNRELATED
    yield "GET", f"{SECRETS}/attach-1", None, {}, 403, UNRELATED
    yield "GET", f"{SECRETS}/none", None, {}, 403, UNRELATED


def selected(selector):
    return {"fieldSelector": selector}


ONLY_LEASES = 'can only access leases in the "kube-node-lease" system namespace'
SAME_LEASE = "can only access node lease with the same name as the requesting node"
SAME_CSI = "can only access CSINode with the same name as the requesting node"
GET_ONLY = "can only get individual resources of this type"
BY_NODE = "can only list/watch pods with spec.nodeName field selector"
SLICES_BY_NODE = "can only list/watch/deletecollection resourceslices with nodeName field selector"
CAPACITY = {"status": {"capacity": {"storage": "1Gi"}}}
OWN = "an owner reference set to itself"
STEPS = [
    # method, path, body, query, status, words of the refusal
    *reads(),
    ("GET", SECRETS, None, {}, 403, "No Object name found"),
    ("GET", SECRETS, None, selected("metadata.name=env-1"), 200, ""),
    ("GET", SECRETS, None, selected("metadata.name=env-2"), 403, UNRELATED),
    ("GET", "/api/v1/secrets", None, {}, 403, "can only read namespaced object of this type"),
    ("DELETE", f"{SECRETS}/env-1", None, {}, 403, "can only read resources of this type"),
    ("POST", SECRETS, secret("new"), {}, 403, "can only read resources of this type"),
    ("GET", VOLUME_CLAIMS, None, {}, 403, GET_ONLY),
    ("PATCH", f"{VOLUME_CLAIMS}/data-1", {"metadata": {}}, {}, 403, GET_ONLY),
    ("GET", VOLUMES, None, {}, 403, GET_ONLY),
    ("GET", CLAIMS, None, {}, 403, GET_ONLY),
    ("PATCH", f"{CLAIMS}/claim-1/status", {"status": {}}, {}, 403, GET_ONLY),
    ("PATCH", f"{VOLUME_CLAIMS}/data-1/status", CAPACITY, {}, 200, ""),
    ("PATCH", f"{VOLUME_CLAIMS}/data-2/status", CAPACITY, {}, 403, UNRELATED),
    ("GET", f"{VOLUME_CLAIMS}/data-1/status", None, {}, 403, "can only get/update/patch this type"),
    ("GET", f"{STORAGE}/volumeattachments/none", None, {}, 403, UNRELATED),
    ("POST", f"{ACCOUNTS}/account-2/token", {}, {}, 403, UNRELATED),
    ("DELETE", f"{ACCOUNTS}/account-1", None, {}, 403, "can only create tokens for individual"),
    # Nodes.
    ("GET", f"{NODES}/n1", None, {}, 200, ""),
    ("GET", f"{NODES}/n2", None, {}, 403, "node 'n1' cannot read 'n2', only its own Node object"),
    ("GET", NODES, None, {}, 403, "node 'n1' cannot read all nodes, only its own Node object"),
    ("GET", NODES, None, selected("metadata.name=n1"), 200, ""),
    ("DELETE", f"{NODES}/n1", None, {}, 403, 'cannot delete resource "nodes" in API group ""'),
    ("POST", NODES, node("n3"), {}, 403, 'node "n1" is not allowed to modify node "n3"'),
    ("PATCH", f"{NODES}/n2", {"metadata": {}}, {}, 403, "is not allowed to modify node"),
    ("PATCH", f"{NODES}/n2/status", {"status": {}}, {}, 403, "is not allowed to modify node"),
    ("PATCH", f"{NODES}/n1/status", {"status": {"capacity": {"cpu": "4"}}}, {}, 200, ""),
    *(
        ("PATCH", f"{NODES}/n1", {"metadata": {"labels": {label: "x"}}}, {}, status, words)
        for label, status, words in (
            ("example.com/a", 200, ""),
            ("topology.kubernetes.io/zone", 200, ""),
            ("a.node.kubernetes.io/b", 200, ""),
            ("kubelet.kubernetes.io/a", 200, ""),
            ("node-role.kubernetes.io/a", 403, "is not allowed to modify labels: node-role."),
            ("a.node-restriction.kubernetes.io/b", 403, "is not allowed to modify labels: a."),
            ("a.k8s.io/b", 403, "is not allowed to modify labels: a.k8s.io/b"),
        )
    ),
    (
        "PATCH",
        f"{NODES}/n1",
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
        {},
        403,
        'node "n1" is not allowed to modify taints',
    ),
    (
        "PATCH",
        f"{NODES}/n1",
        {
            "metadata": {
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "x"}]
            }
        },
        {},
        403,
        'node "n1" is not allowed to modify ownerReferences',
    ),
    # Leases and CSINodes.
    ("POST", LEASES, lease("n1"), {}, 201, ""),
    ("POST", LEASES, lease("n3"), {}, 403, SAME_LEASE),
    ("GET", f"{LEASES}/n1", None, {}, 200, ""),
    ("PATCH", f"{LEASES}/n1", {"spec": {"holderIdentity": "n1"}}, {}, 200, ""),
    ("PATCH", f"{LEASES}/n2", {"spec": {"holderIdentity": "n1"}}, {}, 403, SAME_LEASE),
    ("DELETE", f"{LEASES}/n2", None, {}, 403, SAME_LEASE),
    ("GET", LEASES, None, {}, 403, "can only get, create, update, patch, or delete a node lease"),
    ("POST", OTHER_LEASES, lease("n1"), {}, 403, ONLY_LEASES),
    ("POST", CSI_NODES, csi_node("n1"), {}, 201, ""),
    ("POST", CSI_NODES, csi_node("n3"), {}, 403, SAME_CSI),
    ("GET", f"{CSI_NODES}/n2", None, {}, 403, SAME_CSI),
    ("GET", CSI_NODES, None, {}, 403, "can only get, create, update, patch, or delete a CSINode"),
    # Pods.
    ("GET", "/api/v1/pods", None, {}, 403, BY_NODE),
    ("GET", "/api/v1/pods", None, selected("spec.nodeName=n1"), 200, ""),
    ("GET", "/api/v1/pods", None, selected("spec.nodeName=n2"), 403, BY_NODE),
    ("GET", "/api/v1/pods", None, selected("spec.nodeName!=n1"), 403, BY_NODE),
    ("GET", PODS, None, selected("metadata.name=p-1"), 200, ""),
    ("PATCH", f"{PODS}/p-1/status", {"status": {"message": "m"}}, {}, 200, ""),
    (
        "PATCH",
        f"{PODS}/p-2/status",
        {"status": {"message": "m"}},
        {},
        403,
        'node "n1" can only update pod status for pods with spec.nodeName set to itself',
    ),
    (
        "PATCH",
        f"{PODS}/p-1/status",
        {"metadata": {"labels": {"a": "b"}}},
        {},
        403,
        'node "n1" cannot update labels through pod status',
    ),
    (
        "PATCH",
        f"{PODS}/p-1/status",
        {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "claim-2"}]}},
        {},
        403,
        'node "n1" cannot update resource claim statues',
    ),
    (
        "PATCH",
        f"{PODS}/p-1/status",
        {
            "status": {
                "extendedResourceClaimStatus": {
                    "resourceClaimName": "claim-2",
                    "requestMappings": [
                        {"containerName": "c", "requestName": "r", "resourceName": "example.com/a"}
                    ],
                }
            }
        },
        {},
        403,
        'node "n1" cannot update extended resource claim status',
    ),
    ("PATCH", f"{PODS}/p-1", {"metadata": {}}, {}, 403, 'cannot patch resource "pods"'),
    ("POST", f"{PODS}/p-1/binding", {}, {}, 403, 'cannot create resource "pods/binding"'),
    ("POST", PODS, pod("new", nodeName="n1"), {}, 403, "can only create mirror pods"),
    ("POST", PODS, mirror("new", nodeName="n2"), {}, 403, "with spec.nodeName set to itself"),
    ("POST", PODS, mirror("new", owners=[]), {}, 403, OWN),
    (
        "POST",
        PODS,
        mirror("new", owners=[{}, {"controller": False, "uid": "y"}]),
        {},
        403,
        "a single owner reference set to itself",
    ),
    ("POST", PODS, mirror("new", owners=[{"name": "n2"}]), {}, 403, OWN),
    ("POST", PODS, mirror("new", owners=[{"controller": False}]), {}, 403, f"controller {OWN[3:]}"),
    (
        "POST",
        PODS,
        mirror("new", owners=[{"blockOwnerDeletion": True}]),
        {},
        403,
        'node "n1" must not set blockOwnerDeletion on an owner reference',
    ),
    ("POST", PODS, mirror("new"), {}, 403, "node n1 UID mismatch: expected x got "),
    (
        "DELETE",
        f"{PODS}/p-2",
        None,
        {},
        403,
        'node "n1" can only delete pods with spec.nodeName set to itself',
    ),
    (
        "POST",
        f"{PODS}/p-2/eviction",
        eviction("p-2"),
        {},
        403,
        "node n1 can only evict pods with spec.nodeName set to itself",
    ),
    ("POST", f"{PODS}/p-1/eviction", eviction("p-1"), {"dryRun": "All"}, 201, ""),
    ("DELETE", f"{PODS}/none", None, {}, 404, "not found"),
    ("POST", f"{PODS}/none/eviction", eviction("none"), {}, 404, 'pod "none" not found'),
    # Slices.
    ("POST", SLICES, slice_of(name="new-1", nodeName="n1"), {}, 201, ""),
    (
        "POST",
        SLICES,
        slice_of(name="new-2", nodeName="n2"),
        {},
        403,
        "can only create ResourceSlice with the same NodeName as the requesting node",
    ),
    (
        "POST",
        SLICES,
        slice_of(name="new-3", without=["nodeName"], allNodes=True),
        {},
        403,
        "can only create ResourceSlice with the same NodeName as the requesting node",
    ),
    ("GET", SLICES, None, {}, 403, SLICES_BY_NODE),
    ("GET", SLICES, None, selected("spec.nodeName=n1"), 200, ""),
    ("DELETE", SLICES, None, selected("spec.nodeName=n2"), 403, SLICES_BY_NODE),
    ("GET", SLICES, None, selected("spec.nodeName=n1,spec.nodeName=n2"), 200, ""),
    ("GET", SLICES, None, selected("spec.nodeName=n2,metadata.name=slice-1"), 403, SLICES_BY_NODE),
    ("PATCH", f"{SLICES}/slice-1", {"spec": {"nodeName": "n2"}}, {}, 422, "field is immutable"),
    ("PATCH", f"{SLICES}/slice-1", {"metadata": {"labels": {"a": "b"}}}, {}, 200, ""),
    ("PATCH", f"{SLICES}/slice-2", {"metadata": {}}, {}, 403, UNRELATED),
    ("DELETE", f"{SLICES}/slice-2", None, {}, 403, UNRELATED),
    ("DELETE", SLICES, None, selected("spec.nodeName=n1"), 200, ""),
    # Everything else.
    ("GET", "/api/v1/services", None, {}, 200, ""),
    ("GET", f"{STORAGE}/csidrivers", None, {}, 200, ""),
    ("GET", "/apis/node.k8s.io/v1/runtimeclasses", None, {}, 200, ""),
    ("POST", EVENTS, event(), {}, 201, ""),
    ("GET", EVENTS, None, {}, 403, 'cannot list resource "events"'),
    ("GET", "/api/v1/namespaces", None, {}, 403, 'cannot list resource "namespaces"'),
    ("POST", CONFIGMAPS, configmap("new"), {}, 403, "can only read resources of this type"),
    ("GET", "/apis/apps/v1/deployments", None, {}, 403, 'cannot list resource "deployments"'),
    ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", None, {}, 403, "clusterroles"),
    # At last n1's pod goes, and with it the right to read what it refers to.
    ("DELETE", f"{PODS}/p-1", {"gracePeriodSeconds": 0}, {}, 200, ""),
    ("GET", f"{SECRETS}/env-1", None, {}, 403, UNRELATED),
    ("GET", f"{SECRETS}/mount-1", None, {}, 403, UNRELATED),
    ("GET", f"{VOLUMES}/v-1", None, {}, 403, UNRELATED),
]


def headers_of(method):
    """The content type of the body of a request, as the tables need it."""
    return MERGE if method == "PATCH" else {}
