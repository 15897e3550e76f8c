"""Pods and reservations with CPUs and shares of GPUs, as their annotations say."""

import json

from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    RDMA,
    RESOURCE_STATUS,
)
from holdfast.state.numa.cpu_set import parse_cpu_list
from holdfast.testing import a_pod, a_reservation

_NAMES = {"gpu": GPU, "rdma": RDMA}
"""A pod has only devices of types that it requests."""
RESERVATION_ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"


def a_holder(name, cpuset, *, owns="", amounts=(), node="n", **more):
    """A pod on a node with these CPUs, and amounts by NUMA node; perhaps out of a reservation.

    It requests as many CPUs.
    """
    if cpuset:
        more.setdefault("cpu", str(parse_cpu_list(cpuset).bit_count()))
    return _pod(name, {RESOURCE_STATUS: _status(cpuset, amounts)}, owns, node=node, **more)


def a_reserved_set(name, cpuset, cpu="4", node="n", amounts=(), **more):
    """An Available reservation with these CPUs."""
    notes = {RESOURCE_STATUS: _status(cpuset, amounts)}
    return _reservation(name, notes, {"cpu": cpu}, node, **more)


def gpu_share(minor, percent, memory):
    """A part of a GPU."""
    amounts = {GPU_CORE: str(percent), GPU_MEMORY_RATIO: str(percent), GPU_MEMORY: memory}
    return {"minor": minor, "resources": amounts}


def a_gpu_holder(name, allocated, *, owns="", node="n", **more):
    """A pod on a node that has parts of devices, perhaps out of a reservation."""
    more.setdefault("requests", {_NAMES[kind]: "100" for kind in allocated if kind in _NAMES})
    return _pod(name, {DEVICE_ALLOCATED: json.dumps(allocated)}, owns, node=node, **more)


def a_reserved_gpu(name, allocated, node="n", requests=None, **more):
    """An Available reservation of devices."""
    notes = {DEVICE_ALLOCATED: json.dumps(allocated)}
    return _reservation(name, notes, requests or {GPU: "100"}, node, **more)


def _status(cpuset, amounts):
    nodes = [{"node": on, "resources": resources} for on, resources in amounts]
    return json.dumps({"cpuset": cpuset} | ({"numaNodeResources": nodes} if nodes else {}))


def _pod(name, notes, owns, **more):
    if owns:
        more.setdefault("labels", {"app": "x"})
        notes[RESERVATION_ALLOCATED] = json.dumps({"name": owns, "uid": f"uid-{owns}"})
    made = a_pod(name, annotations=notes, **more)
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def _reservation(name, notes, requests, node, **more):
    more = {"owner_labels": {"app": "x"}, "allocate_once": False} | more
    made = a_reservation(name, requests=requests, **more)
    made["metadata"] |= {"uid": f"uid-{name}", "annotations": notes}
    made["status"] = {"phase": "Available", "nodeName": node, "allocatable": requests}
    return made
