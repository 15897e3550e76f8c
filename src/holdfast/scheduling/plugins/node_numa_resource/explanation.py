"""Explain which CPUs and NUMA nodes a pod lacks, and which node came closest.

Plain data in the shape that ``holdfast explain`` prints. Nodes of equal states are examined once.
"""

from __future__ import annotations

import numpy as np

from holdfast.api.decode import JsonObject
from holdfast.api.resource_names import CPU
from holdfast.scheduling.framework.plugin import Rows
from holdfast.scheduling.plugins.node_numa_resource.row_trials import RowTrials
from holdfast.state.numa.cpu_set import format_cpu_list
from holdfast.state.numa.node_holdings import NodeHoldings
from holdfast.state.numa.node_policies import merge_numa_policies
from holdfast.state.numa.node_state import NodeState
from holdfast.state.numa.policy_names import SINGLE_NUMA_NODE
from holdfast.state.numa.trial import Situation, available_amounts

MAX_STATES = 1_000
"""At most this many different states of nodes are examined; that takes up to a second."""


def explain_rows(plan: RowTrials, rows: Rows) -> JsonObject:
    """Return what the pod needs, and what the closest of some rows and its reservations have."""
    request, ledger = plan.request, plan.ledger
    signatures, first = np.unique(ledger.signatures()[rows], return_index=True)
    candidates = [
        (_fraction(Situation(request, ledger.state(signature))), int(row))
        for signature, row in zip(
            signatures.tolist()[:MAX_STATES], rows[first].tolist(), strict=False
        )
    ]
    best, row = max(candidates, key=lambda one: (one[0], -one[1]), default=(0.0, -1))
    reservations = [] if plan.match is None else plan.match.slots.tolist()
    return {
        "cpus": request.cpus if request.bound else None,
        "bindPolicy": request.bind_policy or None,
        "required": bool(request.required_policy),
        "numaPolicy": request.numa_policy or None,
        "requests": dict(request.amounts),
        "closest": _node(plan, row) if best > 0 else None,
        "reservations": [_reservation(plan, slot) for slot in reservations],
    }


def _fraction(on: Situation) -> float:
    """Return the share of the pod's needs that is there, 0..1; 0 if the topology is unknown."""
    policy = merge_numa_policies(on.shape.policies.numa, on.request.numa_policy)
    if policy is None:
        return 0.0  # the policies of pod and node differ
    if not policy:
        needed = on.request.cpus if on.bound else 0
        return min(1.0, on.usable(on.cpu.all).bit_count() / needed) if needed else 0.0
    by_node = available_amounts(on)
    needs = {n: a for n, a in on.request.amounts if any(n in of for of in by_node.values())}
    if not needs:
        return 0.0
    if policy != SINGLE_NUMA_NODE:
        by_node = {0: {n: sum(of.get(n, 0) for of in by_node.values()) for n in needs}}
    return max(min(min(1.0, of.get(n, 0) / a) for n, a in needs.items()) for of in by_node.values())


def _node(plan: RowTrials, row: int) -> JsonObject:
    """Return what is free on a row, and how many CPUs each holder has."""
    ledger = plan.ledger
    of, now = ledger.holdings(row) or NodeHoldings(), ledger.state(ledger.signature(row))
    on = Situation(plan.request, now)
    pods = list(of.pods.values())
    left = {uid: of.left_of(uid).cpus for uid in of.reservations}
    reserved = [
        {"reservation": plan.reservations.by_uid[uid].reservation.name, "cpus": cpus.bit_count()}
        for uid, cpus in left.items()
        if cpus and uid in plan.reservations.by_uid
    ]
    return {
        "node": plan.nodes.names[row],
        "freeCPUs": format_cpu_list(now.free),
        "free": now.free.bit_count(),
        "usable": on.usable(on.cpu.all).bit_count(),
        "bindPolicy": on.bind_policy or None,
        "required": bool(on.required_policy),
        "bound": on.bound,
        "heldByPods": sum(one.allocation.cpus.bit_count() for one in pods),
        "reserved": sorted(reserved, key=lambda one: (-one["cpus"], one["reservation"])),
        "unavailable": of.topology.unavailable.bit_count(),
        "numaPolicy": now.shape.policies.numa or plan.request.numa_policy or None,
        "numaNodes": _numa_nodes(on, now),
    }


def _numa_nodes(on: Situation, now: NodeState) -> list[JsonObject]:
    """Return what the pod may use of each NUMA node: cpu in millicores, others in units."""
    names = {name for name, _ in on.request.amounts} | {CPU}
    return [
        {
            "node": node,
            "freeCPUs": (on.cpu.nodes.get(node, 0) & now.free).bit_count(),
            "available": {name: amount for name, amount in of.items() if name in names},
        }
        for node, of in available_amounts(on).items()
    ]


def _reservation(plan: RowTrials, slot: int) -> JsonObject:
    """Return what a reservation that the pod may use has left, and why that is not enough."""
    info = plan.reservations.at(slot)
    row = int(plan.reservations.columns.row[slot])
    offer = plan.ledger.offer(row, info.uid)
    return {
        "reservation": info.reservation.name,
        "node": plan.nodes.names[row],
        "cpus": format_cpu_list(offer.cpus),
        "numaNodes": {str(node): dict(amounts) for node, amounts in offer.amounts},
        "reasons": list(plan.reservation_reasons(slot)),
    }
