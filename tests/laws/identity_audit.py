"""CPUs and devices of pods and reservations, read from API objects alone, simple and slow."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations

from holdfast.api import koordinator_names as names
from holdfast.api.annotations import allocated_reservation
from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request

IGNORED = "scheduling.koordinator.sh/reservation-ignored"
AVAILABLE = "Available"


@dataclass(frozen=True)
class Holder:
    """A bound pod or an available reservation; ``devices`` are amounts by (type, minor, name)."""

    object: object
    node: str
    cpus: frozenset = frozenset()
    devices: Counter = field(default_factory=Counter)
    numa: dict = field(default_factory=dict)
    reservation: str = ""
    """The uid of the reservation that a pod was allocated from."""
    ignores: bool = False

    @property
    def name(self):
        return self.object.metadata.name

    @property
    def uid(self):
        return self.object.metadata.uid


def pod_holders(pods):
    """Return the bound pods that are not finished, with what they have."""
    return [_pod_holder(pod) for pod in pods if pod.spec.node_name and not pod.finished]


def _pod_holder(pod):
    ignores = pod.metadata.labels.get(IGNORED) == "true"
    named = None if ignores else allocated_reservation(pod)
    uid = "" if named is None else named.uid
    return Holder(pod, pod.spec.node_name, *_written(pod), uid, ignores)


def reservation_holders(reservations):
    """Return the available reservations with what they have."""
    return [
        Holder(one, one.status.node_name, *_written(one))
        for one in reservations
        if one.phase == AVAILABLE
    ]


def _written(obj):
    """Return CPUs, amounts of devices and amounts of NUMA nodes that the annotations name."""
    notes = obj.metadata.annotations
    status = json.loads(notes.get(names.RESOURCE_STATUS) or "{}")
    numa = {
        one["node"]: {k: milli(v) if k == "cpu" else units(v) for k, v in one["resources"].items()}
        for one in status.get("numaNodeResources", ())
    }
    devices = Counter()
    for kind, listed in json.loads(notes.get(names.DEVICE_ALLOCATED) or "{}").items():
        for one in listed:
            for name, amount in one["resources"].items():
                devices[kind, one["minor"], name] += units(amount)
    return frozenset(cpu_list(status.get("cpuset", ""))), devices, numa


def cpu_list(text):
    """Return the numbers in a list such as ``0-3,8``."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def totals_of(device):
    """Return what the devices of a node have by (type, minor, name), healthy or not."""
    return {
        (one.type, one.minor, name): units(amount)
        for one in device.spec.devices
        for name, amount in one.resources.items()
    }


def shared_identities(pods, reservations, devices):
    """Describe CPUs with two holders, and devices of which more is held than there is."""
    by_node = defaultdict(lambda: ([], []))
    for holder in pod_holders(pods):
        by_node[holder.node][0].append(holder)
    for holder in reservation_holders(reservations):
        by_node[holder.node][1].append(holder)
    totals = {device.name: totals_of(device) for device in devices}
    for node, (on_node, held) in by_node.items():
        yield from _shared_cpus(node, on_node, held)
        yield from _overused(node, on_node, held, totals.get(node))


def _shared_cpus(node, pods, reservations):
    for some in (pods, reservations):
        for one, other in combinations(some, 2):
            if both := one.cpus & other.cpus:
                yield f"{one.name} and {other.name} share CPUs {sorted(both)} of {node}"
    for reservation in reservations:
        for pod in pods:
            taken = pod.cpus & reservation.cpus
            if taken and pod.reservation != reservation.uid and not pod.ignores:
                yield f"{pod.name} has CPUs {sorted(taken)} of {reservation.name}, not its own"


def _overused(node, pods, reservations, totals):
    if totals is None:
        return  # the Device is gone; what it had is not known
    used, excused = Counter(), Counter()
    for pod in pods:
        used.update(pod.devices)
        if pod.ignores:
            excused.update(pod.devices)
    for reservation in reservations:
        taken = Counter()
        for pod in pods:
            if pod.reservation == reservation.uid:
                taken.update(pod.devices)
        left = {unit: max(0, a - taken[unit]) for unit, a in reservation.devices.items()}
        used.update(left)
    for unit, amount in used.items():
        if amount - excused[unit] > totals.get(unit, 0):
            yield f"{node} has {totals.get(unit, 0)} of {unit}, {amount} are held"


