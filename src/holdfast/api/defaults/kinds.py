"""Defaults by kind, and the one function that applies them.

Some fields are always present, even if they are empty, because clients generated from the API's
schema require them: the official Python client cannot decode a Node without ``nodeInfo`` or a
ReplicaSet without ``status.replicas``.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.defaults import devices, policies, workloads
from holdfast.api.defaults.pods import default_claim_spec, default_pod, default_source
from holdfast.api.defaults.raw_fields import (
    canonical_amounts,
    ensure_map,
    entries,
    if_present,
    set_defaults,
)
from holdfast.runtime.errors import BadRequest

_NODE_INFO = dict.fromkeys(
    (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
        "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem",
        "architecture",
    ),
    "",
)  # fmt: skip
_BALANCER: JsonObject = {"status": {"loadBalancer": {}}}
_EMPTY_STATUS: JsonObject = {"status": {}}

_REQUIRED: Mapping[tuple[str, str], JsonObject] = {
    ("", "Node"): {
        "spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NODE_INFO},
    },
    ("", "Service"): _BALANCER,
    ("", "ReplicationController"): {"status": {"replicas": 0}},
    ("", "ResourceQuota"): _EMPTY_STATUS,
    ("apps", "Deployment"): _EMPTY_STATUS,
    ("apps", "ReplicaSet"): {"status": {"replicas": 0}},
    ("apps", "StatefulSet"): {"status": {"replicas": 0, "availableReplicas": 0}},
    ("apps", "DaemonSet"): {
        "status": {
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
            "numberReady": 0,
        }
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {"status": {"desiredReplicas": 0}},
    ("batch", "Job"): _EMPTY_STATUS,
    ("batch", "CronJob"): {
        "spec": {"jobTemplate": {"metadata": {}, "spec": {"template": {"metadata": {}}}}},
        "status": {},
    },
    ("networking.k8s.io", "Ingress"): _BALANCER,
    ("policy", "PodDisruptionBudget"): {
        "status": {
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        }
    },
    ("resource.k8s.io", "DeviceClass"): {"spec": {}},
    ("resource.k8s.io", "DeviceTaintRule"): _EMPTY_STATUS,
    ("resource.k8s.io", "ResourceClaim"): _EMPTY_STATUS,
    ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": {"metadata": {}}},
}  # fmt: skip


def set_required_fields(raw: JsonObject, group: str, kind: str) -> None:
    """Set the fields of this kind that are always present, in place."""
    required = _REQUIRED.get((group, kind))
    if required is not None:
        _set_missing(raw, required)
    if (group, kind) == ("discovery.k8s.io", "EndpointSlice"):
        for endpoint in entries(raw, "endpoints"):
            ensure_map(endpoint, "conditions")


def _set_missing(where: JsonObject, required: Mapping[str, Any]) -> None:
    for key, value in required.items():
        if isinstance(value, dict):
            _set_missing(ensure_map(where, key), value)
        elif where.get(key) is None:
            where[key] = value


_FILESYSTEM = {"volumeMode": "Filesystem"}


def default_object(raw: JsonObject, now: str = "") -> None:
    """Set the defaults of the object's kind, in place.

    ``now`` (RFC 3339) becomes the ``timeAdded`` of device taints that have none. Kinds without
    defaults, such as custom resources, are not changed. An object that cannot be decoded raises
    upstream's decoding error.
    """
    group, _, version = raw.get("apiVersion", "").rpartition("/")
    kind = raw.get("kind", "")
    default = _BY_KIND.get((group, kind))
    try:
        if default is not None:
            default(raw)
        set_required_fields(raw, group, kind)
        if now and (group, kind) in _WITH_DEVICE_TAINTS:
            devices.stamp_taints(raw, now)
    except BadRequest as error:
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {error.message}'
        raise BadRequest(message) from error


def _node(raw: JsonObject) -> None:
    status = ensure_map(raw, "status")
    canonical_amounts(status, "capacity", "allocatable")
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])


def _namespace(raw: JsonObject) -> None:
    metadata = ensure_map(raw, "metadata")
    if metadata.get("name"):
        ensure_map(metadata, "labels")["kubernetes.io/metadata.name"] = metadata["name"]
    set_defaults(ensure_map(raw, "status"), phase="Active")


def _service(raw: JsonObject) -> None:
    spec = ensure_map(raw, "spec")
    set_defaults(spec, sessionAffinity="None", type="ClusterIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    else:
        set_defaults(
            ensure_map(ensure_map(spec, "sessionAffinityConfig"), "clientIP"), timeoutSeconds=10800
        )
    for port in entries(spec, "ports"):
        set_defaults(port, protocol="TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port")
    reachable = spec["type"] in ("NodePort", "LoadBalancer")
    if reachable or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        set_defaults(spec, externalTrafficPolicy="Cluster")
    if spec["type"] != "ExternalName":
        set_defaults(spec, internalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        set_defaults(spec, allocateLoadBalancerNodePorts=True)


def _volume(raw: JsonObject) -> None:
    spec = ensure_map(raw, "spec")
    set_defaults(spec, persistentVolumeReclaimPolicy="Retain", **_FILESYSTEM)
    canonical_amounts(spec, "capacity")
    default_source(spec)
    if_present(spec, "hostPath", lambda host: host.setdefault("type", ""))
    set_defaults(ensure_map(raw, "status"), phase="Pending")


def default_claim(raw: JsonObject) -> None:
    """Default a persistent volume claim."""
    default_claim_spec(ensure_map(raw, "spec"))
    status = ensure_map(raw, "status")
    set_defaults(status, phase="Pending")
    canonical_amounts(status, "capacity", "allocatedResources")


def _limit_range(raw: JsonObject) -> None:
    for item in entries(ensure_map(raw, "spec"), "limits"):
        names = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
        canonical_amounts(item, *names)
        if item.get("type") == "Container":
            most, least = item.get("max") or {}, item.get("min") or {}
            item["default"] = {**most, **(item.get("default") or {})}
            asked = item.get("defaultRequest") or {}
            item["defaultRequest"] = {**least, **item["default"], **asked}


def _quota(raw: JsonObject) -> None:
    canonical_amounts(ensure_map(raw, "spec"), "hard")
    if_present(raw, "status", lambda status: canonical_amounts(status, "hard", "used"))


def _endpoints(raw: JsonObject) -> None:
    for subset in entries(raw, "subsets"):
        for port in entries(subset, "ports"):
            set_defaults(port, protocol="TCP")


def _slice_ports(raw: JsonObject) -> None:
    for port in entries(raw, "ports"):
        set_defaults(port, name="", protocol="TCP")


def _storage_class(raw: JsonObject) -> None:
    set_defaults(raw, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _storage_driver(raw: JsonObject) -> None:
    spec = ensure_map(raw, "spec")
    set_defaults(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    )
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _secret(raw: JsonObject) -> None:
    set_defaults(raw, type="Opaque")
    if texts := raw.pop("stringData", None):
        coded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        raw["data"] = {**(raw.get("data") or {}), **coded}  # a patched object shares its old data


def _priority_class(raw: JsonObject) -> None:
    set_defaults(raw, value=0, preemptionPolicy="PreemptLowerPriority")


def _stateful_set(raw: JsonObject) -> None:
    workloads.default_stateful_set(raw)
    for claim in entries(raw["spec"], "volumeClaimTemplates"):
        set_defaults(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        default_claim(claim)


def _job(raw: JsonObject) -> None:
    workloads.default_job(raw)
    metadata = ensure_map(raw, "metadata")
    labels = (ensure_map(raw["spec"], "template").get("metadata") or {}).get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = copy.copy(labels)


_Default = Callable[[JsonObject], None]
_BY_KIND: dict[tuple[str, str], _Default] = {
    ("", "Pod"): default_pod,
    ("", "Node"): _node,
    ("", "Namespace"): _namespace,
    ("", "Service"): _service,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): default_claim,
    ("", "LimitRange"): _limit_range,
    ("", "ResourceQuota"): _quota,
    ("", "Endpoints"): _endpoints,
    ("", "Secret"): _secret,
    ("", "PodTemplate"): workloads.default_pod_template,
    ("", "ReplicationController"): workloads.default_replication_controller,
    ("apps", "Deployment"): workloads.default_deployment,
    ("apps", "ReplicaSet"): workloads.default_replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): workloads.default_daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): workloads.default_cron_job,
    ("autoscaling", "HorizontalPodAutoscaler"): workloads.default_autoscaler,
    ("discovery.k8s.io", "EndpointSlice"): _slice_ports,
    ("resource.k8s.io", "ResourceClaim"): devices.default_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): devices.default_claim_template,
    ("resource.k8s.io", "ResourceSlice"): devices.default_slice,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSIDriver"): _storage_driver,
    **policies.BY_KIND,
}
_WITH_DEVICE_TAINTS = {("resource.k8s.io", "ResourceSlice"), ("resource.k8s.io", "DeviceTaintRule")}
