"""Fields that are always present, even if they are empty.

Clients generated from the API's schema require them: the official Python client cannot decode a
Node without ``nodeInfo`` or a ReplicaSet without ``status.replicas``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.defaults.raw_fields import Raw, ensure_map, entries

_NODE_INFO = dict.fromkeys(
    (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
        "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem",
        "architecture",
    ),
    "",
)  # fmt: skip
_BALANCER: Raw = {"status": {"loadBalancer": {}}}
_EMPTY_STATUS: Raw = {"status": {}}

_REQUIRED: Mapping[tuple[str, str], Raw] = {
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


def set_required_fields(raw: Raw, group: str, kind: str) -> None:
    """Set the fields of this kind that are always present, in place."""
    required = _REQUIRED.get((group, kind))
    if required is not None:
        _set_missing(raw, required)
    if (group, kind) == ("discovery.k8s.io", "EndpointSlice"):
        for endpoint in entries(raw, "endpoints"):
            ensure_map(endpoint, "conditions")


def _set_missing(where: Raw, required: Mapping[str, Any]) -> None:
    for key, value in required.items():
        if isinstance(value, dict):
            _set_missing(ensure_map(where, key), value)
        elif where.get(key) is None:
            where[key] = value