def wrong_amounts(pods, reservations, topologies, devices):
    """Describe pods and reservations whose CPUs and devices are not what they request."""
    cpus = {topology.name: cpu_details(topology) for topology in topologies}
    with_devices = {device.name for device in devices}
    for holder in pod_holders(pods):
        asked = pod_request(holder.object).amounts
        yield from _wrong(holder, asked, cpus.get(holder.node), holder.node in with_devices)
    for holder in reservation_holders(reservations):
        texts = holder.object.status.allocatable
        asked = {k: milli(v) if k == "cpu" else units(v) for k, v in texts.items()}
        yield from _wrong(holder, asked, cpus.get(holder.node), holder.node in with_devices)


def cpu_details(topology):
    """Return (core, NUMA node) of each CPU of a NodeResourceTopology."""
    text = topology.metadata.annotations.get(names.CPU_TOPOLOGY, "{}")
    detail = json.loads(text).get("detail", ())
    return {one["id"]: ((one["socket"], one["core"]), one["node"]) for one in detail}


def _wrong(holder, asked, cpus, has_device):
    meta, who = metadata_of(holder.object), holder.name
    wanted = asked.get("cpu", 0)
    if holder.cpus and 1000 * len(holder.cpus) != wanted:
        yield f"{who} requests {wanted} m and has CPUs {sorted(holder.cpus)}"
    if cpus is not None and meta["qos"] == "LSR" and wanted and not holder.cpus:
        yield f"{who} is LSR on {holder.node} and has no CPUs"
    if cpus is not None:
        yield from _wrong_cpus(holder, meta, cpus)
    for name in ("cpu", "memory"):
        of_numa = sum(amounts.get(name, 0) for amounts in holder.numa.values())
        if of_numa and of_numa != asked.get(name, 0):
            yield f"{who} requests {asked.get(name)} of {name}, has {holder.numa}"
    yield from _wrong_devices(holder, asked, has_device)


def _wrong_cpus(holder, meta, cpus):
    if unknown := holder.cpus - cpus.keys():
        yield f"{holder.name} has CPUs {sorted(unknown)}, which {holder.node} has not"
        return
    nodes = {cpus[cpu][1] for cpu in holder.cpus}
    if meta["numa"] == "SingleNUMANode" and len(nodes | holder.numa.keys()) > 1:
        yield f"{holder.name} has CPUs {sorted(holder.cpus)} of several NUMA nodes"
    cores = {cpus[cpu][0] for cpu in holder.cpus}
    whole = {cpu for cpu, (core, _) in cpus.items() if core in cores}
    if meta["required"] == "FullPCPUs" and whole != holder.cpus:
        yield f"{holder.name} has parts of cores: {sorted(holder.cpus)}"
    if meta["required"] == "SpreadByPCPUs" and len(cores) != len(holder.cpus):
        yield f"{holder.name} has several CPUs of a core: {sorted(holder.cpus)}"


def _wrong_devices(holder, asked, has_device):
    percent = asked.get(names.GPU, 0) or asked.get(names.GPU_MEMORY_RATIO, 0)
    if not percent:
        return
    ratio = sum(a for unit, a in holder.devices.items() if unit[2] == names.GPU_MEMORY_RATIO)
    if (has_device or holder.devices) and ratio != percent:
        yield f"{holder.name} requests {percent} % of GPUs, has {dict(holder.devices)}"


def metadata_of(obj):
    """Return the QoS class, NUMA policy and required bind policy of a pod or reservation."""
    spec = getattr(obj.spec, "template", None)
    template = None if spec is None else spec.metadata
    labels = {**(template.labels if template else {}), **obj.metadata.labels}
    notes = {**(template.annotations if template else {}), **obj.metadata.annotations}
    return {
        "qos": labels.get(names.QOS_CLASS),
        "numa": json.loads(notes.get(names.NUMA_TOPOLOGY_SPEC) or "{}").get("numaTopologyPolicy"),
        "required": json.loads(notes.get(names.RESOURCE_SPEC) or "{}").get("requiredCPUBindPolicy"),
    }
