"""Nodes with a Device object, pods that request parts of them, and what pods got."""

import msgspec

from holdfast.api.annotations import allocated_reservation
from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    NUMA_TOPOLOGY_POLICY,
    RDMA,
)
from holdfast.api.reservation_names import AFFINITY
from holdfast.api.scheme import SHARED_DEVICES
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.builders import an_object
from holdfast.testing.numa_builders import a_topology

GI = 2**30
SINGLE = {NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}


def a_gpu(minor, *, health=True, memory="16Gi", numa=None, pcie=None, **more):
    """A GPU as koordlet describes it."""
    found = {
        "type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": health,
        "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: memory},
        **more,
    }  # fmt: skip
    return found | _topology(numa, pcie)


def a_nic(minor, *, numa=None, pcie=None, **more):
    """An RDMA card."""
    found = {
        "type": "rdma", "id": f"0000:0{minor}:00.0", "minor": minor, "health": True,
        "resources": {RDMA: "100"}, **more,
    }  # fmt: skip
    return found | _topology(numa, pcie)


def _topology(numa, pcie):
    if numa is None and pcie is None:
        return {}
    return {"topology": {"socketID": 0, "nodeID": numa or 0, "pcieID": pcie or "", "busID": ""}}


def a_device_object(node="n", *devices, labels=None, annotations=None):
    """The Device of a node; two GPUs by default."""
    listed = list(devices) if devices else [a_gpu(0), a_gpu(1)]
    return an_object(
        SHARED_DEVICES, node, {"devices": listed}, labels=labels, annotations=annotations
    )


def a_gpu_node(name="n", **more):
    """A node whose Node lists no resources of Koordinator's devices."""
    listed = {
        GPU: 200,
        GPU_CORE: 200,
        GPU_MEMORY: "32Gi",
        GPU_MEMORY_RATIO: 200,
        GPU_SHARED: 200,
        RDMA: 200,
    }
    amounts = {name: str(amount) for name, amount in listed.items()} | more.pop("allocatable", {})
    return a_node(name, cpu="64", memory="256Gi", allocatable=amounts, **more)


def a_gpu_pod(name="p", percent=None, **more):
    """A pod that requests ``koordinator.sh/gpu``, or other names in ``requests``."""
    requests = {GPU: str(percent)} if percent is not None else {}
    requests |= {named(key): value for key, value in more.pop("requests", {}).items()}
    return a_pod(name, requests=requests, **more)


_NAMES = {
    "core": GPU_CORE, "ratio": GPU_MEMORY_RATIO, "memory": GPU_MEMORY, "shared": GPU_SHARED,
    "rdma": RDMA,
}  # fmt: skip


def named(key):
    """Return the name of a resource by its short form, such as "core"."""
    return _NAMES.get(key, key)


def allocated(obj):
    """Return the annotation of a pod or reservation as (type, minor, percent of it)."""
    text = obj.metadata.annotations.get(DEVICE_ALLOCATED)
    if not text:
        return None
    return [
        (
            kind,
            one["minor"],
            int(one["resources"].get(GPU_MEMORY_RATIO, one["resources"].get(RDMA))),
        )
        for kind, listed in msgspec.json.decode(text).items()
        for one in listed
    ]


def a_gpu_reservation(name="r", percent=100, *, cpu="8", **more):
    """A reservation of ``koordinator.sh/gpu`` for pods with the label ``app: web``."""
    requests = {GPU: str(percent)}
    return a_reservation(name, cpu=cpu, requests=requests, owner_labels={"app": "web"}, **more)


def an_owner(name="p", percent=None, *, reservation_affinity=False, **more):
    """A pod with the label ``app: web``."""
    notes = {AFFINITY: "{}"} if reservation_affinity else {}
    return a_gpu_pod(name, percent, labels={"app": "web"}, annotations=notes, **more)


async def reserved(cluster, name):
    """Return the devices of a reservation."""
    return allocated(await cluster.reservation(name))


async def from_reservation(cluster, name):
    """Return the name of the reservation that a pod was allocated from, or ""."""
    found = allocated_reservation(await cluster.pod(name))
    return found.name if found is not None else ""


async def devices_of(cluster, name):
    """Return the devices of a bound pod; None without the annotation."""
    return allocated(await cluster.pod(name))


def gpus_near(*numa_nodes):
    """GPUs by minor, each at the PCIe switch of its NUMA node."""
    return [a_gpu(i, numa=numa, pcie=f"p{numa}") for i, numa in enumerate(numa_nodes)]


async def with_two_numa_nodes(cluster, name="n", labels=SINGLE, places=(0, 0, 1, 1)):
    """A node with eight CPUs and two GPUs in each NUMA node."""
    node = a_gpu_node(name, allocatable={GPU: "400"}, labels=labels)
    await cluster.create(a_topology(name), node, a_device_object(name, *gpus_near(*places)))
