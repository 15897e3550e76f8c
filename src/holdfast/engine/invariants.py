"""The promises, checked: I1 to I4 of docs/architecture.md, from the ledgers as they stand.

Slow and obvious on purpose: everything is summed again from single pods and offers, so that a
mistake in the columns cannot hide itself. Run after every step in tests and under
``--check-invariants``; a broken promise is an AssertionError.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.capacity.audit import held_besides, misdrawn, rows_waited_for
from holdfast.capacity.matching import ignores
from holdfast.columns.pod_info import sum_of
from holdfast.devices.audit import overcommitments
from holdfast.framework.world import World


def check_invariants(world: World) -> None:
    """Assert every invariant that can be seen in the ledgers; see ``invariant_violations``."""
    problems = invariant_violations(world)
    assert not problems, "; ".join(problems)


def invariant_violations(world: World, ours: Iterable[str] | None = None) -> list[str]:
    """Name every promise that does not hold, and every sum that is wrong.

    ``ours`` limits I1 to nodes where all pods were placed by us; None takes every node. Binding
    by others checks no capacity, so a node with a foreign pod may be over-committed rightly.
    """
    return [
        *_columns_equal_their_parts(world),
        *_no_overcommitment(world, None if ours is None else set(ours)),
        *misdrawn(world.offers, world.nodes),
        *overcommitments(world.devices),
        *world.nominations.faults(),
        *world.nominated_owner_rows.faults(),
    ]


def _columns_equal_their_parts(world: World) -> list[str]:
    """What a row says is requested is the sum of its pods and of what is held on it."""
    nodes = world.nodes
    problems = []
    for name, row in nodes.row_of.items():
        expected = sum_of(nodes.pods_on(row).values()) + held_besides(world.offers, row)
        for resource in range(nodes.requested.shape[0]):
            found = int(nodes.requested[resource, row])
            if found != expected[resource]:
                what = nodes.resources[resource]
                problems.append(f"{name}: {what} says {found}, its parts say {expected[resource]}")
    return problems


def _no_overcommitment(world: World, ours: set[str] | None) -> list[str]:
    """I1, I2, I4: pods, and room held besides them, never exceed what a node has.

    A pod that ignores reservations may stand in room held for others; it says so itself.
    """
    nodes = world.nodes
    waiting = rows_waited_for(world.offers, nodes)
    problems = []
    for name, row in nodes.row_of.items():
        if ours is not None and name not in ours:
            continue
        # Where a reservation waits for room that others still have, they alone count.
        pods = [p for p in nodes.pods_on(row).values() if not (p.is_reserve_pod and row in waiting)]
        there, excused = sum_of(pods), sum_of(pod for pod in pods if ignores(pod))
        for resource in range(nodes.requested.shape[0]):
            has, stand = int(nodes.allocatable[resource, row]), there[resource]
            taken = max(int(nodes.requested[resource, row]) - excused[resource], stand)
            if row in waiting:
                taken = stand
            if taken > max(has, 0) and not accounted_elsewhere(world, resource, has):
                what = nodes.resources[resource]
                problems.append(f"I1: {name} promised {taken} of {what} and has {has}")
    return problems


def accounted_elsewhere(world: World, resource: int, has: int) -> bool:
    """An extended resource the node does not have may be served by devices; others by others."""
    name = world.nodes.resources[resource]
    if world.ignores_resource(name):
        return True
    return (
        not has and world.devices is not None and world.devices.device_class_for(name) is not None
    )
