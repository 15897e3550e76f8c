"""A CPU and a unit of a device have one holder; ledgers of identities agree with the objects."""

import numpy as np
import pytest

from holdfast.api.node_resource_topology import NodeResourceTopology
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.shared_device import SharedDevices
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.plugins.reservation import row_reasons
from holdfast.scheduling.scheduler.cycle import (
    SchedulingFailure,
    schedule_pod,
    unreserve_and_forget,
)
from holdfast.testing import typed
from laws import random_worlds as worlds
from laws.core_worlds import NODES, RandomCores, words_of
from laws.decided_worlds import PROFILE, confirmed, the_world, tried
from laws.identity_audit import shared_identities, wrong_amounts
from laws.ledger_shape import shape_of
from soak_size import SEED, rounds

HOST = "kubernetes.io/hostname"
STEPS = 16
SEEDS = range(SEED, SEED + rounds(12))


class World:
    """A world and its objects, changed by random decisions; ``log`` says what happened."""

    def __init__(self, seed):
        self.make = RandomCores(seed)
        self.log, self.living = [], []
        for name in NODES:
            for raw in self.make.node_objects(name):
                self.log.append(words_of(raw))
                self.living.append(typed(raw))
        self.world = the_world(self.living)

    @property
    def placed(self):
        """The pods and reservations that are there."""
        return [obj for obj in self.living if isinstance(obj, Pod | Reservation)]

    def step(self):
        """Place a pod or a reservation, or end one."""
        dice = self.make.random.random()
        if dice < 0.55:
            self.place(self.make.pod())
        elif dice < 0.8 or not self.placed:
            self.place(self.make.reservation())
        elif dice < 0.9:
            self.end(self.make.random.choice(self.placed))
        else:
            self.delete(self.make.random.choice(self.placed))
        check_invariants(self.world)
        check_identities(self.living)

    def place(self, raw):
        """Try to place an object, and confirm the decision."""
        asking, world = typed(raw), self.world
        outcome = tried(world, asking)
        if isinstance(outcome, SchedulingFailure):
            self.log.append(f"{words_of(raw)}: {outcome.message}")
            assert not outcome.error, outcome.message
            if isinstance(asking, Reservation):
                world.delete(asking)
            return
        self.log.append(
            f"{words_of(raw)}: {outcome.node} {outcome.reservation} {outcome.annotations}"
        )
        assumed = identities(world)
        stored = confirmed(asking, outcome)
        world.upsert(stored)
        self.living.append(stored)
        assert identities(world) == assumed, "confirmed as assumed"

    def end(self, obj):
        """End a reservation, or finish a pod."""
        self.log.append(f"ends {obj.name}")
        phase = "Failed" if isinstance(obj, Reservation) else "Succeeded"
        ended = worlds.replaced(obj, status=worlds.replaced(obj.status, phase=phase))
        self.world.upsert(ended)
        self.living[self.living.index(obj)] = ended

    def delete(self, obj):
        """Delete an object."""
        self.log.append(f"deletes {obj.name}")
        self.world.delete(obj)
        self.living.remove(obj)


def identities(world):
    """Return who has which CPUs and devices; what is Restricted is known when it is bound."""
    shape = shape_of(world)
    holders = {
        name: (pods, {uid: held.allocation for uid, held in reservations.items()})
        for name, (pods, reservations) in shape["cpus"]["holders"].items()
    }
    return [shape["cpus"]["states"], holders, shape["shared by percent"]]


def check_identities(living):
    pods, reservations, topologies, devices = (
        [obj for obj in living if isinstance(obj, kind)]
        for kind in (Pod, Reservation, NodeResourceTopology, SharedDevices)
    )
    faults = [
        *shared_identities(pods, reservations, devices),
        *wrong_amounts(pods, reservations, topologies, devices),
    ]
    assert not faults, faults


@pytest.mark.parametrize("seed", SEEDS)
def test_identities_have_one_holder_and_ledgers_equal_the_objects(seed, monkeypatch):
    case = World(seed)
    try:
        for _ in range(STEPS):
            case.step()
            asking = case.make.pod()
            case.log.append(f"might place {words_of(asking)}")
            check_rows_that_pass(case.world, typed(asking))
            check_reasons(case.world, typed(asking), monkeypatch)
        check_undo(case)
        assert shape_of(case.world) == shape_of(the_world(case.living)), "a restart finds the same"
        check_order_of_events(case)
    except AssertionError as wrong:
        wrong.add_note("\n".join(case.log))
        raise


def check_rows_that_pass(world, asking):
    """A pod can be reserved on exactly the rows that pass the filters."""
    found = feasible(PROFILE, PROFILE.view(world.pod_info(asking), world, 0.0))
    rows = found.rows.tolist() if isinstance(found, Feasible) else []
    passing = {world.nodes.names[row] for row in rows}
    for node in world.nodes.row_of:
        fork, spec = world.fork(), worlds.replaced(asking.spec, node_selector={HOST: node})
        pinned = fork.pod_info(worlds.replaced(asking, spec=spec))
        outcome = schedule_pod(PROFILE, PROFILE.view(pinned, fork, 0.0), np.random.default_rng(0))
        assert isinstance(outcome, Placement) == (node in passing), (node, outcome)


def check_reasons(world, asking, monkeypatch):
    """The reasons of many rows at once are those of the rows one by one."""
    messages = []
    for few in (0, len(NODES)):
        monkeypatch.setattr(row_reasons, "FEW", few)
        fork = world.fork()
        pod = fork.pod_info(asking)
        outcome = schedule_pod(PROFILE, PROFILE.view(pod, fork, 0.0), np.random.default_rng(0))
        messages.append(outcome.message if isinstance(outcome, SchedulingFailure) else "")
    assert messages[0] == messages[1]


def check_undo(case):
    """What is not bound leaves nothing in the ledgers."""
    for raw in (case.make.pod(), case.make.reservation()):
        case.log.append(f"undoes {words_of(raw)}")
        asking, world = typed(raw), case.world
        if isinstance(asking, Reservation):
            world.upsert(asking)
        before = shape_of(world)
        outcome = tried(world, asking)
        if isinstance(outcome, Placement):
            unreserve_and_forget(PROFILE, world, outcome)
        assert shape_of(world) == before
        if isinstance(asking, Reservation):
            world.delete(asking)


def check_order_of_events(case):
    """Events in another order, some of them twice, make the same world."""
    random, living = case.make.random, case.living
    expected = shape_of(the_world(living))
    world = the_world(random.sample(living, len(living)))
    for detour in random.sample(living, min(4, len(living))):
        world.delete(detour)
        world.upsert(detour)
    assert shape_of(world) == expected, "the order of events makes no difference"
