"""The debug page of Koordinator's NodeNUMAResource: CPUs and NUMA nodes with their holders."""

from __future__ import annotations

from typing import Any

from holdfast.framework.world import World
from holdfast.numa.cpu_set import format_cpu_list, members_of
from holdfast.numa.node_state import PodHolding
from holdfast.numa.pod_request import NO_REQUEST
from holdfast.numa.resource_status import Allocation, amount_fields, ordered, status_fields
from holdfast.numa.trial import Situation, available_amounts

INVALID_TOPOLOGY = "invalid topology, please check the NodeResourceTopology object"


def numa_node(world: World, node: str) -> dict[str, Any] | str | None:
    """Return the page of a node; a text if it has no topology, None if there is no such node.

    Koordinator's fields, and ``reservation`` (the uid) of a pod that was allocated from one. What
    of a reservation no owner has is listed like a pod.
    """
    row = world.nodes.row_of.get(node)
    if row is None:
        return None
    ledger = world.numa
    state, holdings = ledger.state(ledger.signature(row)), ledger.holdings(row)
    topology, policies = state.shape.topology, state.shape.policies
    cpu = topology.cpu
    if holdings is None or not cpu.valid:
        return INVALID_TOPOLOGY
    places = {each.id: each for each in cpu.cpus}
    return {
        "name": node,
        "cpuTopology": {
            "numCPUs": len(cpu.cpus), "numCores": len(cpu.cores),
            "numNodes": len(cpu.nodes), "numSockets": len(cpu.sockets),
        },
        "reservedCPUs": format_cpu_list(topology.unavailable & cpu.all),
        "maxRefCount": 1,
        "numaTopologyPolicy": policies.numa,
        "numaNodeResources": amount_fields(ordered(state.shape.zones)),
        "amplificationRatios": dict(policies.ratios),
        "remainingNUMANodeResources": amount_fields(
            ordered(available_amounts(Situation(NO_REQUEST, state)))
        ),
        "allocatedNUMANodeResources": amount_fields(state.used),
        "availableCPUs": format_cpu_list(state.free),
        "allocatedCPUs": {
            str(id_): {
                "cpuID": id_, "coreID": places[id_].core, "nodeID": places[id_].node,
                "socketID": places[id_].socket, "refCount": 1,
            }
            for id_ in members_of(state.held & cpu.all)
        },
        "allocatedPods": [
            *(_pod(world, uid, holding) for uid, holding in holdings.pods.items()),
            *(_reservation(world, uid, holdings.left_of(uid)) for uid in holdings.reservations),
        ],
    }  # fmt: skip


def _pod(world: World, uid: str, holding: PodHolding) -> dict[str, Any]:
    found = world.nodes.pod(uid)
    named = {} if found is None else {"namespace": found[0].namespace, "name": found[0].name}
    source = {"reservation": holding.reservation} if holding.reservation else {}
    return {"uid": uid, **named, **_fields(holding.allocation), **source}


def _reservation(world: World, uid: str, left: Allocation) -> dict[str, Any]:
    info = world.reservations.by_uid.get(uid)
    named = {} if info is None else {"name": info.reservation.name}
    return {"uid": uid, **named, **_fields(left)}


def _fields(allocation: Allocation) -> dict[str, Any]:
    policy = allocation.exclusive_policy
    return {**status_fields(allocation), **({"cpuExclusivePolicy": policy} if policy else {})}
