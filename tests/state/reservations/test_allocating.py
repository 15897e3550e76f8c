"""What owners allocate from which reservations, with the whole default profile."""

import msgspec
import numpy as np
import pytest

from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import REGISTRY, default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod, unreserve_and_forget
from holdfast.state.columns.interner import CPU
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.testing import a_node, a_pod, a_reservation, typed

PROFILE = default_profiles()["default-scheduler"]
PREFIX = "scheduling.koordinator.sh"
X = "example.com/x"


def held(name="r", cpu="4", node="n", age=0, **more):
    status = {"phase": "Available", "nodeName": node, "allocatable": {"cpu": cpu}}
    made = a_reservation(name, cpu=cpu, owner_labels={"app": "web"}, status=status, **more)
    return typed(made, creation_timestamp=f"2030-01-01T00:00:{59 - age:02d}Z")


class Cluster:
    """One node with reservations, on which pods are placed one after the other."""

    def __init__(self, *reservations, cpu="8", **node):
        self.world = World()
        self.world.upsert(typed(a_node("n", cpu=cpu, **node)))
        for reservation in reservations:
            self.world.upsert(reservation)
        check_invariants(self.world)

    def place(self, cpu="1", name="p", must=False, **more):
        """Schedule an owner; return what it allocates by reservation, or why it is rejected."""
        notes = {f"{PREFIX}/reservation-affinity": "{}"} if must else None
        pod = typed(a_pod(name, cpu=cpu, labels={"app": "web"}, annotations=notes, **more))
        pod_info = self.world.pod_info(pod)
        outcome = schedule_pod(
            PROFILE, PROFILE.view(pod_info, self.world, 0.0), np.random.default_rng(0)
        )
        check_invariants(self.world)
        if not isinstance(outcome, Placement):
            return outcome.message
        draws = self.world.reservations.allocations_of(pod_info.uid)
        self.notes = outcome.annotations
        return {
            self.world.reservations.at(slot).reservation.name: amounts.get(CPU, 0)
            for slot, amounts in draws.items()
        }


@pytest.mark.parametrize("policy", [None, "Aligned", "Restricted"])
def test_an_owner_allocates_from_its_reservation(policy):
    assert Cluster(held(allocate_policy=policy)).place("3") == {"r": 3000}


@pytest.mark.parametrize(("policy", "placed"), [(None, 1), ("Aligned", 1), ("Restricted", 0)])
def test_what_a_reservation_lacks_comes_from_the_node_unless_it_is_restricted(policy, placed):
    warnings_of = Cluster(held(allocate_policy=policy)).place("6")
    assert (
        warnings_of == {"r": 6000} if placed else "Reservation(s) Insufficient cpu" in warnings_of
    )


def test_default_reservations_of_a_node_add_up_oldest_first():
    cluster = Cluster(held("new", "2"), held("old", "2", age=30), held("mid", "2", age=20), cpu="6")
    assert cluster.place("5") == {"old": 2000, "mid": 2000, "new": 1000}
    named = msgspec.json.decode(cluster.notes[f"{PREFIX}/reservation-allocated"])
    assert named["name"] == "old"
    assert "scheduling.holdfast.dev/reservation-draws" in cluster.notes


def test_aligned_reservations_do_not_add_up():
    one, other = (held(name, "2", allocate_policy="Aligned") for name in ("one", "other"))
    assert "Insufficient cpu by node" in Cluster(one, other, cpu="4").place("3")


def test_the_rest_of_a_used_allocate_once_reservation_cannot_be_allocated():
    cluster = Cluster(held("a", "2", age=30), held("b", "2"), cpu="4")
    assert cluster.place("1", "first") == {"a": 1000}
    assert "Insufficient cpu by node" in cluster.place("3", "second")
    assert cluster.place("2", "third") == {"b": 2000}


def test_an_owner_on_a_node_without_a_reservation_allocates_nothing():
    cluster = Cluster(held(cpu="2"), cpu="2")
    cluster.world.upsert(typed(a_node("m", cpu="8")))
    assert cluster.place("3") == {}
    assert not cluster.notes


def test_an_owner_that_requires_a_reservation_stays_pending_when_none_is_matchable():
    cluster = Cluster(held(cpu="2"))
    assert cluster.place("1", "first") == {"r": 1000}
    assert "no reservations match reservation affinity" in cluster.place("1", "second", must=True)
    assert cluster.place("1", "third") == {}


def test_a_resource_no_reservation_ever_reserved_comes_from_the_node():
    names = [f"example.com/r{i}" for i in range(30)]
    cluster = Cluster(held("a", "2"), held("b", "2"), allocatable=dict.fromkeys(names, "4"))
    assert cluster.place("3", requests={names[-1]: "2"}) == {"a": 2000, "b": 1000}
    assert names[-1] in cluster.place("1", "other", requests={names[-1]: "3"})
    assert "example.com/unknown" in cluster.place(
        "1", "more", requests={"example.com/unknown": "1"}
    )


