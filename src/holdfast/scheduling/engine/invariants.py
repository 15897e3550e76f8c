"""Check the invariants I1 to I4 of docs/architecture.md in the ledgers at one moment.

Simple on purpose, and slow: everything is summed again from single pods and reservations, so that
an error in the columns cannot stay hidden. Runs after every step in tests, and under
``--check-invariants``.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo, sum_of
from holdfast.state.devices.audit import overcommitments
from holdfast.state.reservations.audit import (
    held_beside_owners,
    rows_of_waiting_reservations,
    shared_with_owners,
    wrong_allocations,
)
from holdfast.state.reservations.matching import ignores_reservations


def check_invariants(world: World) -> None:
    """Raise an AssertionError if an invariant does not hold; see ``invariant_violations``."""
    problems = invariant_violations(world)
    assert not problems, "; ".join(problems)


def invariant_violations(world: World, ours: Iterable[str] | None = None) -> list[str]:
    """Describe every invariant that does not hold, and every sum that is wrong.

    ``ours`` limits I1 to these nodes, on which this scheduler placed all pods; None: all nodes.
    Other schedulers may overcommit a node, because binding does not check its capacity.
    """
    return [
        *_wrong_sums(world),
        *_overcommitted_nodes(world, None if ours is None else set(ours)),
        *wrong_allocations(world.reservations, world.nodes),
        *overcommitments(world.devices),
        *world.nominations.faults(),
        *world.nominated_owner_rows.faults(),
    ]


def _wrong_sums(world: World) -> list[str]:
    """Compare the requests of each row with the sum of its pods and reservations."""
    nodes = world.nodes
    problems = []
    for name, row in nodes.row_of.items():
        expected = sum_of(nodes.pods_on(row).values()) + held_beside_owners(world.reservations, row)
        for resource in range(nodes.requested.shape[0]):
            requested = int(nodes.requested[resource, row])
            if requested != expected[resource]:
                what = nodes.resources[resource]
                sums = f"{requested}, but its pods and reservations add up to {expected[resource]}"
                problems.append(f"{name}: requested {what} is {sums}")
    return problems


def _overcommitted_nodes(world: World, ours: set[str] | None) -> list[str]:
    """I1, I2, I4: pods and reservations together never exceed the allocatable of a node.

    A pod that is marked to ignore reservations may use reserved resources.
    """
    nodes = world.nodes
    waiting = rows_of_waiting_reservations(world.reservations, nodes)
    problems = []
    for name, row in nodes.row_of.items():
        if ours is not None and name not in ours:
            continue
        # Where a reservation waits for resources that pods still use, only the pods count.
        pods = [p for p in nodes.pods_on(row).values() if not (p.is_reserve_pod and row in waiting)]
        there, excused = sum_of(pods), sum_of(pod for pod in pods if ignores_reservations(pod))
        there.subtract(shared_with_owners(world.reservations, row))
        for resource in range(nodes.requested.shape[0]):
            has, of_pods = int(nodes.allocatable[resource, row]), there[resource]
            taken = max(int(nodes.requested[resource, row]) - excused[resource], of_pods)
            if row in waiting:
                taken = of_pods
            if taken <= max(has, 0) or accounted_elsewhere(world, resource, has):
                continue
            what = nodes.resources[resource]
            if has or not _served_by_claims(world, pods, resource):
                problems.append(f"I1: {taken} of {what} are requested on {name}, allocatable {has}")
    return problems


def _served_by_claims(world: World, pods: Iterable[PodInfo], resource: int) -> bool:
    """Return whether pods have devices for a resource, also if no class serves it any more."""
    claims = None if world.devices is None else world.devices.claims
    name = world.nodes.resources[resource]
    for pod in pods:
        status = pod.pod.status.extended_resource_claim_status
        if status is not None and any(m.resource_name == name for m in status.request_mappings):
            return True
        # A pod that is being bound has no such status yet.
        requested = any(r == resource and amount for r, amount in pod.request)
        if requested and claims is not None and claims.has_extended_claim(pod.pod):
            return True
    return False


def accounted_elsewhere(world: World, resource: int, has: int) -> bool:
    """Return whether devices or an extender account for a resource, instead of the node."""
    name = world.nodes.resources[resource]
    if world.ignores_resource(name):
        return True
    return (
        not has and world.devices is not None and world.devices.device_class_for(name) is not None
    )
