"""Events of pods that change no resources, but make a pod pre-allocatable."""

import numpy as np

from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import REGISTRY
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.testing import a_node, a_pod, a_reservation, typed

ARGS = {"Reservation": {"preAllocationConfig": {"enableClusterMode": True}}}
PROFILE = build_profile("default-scheduler", REGISTRY, args=ARGS)
OFFERED = {"pod.koordinator.sh/is-pre-allocatable": "true"}
RANK = "pod.koordinator.sh/pre-allocatable-priority"
MINE = {"app": "a"}


def the_world(*objects):
    world = World()
    for obj in objects:
        world.upsert(typed(obj))
    return world


def tried(world, reservation):
    """Schedule a reservation; return the pods it pre-allocates, None if it fits nowhere."""
    pod_info = world.pod_info(reserve_pod(reservation), is_reserve_pod=True)
    outcome = schedule_pod(PROFILE, PROFILE.view(pod_info, world, 0.0), np.random.default_rng(0))
    if not isinstance(outcome, Placement):
        return None
    return [pod.name for pod in outcome.plans["Reservation"].chosen.pods]


def test_a_confirmed_pod_is_pre_allocatable():
    world = the_world(a_node("n", cpu="4"), a_pod("small", cpu="1", node="n", labels=MINE))
    world.assume(world.pod_info(typed(a_pod("big", cpu="3", labels=MINE))), world.nodes.row_of["n"])
    pre_allocating = typed(a_reservation("r", cpu="3", owner_labels=MINE, pre_allocation=True))
    world.upsert(pre_allocating)
    assert tried(world, pre_allocating) is None
    world.upsert(typed(a_pod("big", cpu="3", node="n", labels=MINE)))
    assert tried(world, pre_allocating) == ["big"]


def test_a_pod_with_a_higher_priority_annotation_is_chosen():
    def pre_allocatable(name, **notes):
        return a_pod(name, cpu="1", node="n", labels=OFFERED, annotations=notes)

    world = the_world(a_node("n", cpu="2"), pre_allocatable("a"), pre_allocatable("b"))
    ways = {"mode": "Cluster", "enableMultiple": True}
    pre_allocating = typed(
        a_reservation("r", cpu="1", pre_allocation=True, pre_allocation_policy=ways)
    )
    world.upsert(pre_allocating)
    # The reservation is only filtered: placing it would be a change of its own.
    pod_info = world.pod_info(reserve_pod(pre_allocating), is_reserve_pod=True)
    assert chosen(world, pod_info) == ["a"]
    world.upsert(typed(pre_allocatable("b", **{RANK: "9"})))
    assert chosen(world, pod_info) == ["b"]


def chosen(world, pod_info):
    found = feasible(PROFILE, PROFILE.view(pod_info, world, 0.0))
    (plan,) = [p.plan for p in found.outcomes if p.use.name == "Reservation"]
    return [pod.name for pod in plan.decide(int(found.rows[0])).pods]
