"""Fields that are always written, even when they say nothing.

Clients generated from the API's schema insist on them: a Node without ``nodeInfo`` or a ReplicaSet
without ``status.replicas`` cannot be read by the official Python client at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.defaults.filling import Raw, entries, part

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

_SHAPES: Mapping[tuple[str, str], Raw] = {
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
    ("resource.k8s.io", "ResourceClaim"): _EMPTY_STATUS,
    ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": {"metadata": {}}},
}  # fmt: skip


def shape(raw: Raw, group: str, kind: str) -> None:
    """Write the fields that are always there, in place."""
    wanted = _SHAPES.get((group, kind))
    if wanted is not None:
        _complete(raw, wanted)
    if (group, kind) == ("discovery.k8s.io", "EndpointSlice"):
        for endpoint in entries(raw, "endpoints"):
            part(endpoint, "conditions")


def _complete(where: Raw, wanted: Mapping[str, Any]) -> None:
    for key, value in wanted.items():
        if isinstance(value, dict):
            _complete(part(where, key), value)
        elif where.get(key) is None:
            where[key] = value
