"""Every resource with a Python type; ``server.kinds`` lists all resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.api.classic_dra.forms import with_typed_claims
from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP
from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.decode import JsonObject
from holdfast.api.device_versions import V1BETA1
from holdfast.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from holdfast.api.json_fields import text_at
from holdfast.api.node import Lease, Node
from holdfast.api.node_resource_topology import NodeResourceTopology
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.reservation import Reservation
from holdfast.api.resource import VERBS, Resource
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.api.resource_quota import ResourceQuota
from holdfast.api.shared_device import SharedDevices
from holdfast.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from holdfast.api.workloads import (
    Deployment,
    Event,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

_POD_PARTS = (
    "attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward",
    "proxy", "resize", "status",
)  # fmt: skip

PODS = Resource(
    "", "v1", "pods", "Pod", Pod, short_names=("po",), categories=("all",), subresources=_POD_PARTS
)
NODES = Resource(
    "", "v1", "nodes", "Node", Node, namespaced=False, short_names=("no",),
    subresources=("proxy", "status"),
)  # fmt: skip
NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", Namespace, namespaced=False, short_names=("ns",),
    subresources=("finalize", "status"), verbs=tuple(v for v in VERBS if v != "deletecollection"),
)  # fmt: skip
EVENTS = Resource("", "v1", "events", "Event", Event, short_names=("ev",))
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)
REPLICASETS = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", ReplicaSet, short_names=("rs",),
    categories=("all",), subresources=("scale", "status"),
)  # fmt: skip
DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "Deployment", Deployment, short_names=("deploy",),
    categories=("all",), subresources=("scale", "status"),
)  # fmt: skip
STATEFULSETS = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", StatefulSet, short_names=("sts",),
    categories=("all",), subresources=("scale", "status"),
)  # fmt: skip
REPLICATION_CONTROLLERS = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", ReplicationController,
    short_names=("rc",), categories=("all",), subresources=("scale", "status"),
)  # fmt: skip
SERVICES = Resource(
    "", "v1", "services", "Service", Service, short_names=("svc",), categories=("all",),
    subresources=("proxy", "status"),
)  # fmt: skip
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", PriorityClass,
    namespaced=False, short_names=("pc",),
)  # fmt: skip
DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget,
    short_names=("pdb",), subresources=("status",),
)  # fmt: skip
DEVICE_CLASSES = Resource(
    "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False
)
RESOURCE_SLICES = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", ResourceSlice, namespaced=False
)
RESOURCE_CLAIMS = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", ResourceClaim,
    subresources=("status",),
)  # fmt: skip
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate",
    ResourceClaimTemplate,
)  # fmt: skip
DEVICE_TAINT_RULES = Resource(
    "resource.k8s.io",
    "v1beta2",
    "devicetaintrules",
    "DeviceTaintRule",
    DeviceTaintRule,
    namespaced=False,
    subresources=("status",),
)
TAINT_RULE_VERSIONS: tuple[Resource[DeviceTaintRule], ...] = (
    replace(DEVICE_TAINT_RULES, version="v1"), DEVICE_TAINT_RULES,
)  # fmt: skip
"""DeviceTaintRules as Kubernetes 1.37 and 1.36 serve them; they differ in ``apiVersion`` only."""
PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False,
    short_names=("pv",), subresources=("status",),
)  # fmt: skip
PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim,
    short_names=("pvc",), subresources=("status",),
)  # fmt: skip
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", StorageClass, namespaced=False,
    short_names=("sc",),
)  # fmt: skip
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", CSINode, namespaced=False)
CSI_DRIVERS = Resource(
    "storage.k8s.io", "v1", "csidrivers", "CSIDriver", CSIDriver, namespaced=False
)
CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", CSIStorageCapacity
)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", VolumeAttachment,
    namespaced=False, subresources=("status",),
)  # fmt: skip
RESOURCE_QUOTAS = Resource(
    "", "v1", "resourcequotas", "ResourceQuota", ResourceQuota, short_names=("quota",),
    subresources=("status",),
)  # fmt: skip
# Custom resources: the API server loads their definitions from deploy/crds.
RESERVATIONS = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "reservations", "Reservation", Reservation,
    namespaced=False, subresources=("status",),
)  # fmt: skip
RESOURCE_POLICIES = Resource(
    "scheduling.sigs.x-k8s.io", "v1alpha1", "resourcepolicies", "ResourcePolicy", ResourcePolicy,
    short_names=("rsp",), subresources=("status",),
)  # fmt: skip
NODE_RESOURCE_TOPOLOGIES = Resource(
    "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "NodeResourceTopology",
    NodeResourceTopology, namespaced=False, short_names=("node-res-topo", "nrt"),
)  # fmt: skip
SHARED_DEVICES = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "devices", "Device", SharedDevices, namespaced=False,
)  # fmt: skip
POD_MIGRATION_JOBS = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "podmigrationjobs", "PodMigrationJob",
    PodMigrationJob, namespaced=False, short_names=("pmj",), subresources=("status",),
)  # fmt: skip

TYPED: tuple[Resource[Any], ...] = (
    *(each for each in tuple(globals().values()) if isinstance(each, Resource)),
    *(each for group in (KEP_GROUP, OWN_GROUP) for each in classic_resources(group).all),
)
"""All of them, those of classic DRA included, which are served in one of two groups."""


def in_stored_form(raw: JsonObject) -> JsonObject:
    """Return an object in the version and the form in which an API server stores it.

    Claims of a pod may have the forms of classic DRA's KEP; ``resource.k8s.io/v1beta1`` becomes v1.
    """
    version, kind = text_at(raw, "apiVersion"), text_at(raw, "kind")
    if (version, kind) == ("v1", "Pod") and isinstance(raw.get("spec"), dict):
        return {**raw, "spec": with_typed_claims(raw["spec"])}
    if version == "resource.k8s.io/v1beta1" and kind in V1BETA1:
        return V1BETA1[kind][0](raw)
    return raw
