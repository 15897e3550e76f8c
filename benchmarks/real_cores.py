"""Nodes with CPUs and GPUs, and pods that use them, for the benchmark on a real control plane.

The objects are those of ``cores_and_gpus.py``. GPUs have the names that Koordinator's webhook would
give them (gpu-core and gpu-memory-ratio), so that its scheduler finds them in reservations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cores_and_gpus import OWNER, node_objects, reservation_objects
from holdfast.api import koordinator_names as names
from holdfast.api.scheme import NODE_RESOURCE_TOPOLOGIES, NODES, RESERVATIONS, SHARED_DEVICES
from holdfast.client.client import Client
from holdfast.testing.numa_builders import a_bound_pod

CORE_CASES = ("cores", "core-owners")
"""LSR pods that share GPUs, without reservations and as owners of them."""
NODE_COUNT, RESERVED, OWNERS_EACH = 1000, 1000, 4
SHARE = {names.GPU_CORE: "25", names.GPU_MEMORY_RATIO: "25"}


def node_name(number: int) -> str:
    return f"node-{number:05}"


async def create_node(client: Client, number: int) -> None:
    """Create a node, its NodeResourceTopology and its Device."""
    node, topology, device = node_objects(node_name(number))
    await client.create(NODES, node)
    await client.create(NODE_RESOURCE_TOPOLOGIES, topology)
    await client.create(SHARED_DEVICES, device)


async def create_reservation(client: Client, number: int) -> None:
    """Create a reservation that is already available on a node, with 8 CPUs and a GPU."""
    raw, status = reservation_objects(number, node_name(number))
    container = raw["spec"]["template"]["spec"]["containers"][0]["resources"]
    gpu = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100"}
    for kind in ("requests", "limits"):
        container[kind] = {k: v for k, v in container[kind].items() if k != names.GPU} | gpu
    del raw["metadata"]["creationTimestamp"]
    await client.create(RESERVATIONS, raw)
    await client.patch(
        RESERVATIONS, raw["metadata"]["name"], {"status": status}, subresource="status"
    )


def pods(case: str, count: int) -> Iterable[dict[str, Any]]:
    """Return equal pods with two CPUs and a quarter of a GPU each."""
    labels = OWNER if case == "core-owners" else {"app": "web"}
    for i in range(count):
        yield a_bound_pod(f"pod-{i:05}", "2", memory="1Gi", labels=labels, requests=SHARE)
