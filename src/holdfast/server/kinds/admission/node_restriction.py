"""NodeRestriction: a node may write only its own objects and the status of its own pods.

The rules and messages are upstream's. ``access.node_authorizer`` has already decided which requests
a node may make at all; here the content of the write is known.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.api.json_fields import map_at, maps_at, text_at
from holdfast.api.node_names import LEASE_NAMESPACE, NODE_USER
from holdfast.runtime.errors import Details, NotFound
from holdfast.server.access.node_references import (
    MIRROR_ANNOTATION,
    api_objects_needed,
    is_mirror,
)
from holdfast.server.added_groups import ADDED_GROUPS
from holdfast.server.descriptor import AdmissionPlugin
from holdfast.server.operation import Operation
from holdfast.server.store import ObjectKey

_KUBELET_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_RESTRICTED = "node-restriction.kubernetes.io"
_KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_REFERRING_ANNOTATIONS = [key for added in ADDED_GROUPS for key in added.nodes.annotations]
_VOLUME_STATUS = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")


def restrict_node_write(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Raise Forbidden for a write that the node may not make."""
    node = op.user.node_name
    if node is None:
        return
    if not node:
        raise op.forbidden(f'could not determine node from user "{op.user.name}"', new)
    resource = op.descriptor.group_resource
    check = _WRITES.get(resource)
    if check is not None and (reason := check(op, node, new, old)):
        raise op.forbidden(reason, new)
    for added in ADDED_GROUPS:
        own = added.nodes.objects.get(resource)
        if own is not None and (reason := own.wrong(node, new)):
            raise op.forbidden(reason, new)


def restrict_node_deletion(op: Operation, old: JsonObject) -> None:
    """Raise Forbidden for a deletion or eviction that the node may not make."""
    node = op.user.node_name
    if node is None:
        return
    reason, of_node = "", text_at(map_at(old, "spec"), "nodeName") == node
    match op.descriptor.group_resource:
        case ("", "pods") if not of_node and op.request_info.subresource == "eviction":
            reason = f"node {node} can only evict pods with spec.nodeName set to itself"
        case ("", "pods") if not of_node:
            reason = f'node "{node}" can only delete pods with spec.nodeName set to itself'
        case ("resource.k8s.io", "resourceslices") if not of_node:
            reason = "can only delete ResourceSlice with the same NodeName as the requesting node"
        case ("coordination.k8s.io", "leases"):
            reason = _check_lease(op, node, old, old)
        case (
            ("storage.k8s.io", "csinodes")
            | ("scheduling.koordinator.sh", "devices")
            | ("topology.node.k8s.io", "noderesourcetopologies")
        ):
            reason = _check_own_object(op, node, old, old)
        case ("", "nodes"):
            reason = _other_node(node, old)
    if reason:
        raise op.forbidden(reason, old)


