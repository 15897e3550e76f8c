"""Nodes with CPUs, reservations that hold some, owners and other pods, through the API."""

import json

from holdfast.api import koordinator_names as names
from holdfast.testing import a_node, a_reservation
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from reservations.objects import AFFINITY, WEB

LSR = {names.QOS_CLASS: "LSR"}


async def add_node(cluster, name="n", *, cpu="16", labels=None, annotations=None, **topology):
    await cluster.create(
        a_topology(name, **topology),
        a_node(name, cpu=cpu, memory="32Gi", labels=labels, annotations=annotations),
    )


async def reserve(
    cluster, name, cpu, *, spec=None, labels=None, annotations=None, settled=True, **more
):
    """Create a reservation for pods that are bound to CPUs, and return its CPUs."""
    notes = {} if spec is None else {names.RESOURCE_SPEC: json.dumps(spec)}
    notes |= annotations or {}
    labels = {**LSR, **(labels or {})}
    more.setdefault("owner_labels", WEB)
    await cluster.create(a_reservation(name, cpu=cpu, labels=labels, annotations=notes, **more))
    return await reserved(cluster, name) if settled else None


async def reserved(cluster, name):
    """Return the CPUs of a reservation."""
    found = await cluster.reservation(name)
    assert found.status.node_name, found.status.conditions
    return cpus_of(found)


async def owner(cluster, name, cpu, *, affinity=None, labels=WEB, annotations=None, **more):
    """Create an owner that is bound to CPUs, and return its CPUs."""
    notes = {
        **({} if affinity is None else {AFFINITY: json.dumps(affinity)}),
        **(annotations or {}),
    }
    await cluster.create(a_bound_pod(name, cpu, labels=labels, annotations=notes, **more))
    return await cpuset(cluster, name)


async def stranger(cluster, name, cpu, *, labels=None, **more):
    """Create a pod that owns no reservation, and return its CPUs."""
    return await owner(cluster, name, cpu, labels=labels, **more)


async def cpuset(cluster, name):
    """Return the CPUs of a pod, None while it is not scheduled."""
    found = await cluster.pod(name)
    return cpus_of(found) if found.spec.node_name else None


def cpus_of(found):
    return json.loads(found.metadata.annotations.get(names.RESOURCE_STATUS) or "{}").get("cpuset")
