"""Pre-allocation: no resource is reserved twice, and freed resources go to the reservation."""

from collections import Counter
from random import Random

import msgspec
import numpy as np

from holdfast.api.annotations import allocated_reservation
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_names import ALLOCATED, DRAWS
from holdfast.controllers.reservation.plan import plan_reservation
from holdfast.controllers.reservation.usage import NodeUsage
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import REGISTRY
from holdfast.scheduling.plugins.reservation.reserve_pods import allocatable, allocated_from
from holdfast.scheduling.scheduler.cycle import schedule_pod, unreserve_and_forget
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import sum_of
from holdfast.state.reservations.pre_allocation import PreAllocationResult
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.testing import a_node, a_pod, a_reservation, typed
from laws import random_worlds as worlds
from laws.ledger_shape import shape_of
from soak_size import SEED, TIMES

ARGS = {"preAllocationConfig": {"enableClusterMode": True}}
PROFILE = build_profile("default-scheduler", REGISTRY, args={"Reservation": ARGS})
SEEDS, STEPS = range(SEED, SEED + 16 * TIMES), 40
HOLDING = ("Available", "Waiting")


class Town:
    """A small full cluster as objects, and the scheduler's world."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.world = World()
        self.nodes = [typed(a_node(f"n{i}", cpu="4", memory="8Gi", pods="5")) for i in range(2)]
        self.living = {}
        self.made = 0
        self.seen = Counter()
        for node in self.nodes:
            self.world.upsert(node)

    def put(self, obj):
        """Add or update an object."""
        self.living[obj.uid] = obj
        self.world.upsert(obj)

    def all(self, kind):
        return [obj for obj in self.living.values() if isinstance(obj, kind)]

    def step(self):
        deed = self.random.choices([self.pod, self.reservation, self.leave], [4, 4, 3])[0]
        deed()
        check_invariants(self.world)
        self.look_after()
        check_invariants(self.world)

    def pod(self):
        pick = self.random.choice
        labels = {"app": pick("ab")} | ({worlds.OFFERED: "true"} if pick([0, 1]) else {})
        self.place(
            typed(a_pod(self.name("p"), cpu=pick(["500m", "500m", "1", "2"]), labels=labels))
        )

    def reservation(self):
        pick = self.random.choice
        ways = {
            "mode": pick(["Default", "Default", "Cluster"]),
            "enableMultiple": pick([True, True, False]),
        }
        inherits = {"pre_allocation": True, "pre_allocation_policy": ways}
        asking = a_reservation(
            self.name("r"), cpu=pick(["1", "2", "4"]), owner_labels={"app": pick("ab")},
            allocate_once=pick([True, False]), **(inherits if pick([0, 1, 1]) else {}),
        )  # fmt: skip
        self.place(typed(asking))

    def name(self, kind):
        self.made += 1
        return f"{kind}{self.made}"

    def leave(self):
        if self.living:
            gone = self.living.pop(self.random.choice(list(self.living)))
            self.world.delete(gone)

    def place(self, asking):
        """Try to place it; sometimes the binding fails."""
        reserves = isinstance(asking, Reservation)
        if reserves:
            self.world.upsert(asking)
            pod_info = self.world.pod_info(reserve_pod(asking), is_reserve_pod=True)
        else:
            pod_info = self.world.pod_info(asking)
        before = shape_of(self.world)
        outcome = schedule_pod(
            PROFILE, PROFILE.view(pod_info, self.world, 0.0), np.random.default_rng(0)
        )
        if not isinstance(outcome, Placement):
            self.world.delete(asking)
            return
        check_invariants(self.world)
        if self.random.random() < 0.2:
            unreserve_and_forget(PROFILE, self.world, outcome)
            assert shape_of(self.world) == before, "undo restores the previous state"
            self.seen["undone"] += 1
            self.world.delete(asking)
            return
        self.confirm(asking, outcome)

    def confirm(self, asking, placement):
        held, shared = requested(self.world), Counter()
        if not isinstance(asking, Reservation):
            self.put(worlds.bound(asking, placement.node, placement.annotations))
        else:
            result = getattr(placement.plans["Reservation"], "chosen", PreAllocationResult())
            for pod in result.pods:
                told = self.living[pod.uid]
                before = self.living.get(getattr(allocated_reservation(told), "uid", None))
                assert before is None or before.phase not in HOLDING, "it was inherited already"
                notes = {ALLOCATED: allocated_from(placement.pod), DRAWS: ""}
                self.put(worlds.bound(told, placement.node, notes))
                shared = Counter({**(shared + sum_of([pod])), PODS: 1})
            room = allocatable(placement.pod)
            phase = "Waiting" if result.pods or result.shortfall else "Available"
            self.put(worlds.on_its_node(asking, placement.node, room, phase))
            self.seen.update(inherit=bool(result.pods), several=len(result.pods) > 1,
                             wait=bool(result.shortfall))  # fmt: skip
        for resource, amount in shared.items():
            # Until it is confirmed both count; afterwards the larger of them.
            held[placement.node][self.world.nodes.resources[resource]] -= amount
        assert requested(self.world) == held, "confirming changes nothing"

    def look_after(self):
        """Write what the controller would write."""
        for reservation in self.all(Reservation):
            plan = plan_reservation(reservation, self.usage(reservation.status.node_name), 0.0)
            for write in plan.writes:
                phase = write.patch["status"].get("phase", reservation.phase)
                self.seen[f"{reservation.phase} to {phase}"] += 1
                after = msgspec.structs.replace(reservation.status, phase=phase)
                owners = write.patch["status"].get("currentOwners")
                if owners is not None:
                    raw = msgspec.json.encode({"currentOwners": owners})
                    known = msgspec.json.decode(raw, type=type(after)).current_owners
                    given = write.patch["status"].get("allocated", after.allocated)
                    used = {k: v for k, v in given.items() if v}
                    after = msgspec.structs.replace(after, current_owners=known, allocated=used)
                self.put(msgspec.structs.replace(reservation, status=after))

    def usage(self, name):
        node = next(n for n in self.nodes if n.name == name)
        pods = tuple(p for p in self.all(Pod) if p.spec.node_name == name)
        there = (r for r in self.all(Reservation) if r.phase in HOLDING)
        return NodeUsage(node, pods, tuple(r for r in there if r.status.node_name == name))


def cpu_of(town, reservation):
    return town.world.reservations.by_uid[reservation.uid].reserved[0]


def requested(world):
    return {name: row["requested"] for name, row in shape_of(world)["nodes"].items()}


def live(seed):
    town = Town(seed)
    for _ in range(STEPS):
        town.step()
    fresh = World()
    for obj in (*town.nodes, *town.living.values()):
        fresh.upsert(obj)
    assert shape_of(fresh) == shape_of(town.world), "a restart restores the same ledgers"
    for pod in town.all(Pod):
        town.world.delete(town.living.pop(pod.uid))
    for _ in town.living:
        town.look_after()
    check_invariants(town.world)
    held = [r for r in town.all(Reservation) if r.phase in HOLDING]
    for node in town.nodes:
        there = [r for r in held if r.status.node_name == node.name]
        free = 4000 - sum(cpu_of(town, r) for r in there if r.phase == "Available")
        # Reservations are served in the order of their creation.
        first = min((r for r in there if r.phase == "Waiting"), key=lambda r: r.uid, default=None)
        assert first is None or cpu_of(town, first) > free, f"{first.name} waits for free room"
    return town.seen


def test_used_resources_are_pre_allocated_once_and_allocated_when_free():
    seen = Counter()
    for seed in SEEDS:
        try:
            seen += live(seed)
        except AssertionError as broken:
            broken.add_note(f"seed {seed}")
            raise
    for what in ("inherit", "several", "wait", "undone", "Waiting to Available"):
        assert seen[what] > 1, (what, seen)
