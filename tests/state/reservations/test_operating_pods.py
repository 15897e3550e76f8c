"""Removing pods, one of which acts as a reservation, frees what their deletion frees."""

import json
from itertools import combinations

import pytest

from holdfast.api.koordinator_names import OPERATING_MODE, RESERVATION_OWNERS
from holdfast.api.reservation_names import ALLOCATED, INNER_RESERVED
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.framework.plugin import PodChange
from holdfast.scheduling.framework.world import World
from holdfast.state.reservations.reserved_resources import freed_capacity
from holdfast.testing import a_node, a_pod, typed

OWNERS = json.dumps([{"labelSelector": {"matchLabels": {"app": "web"}}}])
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pods(owner_cpu, inner):
    """A pod that acts as a reservation, its owner if there is one, and another pod."""
    notes = {RESERVATION_OWNERS: OWNERS, INNER_RESERVED: json.dumps({"resources": inner})}
    acting = a_pod(
        "acting", cpu="4", memory="2Gi", node="n", status=READY, annotations=notes,
        labels={OPERATING_MODE: "Reservation"}, metadata={"uid": "u-acting"},
    )  # fmt: skip
    yield typed(acting)
    if owner_cpu is not None:
        allocated = {ALLOCATED: json.dumps({"name": "acting", "uid": "u-acting"})}
        yield typed(
            a_pod(
                "owner", cpu=owner_cpu, memory="1Gi", node="n", labels={"app": "web"},
                annotations=allocated, metadata={"uid": "u-owner"},
            )
        )  # fmt: skip
    yield typed(a_pod("other", cpu="1", node="n", metadata={"uid": "u-other"}))


def requested(world):
    row = world.nodes.row_of["n"]
    return {r: int(world.nodes.requested[r, row]) for r in range(len(world.nodes.requested))}


@pytest.mark.parametrize("owner_cpu", [None, "1", "4", "6"])
@pytest.mark.parametrize("inner", [{}, {"cpu": "2"}])
def test_removed_pods_free_what_their_deletion_frees(owner_cpu, inner):
    world = World()
    world.upsert(typed(a_node("n", cpu="16")))
    there = list(pods(owner_cpu, inner))
    for pod in there:
        world.upsert(pod)
    check_invariants(world)
    row, before = world.nodes.row_of["n"], requested(world)
    for size in range(1, len(there) + 1):
        for gone in combinations(there, size):
            change = PodChange(removed={row: tuple(map(world.pod_info, gone))})
            freed = freed_capacity(world.reservations, change).rows[row]
            after = world.fork()
            for pod in gone:
                after.delete(pod)
            check_invariants(after)
            expected = {r: amount - requested(after)[r] for r, amount in before.items()}
            assert {r: freed.get(r, 0) for r in before} == expected, [pod.name for pod in gone]


def test_pods_and_their_owners_may_come_in_any_order():
    objects = [typed(a_node("n", cpu="16")), *pods("6", {})]
    sums = []
    for order in (objects, objects[::-1]):
        world = World()
        for obj in order:
            world.upsert(obj)
        check_invariants(world)
        sums.append(requested(world))
    assert sums[0] == sums[1]


def test_a_pod_that_no_longer_acts_counts_as_any_pod():
    world = World()
    world.upsert(typed(a_node("n", cpu="16")))
    acting, *others = pods("4", {})
    for pod in (acting, *others):
        world.upsert(pod)
    assert requested(world)[0] == 5000
    world.upsert(typed(a_pod("acting", cpu="4", memory="2Gi", node="n", status=READY,
                             metadata={"uid": "u-acting"})))  # fmt: skip
    check_invariants(world)
    assert requested(world)[0] == 9000 and not len(world.reservations)
