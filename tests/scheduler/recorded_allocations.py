"""Pods whose allocations are recorded in annotations, and what they then hold."""

import json

from holdfast.api.koordinator_names import DEVICE_ALLOCATED, RESOURCE_STATUS
from holdfast.api.reservation_names import ALLOCATED, DRAWS
from holdfast.api.scheme import PODS
from holdfast.state.numa.cpu_set import format_cpu_list, parse_cpu_list
from holdfast.testing import a_reservation, typed
from holdfast.testing.numa_builders import a_bound_pod


def gpus(*minors, percent="100", **more):
    """Return the text that names these GPUs."""
    amounts = {"koordinator.sh/gpu-core": percent, "koordinator.sh/gpu-memory-ratio": percent}
    listed = [{"minor": minor, "resources": amounts | more} for minor in minors]
    return json.dumps({"gpu": listed})


async def annotate(cluster, name, **notes):
    """Patch annotations, given by the last part of their key; None removes one."""
    keys = {"status": RESOURCE_STATUS, "devices": DEVICE_ALLOCATED,
            "allocated": ALLOCATED, "draws": DRAWS}  # fmt: skip
    meta = {"annotations": {keys[key]: text for key, text in notes.items()}}
    await cluster.client.patch(PODS, name, {"metadata": meta}, "default")
    await cluster.settle()


async def ignored(cluster, name):
    """Return the messages of the events about ignored annotations of a pod."""
    events = await cluster.events(name)
    return [message for reason, message in events if reason == "AllocationIgnored"]


def naming(held, cpu=None):
    """Return annotations that say that a pod was allocated from a reservation."""
    named = {"name": held.name, "uid": held.uid}
    if cpu is None:
        return {"allocated": json.dumps(named)}
    return {"draws": json.dumps([{**named, "resources": {"cpu": cpu}}])}


def scheduled(raw, at):
    """Return a bound pod that was scheduled at a second."""
    condition = {"type": "PodScheduled", "status": "True",
                 "lastTransitionTime": f"2026-01-01T00:00:{at:02}Z"}  # fmt: skip
    raw["metadata"]["uid"] = f"uid-{raw['metadata']['name']}"
    return typed(raw | {"status": {"conditions": [condition]}})


def claiming(name, cpuset, at, **more):
    count = parse_cpu_list(cpuset).bit_count()
    notes = {RESOURCE_STATUS: json.dumps({"cpuset": cpuset})}
    return scheduled(a_bound_pod(name, str(count), node="n", annotations=notes, **more), at)


def cpus_in(world, *names):
    return [format_cpu_list(world.numa.holding(f"uid-{name}").cpus) for name in names]


def held(**more):
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}}
    return typed(a_reservation("r", cpu="4", metadata={"uid": "r"}, status=status, **more))
