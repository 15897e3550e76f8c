"""Decisions in a world of objects, without a cluster: try, confirm and edit."""

import numpy as np

from holdfast.api.reservation import Reservation
from holdfast.api.reservation_names import ALLOCATED, DRAWS
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import REGISTRY
from holdfast.scheduling.plugins.reservation.reserve_pods import allocatable, allocated_from
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.reservations.pre_allocation import PreAllocationResult
from holdfast.state.reservations.reserve_pod import reserve_pod
from laws import random_worlds as worlds
from laws.ledger_shape import shape_of

ARGS = {"enablePreemption": True, "preAllocationConfig": {"enableClusterMode": True}}
PROFILE = build_profile("default-scheduler", REGISTRY, args={"Reservation": ARGS})
RESERVING_PROFILE = build_profile(
    "default-scheduler",
    REGISTRY,
    args={"Reservation": {**ARGS, "enableReservationForPreemptor": True}},
)
"""Preempting pods get a reservation."""


def the_world(objects):
    """Return a world with these objects."""
    world = World()
    for obj in objects:
        world.upsert(obj)
    return world


def tried(world, asking):
    """Try to place a pod or a reservation."""
    if isinstance(asking, Reservation):
        world.upsert(asking)
        pod_info = world.pod_info(reserve_pod(asking), is_reserve_pod=True)
    else:
        pod_info = world.pod_info(asking)
    return schedule_pod(PROFILE, PROFILE.view(pod_info, world, 0.0), np.random.default_rng(0))


def edit(world, living, number, change):
    """Edit or end a reservation; pods that use it stay."""
    there = [i for i, obj in enumerate(living) if isinstance(obj, Reservation)]
    if there:
        at = there[number % len(there)]
        living[at] = worlds.edited(living[at], change)
        world.upsert(living[at])


def requested(world):
    """Return what is requested of each node."""
    return {name: row["requested"] for name, row in shape_of(world)["nodes"].items()}


def inherited(placement):
    """Return what a reservation pre-allocates."""
    return getattr(placement.plans.get("Reservation"), "chosen", PreAllocationResult())


def told(living, placement):
    """Return the pre-allocated pods as they are after the write; replaced in place."""
    uids = {pod.uid for pod in inherited(placement).pods}
    notes = {ALLOCATED: allocated_from(placement.pod), DRAWS: ""} if uids else {}
    for i, obj in enumerate(living):
        if obj.uid in uids:
            living[i] = worlds.bound(obj, placement.node, notes)
            yield living[i]


def confirmed(asking, placement):
    """Return the object as it is stored when it is bound."""
    if isinstance(asking, Reservation):
        room, result = allocatable(placement.pod), inherited(placement)
        phase = "Waiting" if result.pods or result.shortfall else "Available"
        notes = {**asking.metadata.annotations, **placement.annotations}
        meta = worlds.replaced(asking.metadata, annotations=notes)
        asking = worlds.replaced(asking, metadata=meta)
        return worlds.on_its_node(asking, placement.node, room, phase)
    return worlds.bound(asking, placement.node, placement.annotations)
