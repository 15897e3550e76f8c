"""The NodeResourceTopology and the Device of a simulated node, as koordlet would write them."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.api import koordinator_names as names
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.node_names import AGENT_LABEL
from holdfast.api.quantity import BINARY_SI, Quantity, milli
from holdfast.api.resource import Resource
from holdfast.api.scheme import NODE_RESOURCE_TOPOLOGIES, SHARED_DEVICES
from holdfast.client.client import Client
from holdfast.runtime.errors import AlreadyExists, Conflict, Forbidden, NotFound, Refused
from holdfast.runtime.settings import THREADS_PER_CORE, NodeShape

MANAGED_BY = "app.kubernetes.io/managed-by"
GPU_MEMORY = "16Gi"
GPUS_PER_SWITCH = 2
_GPU_IDS = uuid.UUID("6f6c6466-6173-4d67-8075-000000000000")
"""The namespace of the ids of GPUs, so that a node has the same ones after a restart."""

log = logging.getLogger(__name__)


async def publish_topology(client: Client, node: Node, shape: NodeShape, agent: str) -> None:
    """Create the objects that a shape asks for, owned by the Node; existing ones are kept.

    Objects of a former node of the same name are replaced. The client may write the node's objects.
    Raises Refused if the server does not have these kinds, or the node may not write them.
    """
    wanted: list[tuple[Resource[Any], dict[str, Any]]] = []
    if shape.numa and _has_processors(node, shape):
        wanted.append((NODE_RESOURCE_TOPOLOGIES, topology_of(shape)))
    if shape.koordinator_gpus:
        wanted.append((SHARED_DEVICES, devices_of(node.name, shape)))
    for resource, body in wanted:
        await _create(client, node, resource, body, agent)


def _has_processors(node: Node, shape: NodeShape) -> bool:
    """Return whether a node has the amounts that the shape divides; an older node may not."""
    has, wanted = node.status.capacity, shape.capacity
    if all(milli(has.get(name, 0)) == milli(wanted[name]) for name in ("cpu", "memory")):
        return True
    log.warning(
        "node %s keeps cpu=%s,memory=%s: no NodeResourceTopology is published for cpu=%s,memory=%s",
        node.name, has.get("cpu", 0), has.get("memory", 0), wanted["cpu"], wanted["memory"],
    )  # fmt: skip
    return False


async def _create(
    client: Client, node: Node, resource: Resource[Any], body: dict[str, Any], agent: str
) -> None:
    metadata = body["metadata"]
    metadata["name"] = node.name
    metadata["labels"] = {**metadata.get("labels", {}), AGENT_LABEL: agent}
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    metadata["ownerReferences"] = [owner]
    try:
        for _ in range(2):
            with suppress(AlreadyExists):
                await client.create(resource, body)
                return
            if not await _delete_former(client, resource, node):
                return
    except (NotFound, Forbidden) as error:
        raise Refused(
            f"node {node.name}: the {resource.kind} of --node-shape cannot be written: {error}; "
            f"the API server needs the CRD {resource.plural}.{resource.group} (deploy/crds), and "
            "the node's user the rights to get, create and delete it"
        ) from error


async def _delete_former(client: Client, resource: Resource[Any], node: Node) -> bool:
    """Delete an object that an agent wrote for a former node; return whether none is left."""
    try:
        stored: Object = await client.get(resource, node.name)
    except NotFound:
        return True
    owners = {owner.uid for owner in stored.metadata.owner_references}
    if AGENT_LABEL not in stored.metadata.labels or node.uid in owners:
        return False
    with suppress(NotFound, Conflict):
        await client.delete(resource, node.name, uid=stored.uid)
    return True


def topology_of(shape: NodeShape) -> dict[str, Any]:
    """Return a NodeResourceTopology: one socket per NUMA node, CPU and memory evenly divided."""
    processors, numa = milli(shape.cpu) // 1000, shape.numa
    detail = [
        {"id": cpu, "core": cpu // THREADS_PER_CORE, "socket": on, "node": on}
        for cpu in range(processors)
        for on in (cpu * numa // processors,)
    ]
    annotations = {
        names.CPU_TOPOLOGY: {"detail": detail},
        names.CPU_MANAGER_POLICY: {"policy": "none"},
    }
    amounts = {"cpu": str(processors // numa), "memory": _divided(shape.memory, numa)}
    resources = [
        {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
        for name, amount in amounts.items()
    ]
    return {
        "apiVersion": NODE_RESOURCE_TOPOLOGIES.api_version, "kind": NODE_RESOURCE_TOPOLOGIES.kind,
        "metadata": {
            "labels": {MANAGED_BY: "Koordinator"},
            "annotations": {
                key: msgspec.json.encode(value).decode() for key, value in annotations.items()
            },
        },
        "topologyPolicies": ["None"],
        "zones": [
            {"name": f"node-{number}", "type": "Node", "resources": resources}
            for number in range(numa)
        ],
    }  # fmt: skip


def _divided(amount: str, parts: int) -> str:
    """Return a part of an amount of bytes, in whole KiB if it is large enough.

    >>> _divided("64Gi", 2), _divided("64Gi", 3), _divided("1000", 3)
    ('32Gi', '22369621Ki', '333')
    """
    part = Quantity.parse(amount).value() // parts
    return str(Quantity(part - part % 1024 if part >= 1024 else part, 0, BINARY_SI))


def devices_of(node: str, shape: NodeShape) -> dict[str, Any]:
    """Return a Device: GPUs evenly over the NUMA nodes, two per PCIe switch."""
    total, numa = shape.koordinator_gpus, shape.numa or 1
    switches = [
        (on, minors[start : start + GPUS_PER_SWITCH])
        for on in range(numa)
        for minors in (range(on * total // numa, (on + 1) * total // numa),)
        for start in range(0, len(minors), GPUS_PER_SWITCH)
    ]
    devices = [
        _gpu(node, minor, on, switch)
        for switch, (on, minors) in enumerate(switches)
        for minor in minors
    ]
    return {
        "apiVersion": SHARED_DEVICES.api_version, "kind": SHARED_DEVICES.kind,
        "metadata": {"labels": {names.GPU_VENDOR: "nvidia", names.GPU_MODEL: "Simulated"}},
        "spec": {"devices": devices},
    }  # fmt: skip


def _gpu(node: str, minor: int, on: int, switch: int) -> dict[str, Any]:
    amounts = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: GPU_MEMORY}
    return {
        "type": "gpu", "minor": minor, "moduleID": minor, "health": True,
        "id": f"GPU-{uuid.uuid5(_GPU_IDS, f'{node}/{minor}')}",
        "resources": amounts,
        "topology": {
            "socketID": on, "nodeID": on, "pcieID": f"pci0000:{switch:02x}",
            "busID": f"0000:{switch:02x}:{minor:02x}.0",
        },
    }  # fmt: skip
