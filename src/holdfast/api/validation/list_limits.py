"""Limit the entries of the lists and maps of an object.

Where Kubernetes has a limit, this is Kubernetes' limit; elsewhere it is far above what is used in
practice, and low enough that one object cannot block the API server or the scheduler for long.
Paths are field paths; ``[]`` means every entry of a list. A path that ends in ``{}`` limits the
requirements of all selectors below it together. The API server checks the objects of clients; the
scheduler checks again, because other API servers have no such limits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from holdfast.api import field_errors
from holdfast.api.validation.counting import Tree, find_excess, tree_of
from holdfast.runtime.errors import Cause

Table = Mapping[str, int]


def _under(prefix: str, table: Table) -> dict[str, int]:
    return {f"{prefix}.{path}": most for path, most in table.items()}


MOST_RESOURCES = 512
"""The number of resources a pod may request in all: the scheduler has a column for each."""
METADATA: Table = {
    "metadata.labels": 4096,
    "metadata.annotations": 16384,
    "metadata.ownerReferences": 1024,
    "metadata.finalizers": 1024,
}
SELECTOR: Table = {
    "matchLabels": 256,
    "matchExpressions": 256,
    "matchExpressions[].values": 8192,
}
_NODE_TERM: Table = {
    "matchExpressions": 128,
    "matchExpressions[].values": 8192,
    "matchFields": 128,
    "matchFields[].values": 8192,
}
_POD_TERM: Table = {
    **_under("labelSelector", SELECTOR),
    **_under("namespaceSelector", SELECTOR),
    "namespaces": 4096,
    "matchLabelKeys": 64,
    "mismatchLabelKeys": 64,
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POD_AFFINITY: Table = {
    _REQUIRED: 64,
    **_under(f"{_REQUIRED}[]", _POD_TERM),
    _PREFERRED: 64,
    **_under(f"{_PREFERRED}[].podAffinityTerm", _POD_TERM),
}
_NODE_SELECTOR: Table = {
    "nodeSelectorTerms": 128,
    **_under("nodeSelectorTerms[]", _NODE_TERM),
}
_CONTAINER: Table = {
    "ports": 4096,
    "env": 4096,
    "envFrom": 512,
    "volumeMounts": 1024,
    "volumeDevices": 1024,
    "resources.requests": 256,
    "resources.limits": 256,
    "resources.claims": 256,
    "restartPolicyRules": 20,
}
POD_SPEC: Table = {
    "containers": 512,
    **_under("containers[]", _CONTAINER),
    "initContainers": 512,
    **_under("initContainers[]", _CONTAINER),
    "ephemeralContainers": 512,
    **_under("ephemeralContainers[]", _CONTAINER),
    "resources.requests": 256,
    "resources.limits": 256,
    "overhead": 256,
    "volumes": 1024,
    "tolerations": 512,
    "nodeSelector": 128,
    **_under(f"affinity.nodeAffinity.{_REQUIRED}", _NODE_SELECTOR),
    f"affinity.nodeAffinity.{_PREFERRED}": 128,
    **_under(f"affinity.nodeAffinity.{_PREFERRED}[].preference", _NODE_TERM),
    **_under("affinity.podAffinity", _POD_AFFINITY),
    **_under("affinity.podAntiAffinity", _POD_AFFINITY),
    "affinity.nodeAffinity{}": 4096,
    "affinity.podAffinity{}": 256,
    "affinity.podAntiAffinity{}": 256,
    "topologySpreadConstraints": 128,
    "topologySpreadConstraints{}": 256,
    **_under("topologySpreadConstraints[].labelSelector", SELECTOR),
    "topologySpreadConstraints[].matchLabelKeys": 64,
    "schedulingGates": 256,
    "readinessGates": 256,
    "resourceClaims": 256,
    "imagePullSecrets": 512,
    "hostAliases": 4096,
}
POD: Table = {**METADATA, **_under("spec", POD_SPEC)}
TEMPLATE: Table = POD
NODE: Table = {
    **METADATA,
    "spec.taints": 512,
    "spec.podCIDRs": 2,
    "status.capacity": 512,
    "status.allocatable": 512,
    "status.images": 4096,
    "status.images[].names": 256,
    "status.conditions": 1024,
    "status.addresses": 1024,
    "status.volumesInUse": 4096,
    "status.volumesAttached": 4096,
    "status.declaredFeatures": 1024,
}
RESERVATION: Table = {
    **METADATA,
    "spec.owners": 256,
    **_under("spec.owners[].labelSelector", SELECTOR),
    "spec.taints": 512,
    **_under("spec.template", TEMPLATE),
    "status.allocatable": 512,
}
RESOURCE_POLICY: Table = {
    **METADATA,
    **_under("spec.podSelector", SELECTOR),
    "spec.matchLabelKeys": 64,
    "spec.units": 32,
    "spec.units[].maxResources": 256,
    "spec.units[].podLabels": 256,
    "spec.units[].podAnnotations": 256,
    **_under("spec.units[].nodeSelector", SELECTOR),
}
WORKLOAD: Table = {
    **METADATA,
    **_under("spec.selector", SELECTOR),
    **_under("spec.template", TEMPLATE),
}
_DEVICE_TOLERATIONS: Table = {
    "devices.requests[].exactly.tolerations": 512,
    "devices.requests[].firstAvailable[].tolerations": 512,
}
RESOURCE_SLICE: Table = {
    **METADATA,
    **_under("spec.nodeSelector", _NODE_SELECTOR),
    **_under("spec.devices[].nodeSelector", _NODE_SELECTOR),
}
POD_TEMPLATE: Table = {**METADATA, **_under("template", TEMPLATE)}
REPLICATION_CONTROLLER: Table = {
    **METADATA,
    "spec.selector": 256,
    **_under("spec.template", TEMPLATE),
}
SERVICE: Table = {**METADATA, "spec.selector": 256, "spec.ports": 4096}
RESOURCE_QUOTA: Table = {
    **METADATA,
    "spec.hard": 1024,
    "spec.scopes": 64,
    "spec.scopeSelector.matchExpressions": 64,
    "spec.scopeSelector.matchExpressions[].values": 1024,
    "status.hard": 1024,
    "status.used": 1024,
}
PERSISTENT_VOLUME: Table = {**METADATA, **_under("spec.nodeAffinity.required", _NODE_SELECTOR)}
CRON_JOB: Table = {**METADATA, **_under("spec.jobTemplate", WORKLOAD)}
DISRUPTION_BUDGET: Table = {**METADATA, **_under("spec.selector", SELECTOR)}
ENDPOINT_SLICE: Table = {
    **METADATA,
    "endpoints": 1000,
    "endpoints[].addresses": 100,
    "ports": 20000,
}
CSI_NODE: Table = {**METADATA, "spec.drivers": 1024}
RESOURCE_CLAIM: Table = {
    **METADATA,
    **_under("spec", _DEVICE_TOLERATIONS),
    "status.devices": 512,
    **_under("status.allocation.nodeSelector", _NODE_SELECTOR),
}
RESOURCE_CLAIM_TEMPLATE: Table = {**METADATA, **_under("spec.spec", _DEVICE_TOLERATIONS)}

ANY_TREE = tree_of(METADATA)
POD_SPEC_TREE, NODE_TREE = tree_of(_under("spec", POD_SPEC)), tree_of(NODE)
RESERVATION_TREE, RESOURCE_POLICY_TREE = tree_of(RESERVATION), tree_of(RESOURCE_POLICY)


def check_lists(
    tree: Tree, new: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> Iterator[Cause]:
    """Yield a cause for each list or map of a JSON object that has too many entries.

    A list that had as many entries before is accepted, so that an object older than the limit can
    still be changed and deleted.
    """
    excesses = list(find_excess(tree, new))
    if not excesses:
        return
    before = {path: count for path, count, _ in find_excess(tree, old)} if old else {}
    for path, count, most in excesses:
        if count > before.get(path, 0):
            yield field_errors.too_many(path, count, most)


def resource_excess(names: Collection[str]) -> str:
    """Return the error if a pod requests too many resources in all, or ""."""
    if len(names) <= MOST_RESOURCES:
        return ""
    path = "spec.containers[*].resources.requests"
    return str(field_errors.too_many(path, len(names), MOST_RESOURCES))


def first_excess(tree: Tree, obj: Any) -> str:
    """Return the error for the first list of a typed object that is too long, or ""."""
    for path, count, most in find_excess(tree, obj):
        return str(field_errors.too_many(path, count, most))
    return ""
