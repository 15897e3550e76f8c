"""Quotas and writes that are sent to the embedded and to the real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Raw = dict[str, Any]
PODS, CLAIMS = "/api/v1/namespaces/{}/pods", "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
SERVICES, CONFIG_MAPS = "/api/v1/namespaces/{}/services", "/api/v1/namespaces/{}/configmaps"
VOLUME_CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"


def quota(hard: Raw, **spec: Any) -> Raw:
    """Return a ResourceQuota named ``q``."""
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
    }  # fmt: skip


def selected(scope: str, operator: str, *values: str) -> Raw:
    """Return a scope selector with one requirement."""
    requirement: Raw = {"scopeName": scope, "operator": operator}
    if values:
        requirement["values"] = list(values)
    return {"matchExpressions": [requirement]}


def container(name: str = "c", requests: Raw | None = None, limits: Raw | None = None) -> Raw:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"name": name, "image": "nginx", "resources": resources}


def pod(*containers: Raw, **spec: Any) -> Raw:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": list(containers) or [container()], **spec},
    }  # fmt: skip


def asking(**requests: str) -> Raw:
    """Return a pod that requests cpu, memory and so on."""
    return pod(container(requests={k.replace("_", "-"): v for k, v in requests.items()}))


def service(type_: str, ports: int = 1, **spec: Any) -> Raw:
    listed = [{"name": f"p{i}", "port": 80 + i} for i in range(ports)]
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": type_, "ports": listed, **spec},
    }  # fmt: skip


def volume_claim(size: str, storage_class: str = "", **spec: Any) -> Raw:
    if storage_class:
        spec["storageClassName"] = storage_class
    resources = {"requests": {"storage": size}}
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }  # fmt: skip


def claim(*requests: Raw) -> Raw:
    named = [{"name": f"r{i}", **request} for i, request in enumerate(requests)]
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
        "spec": {"devices": {"requests": named}},
    }  # fmt: skip


def exactly(device_class: str, count: int = 1) -> Raw:
    return {"exactly": {"deviceClassName": device_class, "count": count}}


def everything(device_class: str) -> Raw:
    return {"exactly": {"deviceClassName": device_class, "allocationMode": "All"}}


def first_of(*alternatives: tuple[str, int]) -> Raw:
    return {
        "firstAvailable": [
            {"name": f"a{i}", "deviceClassName": name, "count": count}
            for i, (name, count) in enumerate(alternatives)
        ]
    }


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}},
    },
}  # fmt: skip
SECOND = {"name": "second", "image": "nginx"}
_OTHER_NAMESPACE = {"topologyKey": "zone", "namespaces": ["other"], "labelSelector": {}}
AFFINE = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_OTHER_NAMESPACE]}}
GPU = "gpu.deviceclass.resource.k8s.io/devices"
IMPLICIT = "requests.deviceclass.resource.kubernetes.io/gpu"
INIT = [container("init", {"cpu": "3"}), container("short", {"cpu": "1"})]
SIDECAR = [{**container("side", {"cpu": "1"}), "restartPolicy": "Always"}]

WRITES: dict[str, tuple[Raw, Raw, str, Raw]] = {
    # name: (quota, used, path, object)
    "pods fit": (quota({"pods": "2"}), {"pods": "1"}, PODS, pod()),
    "pods exceed": (quota({"pods": "2"}), {"pods": "2"}, PODS, pod()),
    "no pod at all": (quota({"pods": "0"}), {"pods": "0"}, PODS, pod()),
    "count of pods": (quota({"count/pods": "1"}), {"count/pods": "1"}, PODS, pod()),
    "status unknown": (quota({"pods": "2", "count/pods": "3"}), {}, PODS, pod()),
    "requests fit": (quota({"requests.cpu": "2"}), {"requests.cpu": "1"}, PODS, asking(cpu="1")),
    "requests exceed": (
        quota({"requests.cpu": "2", "cpu": "5"}), {"requests.cpu": "1500m", "cpu": "1500m"},
        PODS, asking(cpu="600m"),
    ),
    "memory in its own suffixes": (
        quota({"memory": "1Gi", "pods": "9"}), {"memory": "1000Mi", "pods": "0"},
        PODS, asking(memory="100Mi"),
    ),
    "memory fits": (
        quota({"memory": "1Gi", "limits.memory": "2G"}), {"memory": "0", "limits.memory": "0"},
        PODS, pod(container(requests={"memory": "100Mi"}, limits={"memory": "1G"})),
    ),
    "memory twice": (
        quota({"requests.memory": "150Mi"}), {"requests.memory": "0"},
        PODS, pod(container(requests={"memory": "100Mi"}),
                  container("d", requests={"memory": "100M"})),
    ),
    "limits must be stated": (
        quota({"limits.cpu": "2", "limits.memory": "1Gi"}),
        {"limits.cpu": "0", "limits.memory": "0"},
        PODS, pod(container(requests={"cpu": "1"}), SECOND),
    ),
    "cpu must be stated": (
        quota({"cpu": "2", "requests.cpu": "2"}), {"cpu": "0", "requests.cpu": "0"},
        PODS, pod(container("b", {"memory": "1"}), container("a", {"memory": "1"}),
                  initContainers=[container("init")]),
    ),
    "ephemeral storage need not be stated": (
        quota({"requests.ephemeral-storage": "1"}), {"requests.ephemeral-storage": "0"},
        PODS, pod(),
    ),
    "ephemeral storage": (
        quota({"ephemeral-storage": "1Gi", "limits.ephemeral-storage": "2Gi"}),
        {"ephemeral-storage": "1Gi", "limits.ephemeral-storage": "1Gi"},
        PODS, pod(container(requests={"ephemeral-storage": "1Mi"},
                            limits={"ephemeral-storage": "1Mi"})),
    ),
    "pod-level resources": (
        quota({"requests.cpu": "1"}), {"requests.cpu": "0"},
        PODS, pod(container(), resources={"requests": {"cpu": "2"}}),
    ),
    "init containers": (
        quota({"requests.cpu": "2"}), {"requests.cpu": "0"},
        PODS, pod(container(requests={"cpu": "1"}), initContainers=INIT),
    ),
    "a sidecar": (
        quota({"requests.cpu": "1"}), {"requests.cpu": "0"},
        PODS, pod(container(requests={"cpu": "1"}), initContainers=SIDECAR),
    ),
    "huge pages": (
        quota({"hugepages-2Mi": "2Mi", "requests.hugepages-2Mi": "8Mi"}),
        {"hugepages-2Mi": "0", "requests.hugepages-2Mi": "0"},
        PODS, pod(container(requests={"hugepages-2Mi": "4Mi", "memory": "1Mi", "cpu": "1"},
                            limits={"hugepages-2Mi": "4Mi", "memory": "1Mi", "cpu": "1"})),
    ),
    "an extended resource": (
        quota({"requests.example.com/gpu": "1"}), {"requests.example.com/gpu": "1"},
        PODS, pod(container(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "1"})),
    ),
    "an implicit extended resource": (
        quota({IMPLICIT: "1"}), {IMPLICIT: "0"},
        PODS, pod(container(requests={IMPLICIT.removeprefix("requests."): "2"},
                            limits={IMPLICIT.removeprefix("requests."): "2"})),
    ),
    "best effort": (quota({"pods": "0"}, scopes=["BestEffort"]), {"pods": "0"}, PODS, pod()),
    "not best effort is another scope": (
        quota({"pods": "0"}, scopes=["BestEffort"]), {"pods": "0"}, PODS, asking(cpu="1"),
    ),
    "not best effort": (
        quota({"pods": "0"}, scopes=["NotBestEffort"]), {"pods": "0"}, PODS, asking(cpu="1"),
    ),
    "best effort with storage": (
        quota({"pods": "0"}, scopes=["BestEffort"]), {"pods": "0"},
        PODS, asking(ephemeral_storage="1"),
    ),
    "terminating": (
        quota({"pods": "0"}, scopes=["Terminating"]), {"pods": "0"},
        PODS, pod(activeDeadlineSeconds=5),
    ),
    "not terminating": (
        quota({"pods": "0"}, scopes=["NotTerminating"]), {"pods": "0"},
        PODS, pod(activeDeadlineSeconds=5),
    ),
    "two scopes, one does not match": (
        quota({"pods": "0"}, scopes=["NotTerminating", "NotBestEffort"]), {"pods": "0"},
        PODS, pod(),
    ),
    "a priority class": (
        quota({"pods": "0"}, scopeSelector=selected("PriorityClass", "In", "high")),
        {"pods": "0"}, PODS, pod(priorityClassName="system-node-critical"),
    ),
    "a priority class that matches": (
        quota({"pods": "0"},
              scopeSelector=selected("PriorityClass", "In", "system-node-critical")),
        {"pods": "0"}, PODS, pod(priorityClassName="system-node-critical"),
    ),
    "no priority class": (
        quota({"pods": "0"}, scopeSelector=selected("PriorityClass", "NotIn", "high")),
        {"pods": "0"}, PODS, pod(),
    ),
    "any priority class": (
        quota({"pods": "0"}, scopeSelector=selected("PriorityClass", "Exists")),
        {"pods": "0"}, PODS, pod(),
    ),
    "no priority class is wanted": (
        quota({"pods": "0"}, scopeSelector=selected("PriorityClass", "DoesNotExist")),
        {"pods": "0"}, PODS, pod(),
    ),
    "affinity to other namespaces": (
        quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"]), {"pods": "0"},
        PODS, pod(affinity=AFFINE),
    ),
    "no affinity to other namespaces": (
        quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"]), {"pods": "0"}, PODS, pod(),
    ),
    "a config map": (
        quota({"configmaps": "1", "count/configmaps": "1"}),
        {"configmaps": "1", "count/configmaps": "1"}, CONFIG_MAPS, CONFIG_MAP,
    ),
    "a config map in a quota of pods": (
        quota({"pods": "0"}, scopes=["NotTerminating"]), {"pods": "0"}, CONFIG_MAPS, CONFIG_MAP,
    ),
    "a deployment": (
        quota({"count/deployments.apps": "1"}), {"count/deployments.apps": "1"},
        DEPLOYMENTS, DEPLOYMENT,
    ),
    "a service": (
        quota({"services": "1"}), {"services": "1"}, SERVICES, service("ClusterIP"),
    ),
    "node ports": (
        quota({"services.nodeports": "1"}), {"services.nodeports": "0"},
        SERVICES, service("NodePort", 2),
    ),
    "no node ports": (
        quota({"services.nodeports": "0"}), {"services.nodeports": "0"},
        SERVICES, service("ClusterIP", 2),
    ),
    "a load balancer": (
        quota({"services.loadbalancers": "0", "services.nodeports": "0"}),
        {"services.loadbalancers": "0", "services.nodeports": "0"},
        SERVICES, service("LoadBalancer"),
    ),
    "a load balancer without node ports": (
        quota({"services.loadbalancers": "1", "services.nodeports": "0"}),
        {"services.loadbalancers": "0", "services.nodeports": "0"},
        SERVICES, service("LoadBalancer", allocateLoadBalancerNodePorts=False),
    ),
    "storage": (
        quota({"requests.storage": "10Gi", "persistentvolumeclaims": "5"}),
        {"requests.storage": "8Gi", "persistentvolumeclaims": "1"},
        VOLUME_CLAIMS, volume_claim("3Gi"),
    ),
    "storage of a class": (
        quota({"gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
               "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1"}),
        {"gold.storageclass.storage.k8s.io/requests.storage": "8Gi",
         "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1"},
        VOLUME_CLAIMS, volume_claim("3Gi", "gold"),
    ),
    "storage of another class": (
        quota({"gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}),
        {"gold.storageclass.storage.k8s.io/requests.storage": "0"},
        VOLUME_CLAIMS, volume_claim("3Gi", "silver"),
    ),
    "an attributes class": (
        quota({"persistentvolumeclaims": "0"},
              scopeSelector=selected("VolumeAttributesClass", "In", "fast")),
        {"persistentvolumeclaims": "0"},
        VOLUME_CLAIMS, volume_claim("1Gi", volumeAttributesClassName="fast"),
    ),
    "no attributes class": (
        quota({"persistentvolumeclaims": "0"},
              scopeSelector=selected("VolumeAttributesClass", "In", "fast")),
        {"persistentvolumeclaims": "0"}, VOLUME_CLAIMS, volume_claim("1Gi"),
    ),
    "devices": (quota({GPU: "1"}), {GPU: "1"}, CLAIMS, claim(exactly("gpu"))),
    "devices fit": (
        quota({GPU: "4", "count/resourceclaims.resource.k8s.io": "1"}),
        {GPU: "1", "count/resourceclaims.resource.k8s.io": "0"},
        CLAIMS, claim(exactly("gpu", 2), exactly("gpu"), exactly("nic")),
    ),
    "all devices": (quota({GPU: "31"}), {GPU: "0"}, CLAIMS, claim(everything("gpu"))),
    "alternatives": (
        quota({GPU: "3"}), {GPU: "0"},
        CLAIMS, claim(first_of(("gpu", 2), ("nic", 9), ("gpu", 4))),
    ),
    "devices of another class": (quota({GPU: "0"}), {GPU: "0"}, CLAIMS, claim(exactly("nic"))),
    "devices as an implicit extended resource": (
        quota({IMPLICIT: "1", GPU: "9"}), {IMPLICIT: "0", GPU: "0"},
        CLAIMS, claim(exactly("gpu", 2)),
    ),
    "devices as an explicit extended resource": (
        quota({"requests.example.com/gpu": "1", "pods": "1"}),
        {"requests.example.com/gpu": "0", "pods": "0"}, CLAIMS, claim(exactly("gpu", 2)),
    ),
}  # fmt: skip

GOOD: dict[str, Raw] = {
    "nothing": {**quota({}), "spec": {}},
    "standard keys": quota({"pods": "1", "cpu": "1.5", "requests.storage": "1Gi"}),
    "counts": quota({"count/pods": "1", "count/widgets.example.com": "1", "secrets": "2"}),
    "huge pages": quota({"hugepages-2Mi": "2Mi", "requests.hugepages-1Gi": "1Gi"}),
    "devices": quota({GPU: "1", IMPLICIT: "1", "requests.example.com/gpu": "1"}),
    "a scope": quota({"pods": "1", "requests.cpu": "1"}, scopes=["NotTerminating"]),
    "a scope and a count": quota({"count/pods": "1"}, scopes=["BestEffort"]),
    "a selector": quota({"pods": "1"}, scopeSelector=selected("PriorityClass", "In", "a", "b")),
    "an empty selector": quota({"pods": "1"}, scopeSelector={}),
    "half a custom thing": quota({"example.com/thing.more": "1"}),
    "requests above limits": quota({"requests.cpu": "2", "limits.cpu": "1", "memory": "1"}),
}
BAD: dict[str, Raw] = {
    "an unknown key": quota({"gpus": "1"}),
    "storage without requests": quota({"storage": "1Gi"}),
    "limits of storage": quota({"limits.storage": "1Gi"}),
    "an empty name after the prefix": quota({"example.com/": "1"}),
    "two slashes": quota({"a/b/c": "1"}),
    "a wrong name": quota({"a b": "1"}),
    "a negative amount": quota({"pods": "-1"}),
    "negative cpu": quota({"cpu": "-500m"}),
    "a fraction": quota({"pods": "1.5"}),
    "a fraction of an extended resource": quota({"example.com/gpu": "500m"}),
    "a negative fraction": quota({"services": "-1500m"}),
    "an unknown scope": quota({"pods": "1"}, scopes=["Fast"]),
    "a scope of pods for storage": quota({"requests.storage": "1"}, scopes=["Terminating"]),
    "best effort with cpu": quota({"cpu": "1", "memory": "1"}, scopes=["BestEffort"]),
    "conflicting scopes": quota({"pods": "1"}, scopes=["Terminating", "NotTerminating"]),
    "two conflicts": quota(
        {"pods": "1"},
        scopes=["BestEffort", "NotBestEffort", "Terminating", "NotTerminating"],
    ),
    "scopes twice": quota({"services": "1"}, scopes=["Terminating", "Terminating"]),
    "an operator that is not Exists": quota(
        {"pods": "1"}, scopeSelector=selected("Terminating", "In", "a")
    ),
    "no values": quota({"pods": "1"}, scopeSelector=selected("PriorityClass", "In")),
    "values for Exists": quota(
        {"pods": "1"}, scopeSelector=selected("PriorityClass", "Exists", "a")
    ),
    "an unknown operator": quota({"pods": "1"}, scopeSelector=selected("PriorityClass", "Near")),
    "no operator": quota({"pods": "1"}, scopeSelector=selected("PriorityClass", "")),
    "an unknown scope in the selector": quota(
        {"pods": "1"}, scopeSelector=selected("Fast", "Exists")
    ),
    "a selector for another key": quota(
        {"services": "1"}, scopeSelector=selected("PriorityClass", "Exists")
    ),
    "a volume scope for pods": quota(
        {"pods": "1"}, scopeSelector=selected("VolumeAttributesClass", "Exists")
    ),
    "conflicts in the selector": quota(
        {"pods": "1"},
        scopeSelector={
            "matchExpressions": [
                {"scopeName": "BestEffort", "operator": "Exists"},
                {"scopeName": "NotBestEffort", "operator": "Exists"},
            ]
        },
    ),
}
ANSWERS = json.loads((Path(__file__).parent / "answers-v1.36.2.json").read_text())
"""What kube-apiserver v1.36.2 answers to each of ``WRITES``."""