def _check_pod(op: Operation, node: str, new: JsonObject, old: JsonObject | None) -> str:
    if op.request_info.subresource == "status" and old is not None:
        return _check_pod_status(node, new, old)
    if old is not None:
        return (
            f'unexpected operation "UPDATE", node "{node}" can only create and delete mirror pods'
        )
    if not is_mirror(new):
        return (
            f'pod does not have "{MIRROR_ANNOTATION}" annotation, node "{node}" can only create '
            "mirror pods"
        )
    if text_at(map_at(new, "spec"), "nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    if problem := _check_owner(op, node, maps_at(new["metadata"], "ownerReferences")):
        return problem
    needed = api_objects_needed(new)
    return f'node "{node}" can not create pods that reference {needed}' if needed else ""


def _check_owner(op: Operation, node: str, owners: Any) -> str:
    can_only = f'node "{node}" can only create pods with'
    if len(owners) > 1:
        return f"{can_only} a single owner reference set to itself"
    owner = owners[0] if owners else {}
    if tuple(owner.get(part) for part in ("apiVersion", "kind", "name")) != ("v1", "Node", node):
        return f"{can_only} an owner reference set to itself"
    if not owner.get("controller"):
        return f"{can_only} a controller owner reference set to itself"
    if owner.get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    key = ObjectKey("", "nodes", "", node)
    stored = op.context.store.latest(key)
    if stored is None:
        raise NotFound(f'node "{node}" not found', Details(name=node, kind="node"))
    if owner.get("uid") != stored.uid:
        return f"node {node} UID mismatch: expected {owner.get('uid')} got {stored.uid}"
    return ""


def _check_pod_status(node: str, new: JsonObject, old: JsonObject) -> str:
    if text_at(map_at(old, "spec"), "nodeName") != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
    if map_at(new["metadata"], "labels") != map_at(old["metadata"], "labels"):
        return f'node "{node}" cannot update labels through pod status'
    notes, stored = (map_at(pod["metadata"], "annotations") for pod in (new, old))
    for key in _REFERRING_ANNOTATIONS:
        if _differ(notes, stored, key):
            return f'node "{node}" cannot update the annotation {key}'  # it could read claims
    status, before = map_at(new, "status"), map_at(old, "status")
    if _claim_statuses(status) != _claim_statuses(before):
        return f'node "{node}" cannot update resource claim statues'
    if _differ(status, before, "extendedResourceClaimStatus"):
        return f'node "{node}" cannot update extended resource claim status'
    return ""


def _claim_statuses(status: JsonMapping) -> list[tuple[Any, Any]]:
    return [
        (entry.get("name"), entry.get("resourceClaimName"))
        for entry in maps_at(status, "resourceClaimStatuses")
    ]


def _differ(new: JsonMapping, old: JsonMapping, part: str) -> bool:
    return (new.get(part) or None) != (old.get(part) or None)


def _other_node(node: str, obj: JsonObject) -> str:
    name = obj["metadata"].get("name", "")
    return "" if name == node else f'node "{node}" is not allowed to modify node "{name}"'


def _check_node(op: Operation, node: str, new: JsonObject, old: JsonObject | None) -> str:
    if other := _other_node(node, new):
        return other
    spec, source = map_at(new, "spec"), map_at(new, "spec").get("configSource")
    if old is None:
        if source is not None:
            return f'node "{node}" is not allowed to create pods with a non-nil configSource'
        labels = ", ".join(_restricted_labels(map_at(new["metadata"], "labels"), {}))
        return (
            f'node "{node}" is not allowed to set the following labels: {labels}' if labels else ""
        )
    if source is not None and source != map_at(old, "spec").get("configSource"):
        return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
    if _differ(spec, map_at(old, "spec"), "taints"):
        return f'node "{node}" is not allowed to modify taints'
    if _differ(new["metadata"], old["metadata"], "ownerReferences"):
        return f'node "{node}" is not allowed to modify ownerReferences'
    before = map_at(old["metadata"], "labels")
    labels = ", ".join(_restricted_labels(map_at(new["metadata"], "labels"), before))
    return f"is not allowed to modify labels: {labels}" if labels else ""


def _restricted_labels(new: JsonMapping, old: JsonMapping) -> list[str]:
    """Return the changed labels that a node may not change.

    >>> _restricted_labels({"kubernetes.io/os": "linux", "x": "1", "a.k8s.io/b": "2"}, {})
    ['a.k8s.io/b']
    """
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    return sorted(key for key in changed if _is_restricted(key))


def _is_restricted(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    if not slash or not _within(domain, _KUBERNETES_DOMAINS):
        return False
    if _within(domain, (_RESTRICTED,)):
        return True
    return key not in _KUBELET_LABELS and not _within(domain, _KUBELET_DOMAINS)


def _within(domain: str, domains: Iterable[str]) -> bool:
    return any(domain == one or domain.endswith(f".{one}") for one in domains)


def _check_lease(op: Operation, node: str, new: JsonObject, old: JsonObject | None) -> str:
    if op.request_info.namespace != LEASE_NAMESPACE:
        return f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
    if new["metadata"].get("name") != node:
        return "can only access node lease with the same name as the requesting node"
    return ""


def _check_own_object(op: Operation, node: str, new: JsonObject, old: JsonObject | None) -> str:
    if new["metadata"].get("name") != node:
        kind = op.descriptor.resource.kind
        return f"can only access {kind} with the same name as the requesting node"
    return ""


def _check_slice(op: Operation, node: str, new: JsonObject, old: JsonObject | None) -> str:
    if old is None and map_at(new, "spec").get("nodeName") != node:
        return "can only create ResourceSlice with the same NodeName as the requesting node"
    return ""


def _check_volume_claim(op: Operation, node: str, new: JsonObject, old: JsonObject | None) -> str:
    if op.request_info.subresource != "status" or old is None:
        return "may only update PVC status"
    if _without_status(new) != _without_status(old):
        return (
            f'node "{node}" is not allowed to update fields other than status.quantity and '
            "status.conditions"
        )
    return ""


def _without_status(claim: JsonObject) -> JsonObject:
    """Return a claim without the fields that a node may change."""
    meta = {k: v for k, v in claim["metadata"].items() if k != "resourceVersion"}
    status = {k: v for k, v in map_at(claim, "status").items() if k not in _VOLUME_STATUS}
    return {**claim, "metadata": meta, "status": status}


def _check_signing_request(
    op: Operation, node: str, new: JsonObject, old: JsonObject | None
) -> str:
    spec = map_at(new, "spec")
    if old is not None or spec.get("signerName") not in _KUBELET_SIGNERS:
        return ""
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(text_at(spec, "request"), validate=True))
        names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (ValueError, binascii.Error):
        return "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
    user = NODE_USER + node
    if [name.value for name in names] != [user]:
        return f"can only create a node CSR with CN={user}"
    return ""


_WRITES: dict[tuple[str, str], Callable[[Operation, str, JsonObject, JsonObject | None], str]] = {
    ("", "pods"): _check_pod,
    ("", "nodes"): _check_node,
    ("", "persistentvolumeclaims"): _check_volume_claim,
    ("coordination.k8s.io", "leases"): _check_lease,
    ("storage.k8s.io", "csinodes"): _check_own_object,
    ("resource.k8s.io", "resourceslices"): _check_slice,
    ("topology.node.k8s.io", "noderesourcetopologies"): _check_own_object,
    ("scheduling.koordinator.sh", "devices"): _check_own_object,
    ("certificates.k8s.io", "certificatesigningrequests"): _check_signing_request,
}
"""Return why a node may not write an object of a resource, or ""."""
NODE_RESTRICTION = AdmissionPlugin(mutate=restrict_node_write, delete=restrict_node_deletion)
