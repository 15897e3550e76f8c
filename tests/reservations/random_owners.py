"""Random worlds of reservations and owners, and the check of each row against the arrays."""

import numpy as np

from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.scheduling.plugins.reservation.owner_fit import (
    fit_owner,
    nominable,
    reservation_scores,
)
from holdfast.scheduling.plugins.reservation.owner_plan import OwnerPlan
from holdfast.scheduling.plugins.reservation.row_fit import fit_row, reservation_score
from holdfast.state.reservations.reserved_resources import NOTHING_FREED, freed_capacity
from holdfast.testing import a_node, a_pod, a_reservation, typed

GPU = "example.com/gpu"
POLICIES = ("", "Aligned", "Restricted")


def a_world(random, *, ordered=True):
    world = World()
    for i in range(5):
        world.upsert(typed(a_node(f"n{i}", cpu="8", memory="16Gi", **{GPU: 2})))
    for i in range(10):
        world.upsert(a_random_reservation(random, i, ordered=ordered))
    return world


def a_random_reservation(random, i, *, ordered):
    phase = random.choice(("Available", "Available", "Available", "Waiting"))
    # A waiting reservation may hold more than its node has left.
    cpu = random.randint(1, 4) + (5 if phase == "Waiting" else 0)
    amounts = {"cpu": f"{cpu}", "memory": f"{random.randint(1, 4)}Gi"}
    if random.random() < 0.4:
        amounts[random.choice((GPU, "pods"))] = str(random.randint(1, 3))
    more = {"labels": {"scheduling.koordinator.sh/reservation-order": str(random.randint(1, 3))}}
    metadata = {"creationTimestamp": f"2026-01-0{random.randint(1, 3)}T00:00:00Z"}
    return typed(
        a_reservation(
            f"r{i}",
            owner_labels={"app": "web" if phase == "Available" else random.choice(("web", "db"))},
            allocate_once=random.random() < 0.3,
            allocate_policy=random.choice(POLICIES),
            metadata=metadata | (more if ordered and random.random() < 0.3 else {}),
            status={
                "phase": phase,
                "nodeName": f"n{random.randint(0, 4)}",
                "allocatable": amounts,
            },
        )
    )


def an_owner(random, name):
    more = {GPU: "1"} if random.random() < 0.3 else {}
    labels = {"app": "web"}
    if random.random() < 0.2:
        labels["scheduling.koordinator.sh/reservation-ignored"] = "true"
    if random.random() < 0.3:
        more["annotations"] = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    return a_pod(name, cpu=f"{random.randint(1, 8) * 250}m", memory="512Mi", labels=labels, **more)


def plan_of(world, pod):
    pod_info = world.pod_info(typed(pod))
    found = ReservationPlugin({}).pre_filter(pod_info, View(world, pod_info, 0.0))
    assert isinstance(found, OwnerPlan)
    return found


def check_rows(plan, change):
    back = freed_capacity(plan.reservations, change) if change else NOTHING_FREED
    found = fit_owner(plan, back)
    named = nominable(plan, found)
    scores, match = reservation_scores(plan, found), plan.match
    for here, row in enumerate(match.rows.tolist()):
        one = fit_row(plan, row, back)
        assert one.passes == found.passes[here]
        for i, (info, fit) in enumerate(one.fits, one.begin):
            assert info.slot == match.slots[i]
            assert fit._asdict() == {name: getattr(found, name)[i] for name in fit._fields}
            assert (info in one.nominable) == named[i]
            assert reservation_score(info, plan.compared_with(info.slot), fit) == scores[i]
            assert one.scores.get(info.slot) == (scores[i] if found.serves[i] else None)


def play(random, world, steps, on_step=lambda _plan, _placement: None, *, an_owner=an_owner):
    """Place owners and delete some of them again, and call ``on_step`` after each placement."""
    profile: Profile = default_profiles()["default-scheduler"]
    rng = np.random.default_rng(random.randint(0, 99))
    plugin, standing = profile.plugin("Reservation"), []
    for step in range(steps):
        if standing and random.random() < 0.3:
            pod_info = standing.pop(random.randrange(len(standing)))
            world.reservations.deallocate(pod_info.uid)
            world.forget(pod_info.uid)
        else:
            pod_info = world.pod_info(typed(an_owner(random, f"p{step}")))
            found = decide(profile, profile.view(pod_info, world, 0.0), rng)
            if isinstance(found, Placement):
                world.assume(pod_info, found.row)
                if (plan := found.plans.get(plugin.name)) is not None:
                    on_step(plan, found)
                    plan.reserve(found)
                standing.append(pod_info)
        yield standing