def test_a_pod_slot_comes_from_the_nominated_reservation_only():
    one, two = held("one", "2", age=30), held("two", "2")
    cluster = Cluster(one, two, pods="2")
    assert cluster.place("1", "first") == {"one": 1000}
    assert cluster.place("1", "second") == {"two": 1000}
    assert "Too many pods" in cluster.place("1", "third")


def test_a_restricted_reservation_of_pod_slots_limits_their_number():
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "8", "pods": "2"}}
    made = a_reservation(
        "r", cpu="8", owner_labels={"app": "web"}, status=status, allocate_policy="Restricted",
        allocate_once=False,
    )  # fmt: skip
    cluster = Cluster(typed(made))
    assert [cluster.place("1", f"p{i}") for i in range(2)] == [{"r": 1000}, {"r": 1000}]
    assert "Reservation(s) Too many pods" in cluster.place("1", "third")


@pytest.mark.parametrize(("policy", "placed"), [(None, True), ("Aligned", False)])
def test_reservations_being_bound_exclude_the_other_policy_from_their_node(policy, placed):
    cluster = Cluster()
    outcomes = []
    for name, wanted in (("first", None), ("second", policy)):
        reservation = typed(a_reservation(name, cpu="1", allocate_policy=wanted))
        cluster.world.upsert(reservation)
        stand_in = reserve_pod(reservation)
        pod_info = cluster.world.pod_info(stand_in, is_reserve_pod=True)
        outcomes.append(
            schedule_pod(
                PROFILE, PROFILE.view(pod_info, cluster.world, 0.0), np.random.default_rng(0)
            )
        )
    first, second = outcomes
    assert isinstance(second, Placement) == placed
    if not placed:
        assert "node(s) reservation allocate policy conflict" in second.message
    unreserve_and_forget(PROFILE, cluster.world, first)
    assert not cluster.world.reservations.being_bound.keys() & {first.pod.uid}


def test_R095_every_one_of_2000_owners_is_allocated_where_there_is_room_for_all():
    world = World()
    for i in range(100):
        world.upsert(typed(a_node(f"n{i}", cpu="16", pods="110")))
        world.upsert(held(f"r{i}", cpu="1", node=f"n{i}", allocate_once=False))
    dice = np.random.default_rng(0)
    for i in range(2000):
        pod = typed(a_pod(f"o{i}", cpu="50m", labels={"app": "web"}))
        placement = schedule_pod(PROFILE, PROFILE.view(world.pod_info(pod), world, 0.0), dice)
        assert f"{PREFIX}/reservation-allocated" in placement.annotations
    assert {len(info.allocated_by_pod) for info in world.reservations} == {20}
    check_invariants(world)


def placed_by(args, reservation, **pod):
    """Return the outcome for an owner under some ReservationArgs."""
    profile = build_profile("p", REGISTRY, args={"Reservation": args})
    world = World()
    for obj in (typed(a_node("n", cpu="16", allocatable={"example.com/x": "9"})), reservation):
        world.upsert(obj)
    pod_info = world.pod_info(typed(a_pod(labels={"app": "web"}, **pod)))
    return schedule_pod(profile, profile.view(pod_info, world, 0.0), np.random.default_rng(0))


def test_an_owner_may_fall_back_to_the_node_if_configured():
    small = held(cpu="2", allocate_policy="Restricted")
    assert "Insufficient cpu" in placed_by({}, small, cpu="4").message
    placement = placed_by({"fallBackToNode": True}, small, cpu="4")
    assert isinstance(placement, Placement)
    assert placement.annotations == {}
    # Where the reservation suffices it is used, and what it holds stays held.
    served = placed_by({"fallBackToNode": True}, small, cpu="2")
    assert f"{PREFIX}/reservation-allocated" in served.annotations
    assert "Insufficient cpu" in placed_by({"fallBackToNode": True}, small, cpu="15").message


@pytest.mark.parametrize(
    "args", [{"ignoredResources": ["example.com/x"]}, {"ignoredResourceGroups": ["example.com"]}]
)
def test_reservations_are_not_considered_for_ignored_resources(args):
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4", X: "2"}}
    room = typed(
        a_reservation(owner_labels={"app": "web"}, status=status, allocate_policy="Restricted")
    )
    much = {"cpu": "1", "requests": {X: "5"}}
    assert f"Insufficient {X}" in placed_by({}, room, **much).message
    assert isinstance(placed_by(args, room, **much), Placement)
    # The node must have the resources in any case.
    assert f"Insufficient {X} by node" in placed_by(args, room, cpu="1", requests={X: "10"}).message
