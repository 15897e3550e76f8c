"""Measure a scheduler's memory for a cluster, and its CPU time for an informer event.

    python benchmarks/memory.py [--nodes 5000] [--pods 50000]

Nodes and pods are the JSON that a real API server sends (images and conditions of kubelets, token
volumes, owner references, statuses), passed through the decoder, the informer's cache and the event
handlers. The benchmark itself keeps none of the JSON. Figures are the resident memory of the
process before and after, and CPU time per event.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.api import scheme
from holdfast.api.object_interner import ObjectInterner
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.client.informer_cache import InformerCache
from holdfast.client.response_decoding import decode_typed
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.scheduling.scheduler.queueing_hints import QueueingHints
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue

STAMP = "2026-01-01T00:00:00Z"
IMAGES, IMAGES_ON_A_NODE, WORKLOADS = 2000, 50, 500
FULL = "with pods MiB"


def a_node(i: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a node as the kubelet of a cloud writes it."""
    name = f"ip-10-{i // 65536}-{i // 256 % 256}-{i % 256}.eu-central-1.compute.internal"
    amounts = {"cpu": "15890m", "memory": "60Gi", "ephemeral-storage": "93478772582",
               "hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": "110"}  # fmt: skip
    labels = {
        "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6i.4xlarge",
        "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": f"eu-central-1{'abc'[i % 3]}",
        "eks.amazonaws.com/nodegroup": f"pool-{i % 20}", "eks.amazonaws.com/capacityType": "SPOT",
    }  # fmt: skip
    conditions = [
        {"type": kind, "status": status, "reason": f"Kubelet{kind}", "lastHeartbeatTime": STAMP,
         "lastTransitionTime": STAMP, "message": f"kubelet says {kind} is {status}"}
        for kind, status in (("MemoryPressure", "False"), ("DiskPressure", "False"),
                             ("PIDPressure", "False"), ("Ready", "True"))
    ]  # fmt: skip
    images = [
        {"names": [f"registry.example.com/team-{n % 40}/service-{n}@sha256:{n:064x}",
                   f"registry.example.com/team-{n % 40}/service-{n}:v1.{n % 30}.0"],
         "sizeBytes": 50_000_000 + n}
        for n in rng.choice(IMAGES, IMAGES_ON_A_NODE, replace=False).tolist()
    ]  # fmt: skip
    meta = {"name": name, "uid": _uid(i), "resourceVersion": str(i), "creationTimestamp": STAMP,
            "labels": labels, "annotations": {"csi.volume.kubernetes.io/nodeid": f'{{"e":"{i}"}}'},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]}  # fmt: skip
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions,
              "images": images, "nodeInfo": {"kubeletVersion": "v1.36.2"}}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def a_pod(i: int, node: str) -> dict[str, Any]:
    """Return a running pod of a Deployment as an API server stores it."""
    app, code = f"service-{i % WORKLOADS}", f"{i % WORKLOADS:05x}"
    name = f"{app}-{code}-{i:05x}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{code}",
             "uid": _uid(i % WORKLOADS + 10**7), "controller": True,
             "blockOwnerDeletion": True}  # fmt: skip
    labels = {"app": app, "pod-template-hash": code, "team": f"team-{i % 40}", "tier": "backend"}
    meta = {"name": name, "generateName": f"{app}-{code}-", "namespace": f"team-{i % 40}",
            "uid": _uid(i + 10**8), "resourceVersion": str(i + 10**6), "labels": labels,
            "creationTimestamp": STAMP, "ownerReferences": [owner],
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": f"{i % 500:064x}"},
            "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {}}]}  # fmt: skip
    token = {"name": f"kube-api-access-{i:05x}", "projected": {"sources": []}}
    amounts = {"cpu": f"{50 + i % WORKLOADS}m", "memory": "128Mi"}
    names = ("main", "proxy")
    containers = [
        {"name": which, "image": f"registry.example.com/team-{i % 40}/{app}:v1.0.0",
         "resources": {"requests": amounts, "limits": amounts},
         "env": [{"name": f"SETTING_{k}", "value": "something"} for k in range(10)],
         "volumeMounts": [{"name": token["name"], "mountPath": "/var/run/secrets"}]}
        for which in names
    ]  # fmt: skip
    seconds = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
    spec = {"nodeName": node, "schedulerName": "default-scheduler", "containers": containers,
            "volumes": [token], "serviceAccountName": app, "restartPolicy": "Always",
            "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", **seconds},
                            {"key": "node.kubernetes.io/unreachable", **seconds}]}  # fmt: skip
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": STAMP}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady",
                     "PodScheduled")
    ]  # fmt: skip
    statuses = [
        {"name": which, "ready": True, "restartCount": 0, "started": True,
         "containerID": f"containerd://{i:064x}", "state": {"running": {"startedAt": STAMP}},
         "resources": {"requests": amounts, "limits": amounts}, "allocatedResources": amounts}
        for which in names
    ]  # fmt: skip
    status = {"phase": "Running", "hostIP": "10.0.0.1", "podIP": f"10.1.{i % 256}.1",
              "startTime": STAMP, "conditions": conditions, "containerStatuses": statuses,
              "qosClass": "Guaranteed"}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def _uid(i: int) -> str:
    return f"{i:08x}-0000-4000-8000-{i:012x}"


def resident() -> float:
    """Return the resident memory of this process, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this benchmark reads /proc/self/status, which is not here")


class Feed:
    """Decoder, informer caches and event handlers of a scheduler."""

    def __init__(self) -> None:
        profiles = default_profiles()
        self.world = World()
        queueing_hints = QueueingHints(profiles, self.world, time.time)
        queue = SchedulingQueue(queueing_hints)
        self.handlers = EventHandlers(self.world, queue, profiles.__contains__, time.time)
        self._parts = ObjectInterner()
        self._caches: dict[str, InformerCache[Any]] = {}

    def _transform(self, obj: Any) -> Any:
        return self._parts.pod(obj) if isinstance(obj, Pod) else self._parts.node(obj)

    def add(self, resource: Resource[Any], handler: Any, objects: Iterator[Any]) -> float:
        """Add objects; return CPU microseconds per event, without making the JSON."""
        cache = self._caches.setdefault(resource.plural, InformerCache())
        spent, count = 0.0, 0
        for raw in objects:
            data = json.dumps(raw).encode()
            began = time.process_time()
            for change in cache.put(self._transform(decode_typed(data, resource))):
                handler(*change)
            spent += time.process_time() - began
            count += 1
        return 1e6 * spent / max(1, count)


def measure(nodes: int, pods: int) -> dict[str, float]:
    """Add all objects and measure the process."""
    feed, rng = Feed(), np.random.default_rng(1)
    gc.collect()
    empty = resident()
    node_cost = feed.add(
        scheme.NODES, feed.handlers.on_node, (a_node(i, rng) for i in range(nodes))
    )
    with_nodes = resident()
    names = feed.world.nodes.names
    pod_cost = feed.add(
        scheme.PODS, feed.handlers.on_pod, (a_pod(i, names[i % nodes]) for i in range(pods))
    )
    gc.collect()
    full = resident()
    return {
        "empty MiB": empty, "with nodes MiB": with_nodes, FULL: full,
        "KiB a node": 1024 * (with_nodes - empty) / nodes,
        "KiB a pod": 1024 * (full - with_nodes) / max(1, pods),
        "µs a node": node_cost, "µs a pod": pod_cost,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args.nodes, args.pods)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{args.nodes} nodes, {args.pods} pods")
    for name, value in found.items():
        print(f"  {name:16}{value:10.1f}")


if __name__ == "__main__":
    main()
