"""Builders of NodeResourceTopologies, and of pods that are bound to CPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.api import koordinator_names as names
from holdfast.api import scheme
from holdfast.api.decode import JsonObject
from holdfast.testing.builders import Amount, a_pod, an_object


def a_topology(
    name: str = "n",
    *,
    numa_nodes: int = 2,
    cores: int = 4,
    threads: int = 2,
    memory: Amount = "16Gi",
    policy: str = "None",
    annotations: Mapping[str, Any] | None = None,
) -> JsonObject:
    """A NodeResourceTopology: each NUMA node is a socket with ``cores`` of ``threads`` CPUs each.

    Values of ``annotations`` that are not strings are encoded as JSON.
    """
    per_node = cores * threads
    cpus = [
        {"id": i, "core": i // threads % cores, "socket": i // per_node, "node": i // per_node}
        for i in range(numa_nodes * per_node)
    ]
    amounts = {"cpu": str(per_node), "memory": memory}
    resources = [
        {"name": key, "capacity": value, "allocatable": value, "available": value}
        for key, value in amounts.items()
    ]
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in {names.CPU_TOPOLOGY: {"detail": cpus}, **(annotations or {})}.items()
    }
    zones = [
        {"name": f"node-{i}", "type": "Node", "resources": resources} for i in range(numa_nodes)
    ]
    made = an_object(scheme.NODE_RESOURCE_TOPOLOGIES, name, {}, annotations=texts)
    return made | {"topologyPolicies": [policy], "zones": zones}


def a_bound_pod(
    name: str,
    cpu: Amount,
    *,
    qos: str = "LSR",
    spec: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> JsonObject:
    """A pod of a QoS class, LSR by default; ``spec`` is its annotation resource-spec."""
    notes = {} if spec is None else {names.RESOURCE_SPEC: json.dumps(spec)}
    return a_pod(
        name,
        cpu=cpu,
        labels={names.QOS_CLASS: qos, **(labels or {})},
        annotations={**notes, **(annotations or {})},
        **more,
    )
