"""A world as plain values by name: two worlds are equal exactly if these are."""

from holdfast.api.labels import parse
from holdfast.api.scheme import (
    DEVICE_CLASSES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    RESERVATIONS,
    RESOURCE_CLAIMS,
    RESOURCE_POLICIES,
    RESOURCE_SLICES,
    SHARED_DEVICES,
)
from holdfast.scheduling.framework.world import World

SOURCES = (
    NAMESPACES, NODES, DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS, RESERVATIONS,
    RESOURCE_POLICIES, NODE_RESOURCE_TOPOLOGIES, SHARED_DEVICES, PODS,
)  # fmt: skip


def shape_of(world):
    """Return all columns and ledgers that a decision may read."""
    nodes, reservations = world.nodes, world.reservations
    return {
        "nodes": {name: _row(nodes, row) for name, row in nodes.row_of.items()},
        "pods": {
            pod_info.uid: (nodes.names[row], nodes.is_assumed(pod_info.uid))
            for pod_info, row in nodes.pods()
        },
        "neighbours": _neighbours(nodes),
        "offers": {info.uid: _info(nodes, reservations, info) for info in reservations},
        "pending": sorted(reservations.pending),
        "placing": dict(reservations.being_bound),
        "unconfirmed": dict(reservations._unconfirmed),
        "policies": sorted(policy.object.uid for policy in world.policies),
        "whole devices": dict(world.devices.allocated_devices.unshared),
        "shared devices": dict(world.devices.allocated_devices.shared),
        "cpus": _cpus(world.nodes, world.numa),
        "shared by percent": _shared_by_percent(world.nodes, world.device_share),
    }


def _cpus(nodes, ledger):
    """Return who has CPUs and amounts of NUMA nodes, and the state of each node."""
    return {
        "holders": {
            name: (dict(of.pods), dict(of.reservations))
            for name, of in ledger._on_node.items()
            if of.pods or of.reservations
        },
        "assumed": set(ledger._assumed),
        "states": {name: ledger.state(ledger.signature(r)) for name, r in nodes.row_of.items()},
        "all pods": ledger.concerns_all_pods,
    }


def _shared_by_percent(nodes, ledger):
    """Return who has how much of each device, and the state of each node."""
    signatures = {name: ledger.signature(row) for name, row in nodes.row_of.items()}
    return {
        "holders": {
            name: (dict(holders.pods), dict(holders.reservations))
            for name, holders in ledger.holders()
        },
        "states": {name: number and ledger.state(number) for name, number in signatures.items()},
    }


def _named(nodes, amounts):
    return {nodes.resources[r]: a for r, a in dict(amounts).items() if a}


def _row(nodes, row):
    width = nodes.requested.shape[0]
    return {
        "allocatable": _named(nodes, ((r, int(nodes.allocatable[r, row])) for r in range(width))),
        "requested": _named(nodes, ((r, int(nodes.requested[r, row])) for r in range(width))),
        "free": _named(nodes, ((r, int(nodes.amounts.free[r, row])) for r in range(width))),
        "nonzero": (nodes.nonzero_millicores[row], nodes.nonzero_bytes[row]),
        "unschedulable": bool(nodes.unschedulable[row]),
        "taints": nodes.taint_sets[nodes.taint_set[row]],
    }


def _neighbours(nodes):
    """Return ports, affinity terms and counters by node, including reserve pods."""
    placements = nodes._placements
    names = nodes.names
    choices = [(tier, real) for tier in "xy" for real in (False, True)]
    counters = {
        (tier, real): nodes.counter("default", parse(f"tier={tier}"), real=real).all
        for tier, real in choices
    }
    return {
        "ports": {
            (port, names[row], address): count
            for port, rows in placements.ports._users.items()
            for row, addresses in rows.items()
            for address, count in addresses.items()
        },
        "terms": {
            (existing.role, existing.term, names[row]): int(existing.rows[row])
            for existing in placements.existing_terms._in_order
            for row in existing.rows.nonzero()[0]
        },
        "counts": {
            (key, names[row]): int(counter[row])
            for key, counter in counters.items()
            for row in counter.nonzero()[0]
        },
        "reserve pods": {uid: names[p.row] for uid, p in placements.reserve_pods.items()},
    }


def _info(nodes, reservations, info):
    slot, width = info.slot, reservations.columns.remaining.shape[0]
    table = reservations.columns
    columns = (table.reserved, table.allocated, table.remaining)
    row = int(table.row[slot])
    return {
        "node": nodes.names[row] if row >= 0 else None,
        "columns": [_named(nodes, ((r, int(c[r, slot])) for r in range(width))) for c in columns],
        "matchable": (info.matchable, bool(table.matchable[slot])),
        "draws": {uid: _named(nodes, draw) for uid, draw in info.allocated_by_pod.items()},
    }


async def rebuilt(client):
    """Return a new world from the objects of the API server."""
    return world_of(await objects_of(client))


async def objects_of(client):
    """Return all objects of the API server that a world has."""
    return [obj for resource in SOURCES for obj in (await client.list(resource)).items]


def world_of(objects):
    """Return a new world from objects."""
    world = World()
    for obj in objects:
        world.upsert(obj)
    return world
