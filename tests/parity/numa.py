"""Build the nodes, pods and reservations of Koordinator's NodeNUMAResource records."""

import json

from holdfast.api import koordinator_names as names
from holdfast.api.decode import convert_object
from holdfast.api.node_resource_topology import NodeResourceTopology
from holdfast.api.quantity import units
from holdfast.api.reservation import Reservation
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.node_numa_resource import NodeNUMAResource
from holdfast.state.numa.cpu_set import parse_cpu_list
from parity.reserving import asking_for
from parity.scheduling import asked, node, pod

PREFERRED, REQUIRED = "preferredCPUBindPolicy", "requiredCPUBindPolicy"
RESERVATION = "reservation"


def topology(name, cpus, *, memory="32Gi", cpu=None, annotations=None):
    """A NodeResourceTopology of CPUs [id, core, NUMA node, socket]; ``cpu`` is that of a zone."""
    detail = [dict(zip(("id", "core", "node", "socket"), each, strict=True)) for each in cpus]
    texts = {names.CPU_TOPOLOGY: json.dumps({"detail": detail}), **(annotations or {})}
    zones = []
    for number in sorted({each[2] for each in cpus}):
        has = {"cpu": cpu or str(sum(each[2] == number for each in cpus)), "memory": memory}
        resources = [{"name": key, "allocatable": value} for key, value in has.items()]
        zones.append({"name": f"node-{number}", "type": "Node", "resources": resources})
    raw = {"metadata": {"name": name, "annotations": texts}, "topologyPolicies": [], "zones": zones}
    return convert_object(raw, NodeResourceTopology)


def divided(raw_node, count):
    """A topology that divides all that a node has by a number of NUMA nodes, without threads."""
    has = raw_node["status"]["allocatable"]
    each = int(has["cpu"]) // count
    cpus = [(id_, id_, id_ // each, id_ // each) for id_ in range(each * count)]
    memory = str(units(has["memory"]) // count)
    return topology(raw_node["metadata"]["name"], cpus, memory=memory)


def world_of(given):
    """Return the world of a record with one node, whose pods hold ``allocatedCPUs``."""
    world, raw = World(), given["node"]
    if given.get("topologyKnown", True) and "cpuTopology" in given:
        notes = {}
        if given.get("kubeletPolicy"):
            notes[names.CPU_MANAGER_POLICY] = json.dumps(given["kubeletPolicy"])
        cpus = given["cpuTopology"]["cpus"]
        world.upsert(topology(raw["metadata"]["name"], cpus, annotations=notes))
    world.upsert(node(raw))
    if held := given.get("allocatedCPUs"):
        hold(world, raw["metadata"]["name"], {"cpuset": ",".join(map(str, held))}, "held")
    return world


def hold(world, where, status, uid, raw=None):
    """Put a pod with a ``resource-status`` on a node; it requests what it has, if Go's does not."""
    cpus = parse_cpu_list(status.get("cpuset", "")).bit_count()
    requests = {"cpu": str(cpus)} if cpus else {}
    for part in status.get("numaNodeResources", ()):
        requests = part["resources"] | requests
    raw = raw or asking_for({"metadata": {}}, requests)
    meta = {
        **raw["metadata"],
        "uid": uid,
        "annotations": {names.RESOURCE_STATUS: json.dumps(status)},
    }
    world.upsert(pod({"metadata": meta, "spec": {**raw["spec"], "nodeName": where}}))


def pod_of(state, raw=None, at_least=1):
    """Return a pod that asks for what a PreFilter state says; a bound one for some CPUs."""
    raw = raw or {"metadata": {}, "spec": {}}
    bound, asks = state.get("requestCPUBind"), dict(state.get("requests") or {})
    if bound or (state.get("numCPUsNeeded") and not asks):
        asks.setdefault("cpu", str(max(at_least, state.get("numCPUsNeeded", 0))))
    spec = {key: state[key] for key in (PREFERRED, REQUIRED) if state.get(key)}
    notes = {names.RESOURCE_SPEC: json.dumps(spec)} if spec else {}
    if policy := state.get("podNUMATopologyPolicy"):
        notes[names.NUMA_TOPOLOGY_SPEC] = json.dumps({"numaTopologyPolicy": policy})
    labels = {**raw["metadata"].get("labels", {}), **({names.QOS_CLASS: "LSR"} if bound else {})}
    containers = [{"name": "c", "resources": {"requests": asks}}]
    meta = {**raw["metadata"], "labels": labels, "annotations": notes}
    return {"metadata": meta, "spec": {**raw["spec"], "containers": containers}}


def reserve(world, where, given, policy):
    """Add a reservation for any pod, of which all CPUs and amounts that a record lists are left."""
    amounts = [
        {"node": int(number), "resources": of}
        for number, of in (given.get("remainedPerNUMA") or {}).items()
    ]
    status = {"cpuset": given["remainedCPUs"], "numaNodeResources": amounts}
    meta = {
        "name": "r",
        "uid": RESERVATION,
        "annotations": {names.RESOURCE_STATUS: json.dumps(status)},
    }
    cpu = {"cpu": "7"}
    spec = {
        "owners": [{"labelSelector": {}}], "allocatePolicy": policy, "allocateOnce": False,
        "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": cpu}}]}},
    }  # fmt: skip
    holds = {"phase": "Available", "nodeName": where, "allocatable": cpu}
    world.upsert(convert_object({"metadata": meta, "spec": spec, "status": holds}, Reservation))


def prepared(world, raw_pod, args=None):
    """Prepare the plugin for a pod."""
    return asked(NodeNUMAResource(args), raw_pod, world)
