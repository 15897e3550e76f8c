"""What a reservation holds, what remains of it, and events in unusual order."""

import pytest

from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import CPU, MEMORY, PODS
from holdfast.state.reservations import matching
from holdfast.state.reservations.reserved_resources import expected_reservation
from holdfast.testing import a_node, a_pod, a_reservation, typed
from state.reservations.reserved_world import a_world, drawing, held


def requested(world, resource=CPU, node="n"):
    return int(world.nodes.requested[resource, world.nodes.row_of[node]])


def remaining(world, reservation, resource=CPU):
    return int(
        world.reservations.columns.remaining[
            resource, world.reservations.by_uid[reservation.uid].slot
        ]
    )


def matches(world, name="p"):
    pod_info = world.pod_info(typed(a_pod(name, labels={"app": "r"})))
    match = world.match(pod_info)
    found = [] if match is None else [world.reservations.at(int(s)) for s in match.slots]
    return [
        info.reservation.name for info in found if world.reservations.columns.matchable[info.slot]
    ]


@pytest.mark.parametrize(
    ("reserved", "inner", "drawn", "on_the_node", "left"),
    [
        ("4", None, [], 4000, 4000),
        ("4", None, ["1"], 4000, 3000),
        ("4", None, ["1", "3"], 4000, 0),
        ("4", None, ["6"], 6000, 0),
        ("6", None, ["4", "4"], 8000, 0),
        ("7", "1", ["2"], 7000, 4000),
        ("7", "1", ["6500m"], 7500, 0),
        ("7", "1", ["2", "7"], 10000, 0),
        ("1", "1", [], 1000, 0),
    ],
)
def test_the_hold_is_the_larger_of_reserved_and_allocated_with_inner_reserved(
    reserved, inner, drawn, on_the_node, left
):
    r = held(reserved={"cpu": reserved}, inner=inner, allocate_once=False)
    pods = [drawing(f"p{i}", r, cpu=cpu) for i, cpu in enumerate(drawn)]
    world = a_world(r, *pods)
    assert (requested(world), remaining(world, r)) == (on_the_node, left)


def test_resources_that_are_not_reserved_are_not_held():
    r = held(reserved={"cpu": "4", "memory": "4Gi"})
    pod = drawing("p", r, cpu="4")
    other = held("m", reserved={"cpu": "1"})
    world = a_world(r, pod, other)
    assert requested(world, MEMORY) == 4 * 2**30
    assert requested(world) == 5000


@pytest.mark.parametrize(
    ("reserved", "owners", "slots", "left"),
    [
        ({}, 0, 1, 1),
        ({}, 1, 1, 0),
        ({}, 2, 2, 0),
        ({"pods": "2"}, 1, 2, 1),
        ({"pods": "2"}, 3, 3, 0),
    ],
)
def test_pod_slots_follow_the_same_sums(reserved, owners, slots, left):
    r = held(reserved={"cpu": "4"} | reserved, allocate_once=False)
    world = a_world(r, *(drawing(f"p{i}", r) for i in range(owners)))
    assert (requested(world, PODS), remaining(world, r, PODS)) == (slots, left)


def test_an_allocate_once_reservation_stops_matching_when_a_pod_is_assumed():
    r = held()
    world = a_world(r)
    assert matches(world) == ["r"]
    world.reservations.allocate("a-pod", {r.uid: {CPU: 1000}})
    assert matches(world) == []
    world.reservations.deallocate("a-pod")
    assert matches(world) == ["r"]


def test_a_reusable_reservation_still_matches():
    r = held(allocate_once=False)
    world = a_world(r, drawing("a", r, cpu="4"))
    assert matches(world) == ["r"]


@pytest.mark.parametrize("phase", ["Pending", "Waiting", "Succeeded", "Failed"])
def test_only_an_available_reservation_matches(phase):
    assert matches(a_world(held(phase=phase))) == []


def test_a_waiting_reservation_holds_its_resources():
    assert requested(a_world(held(phase="Waiting"))) == 4000


def test_an_allocation_is_replaced_not_added():
    r, s = held(allocate_once=False), held("s", allocate_once=False)
    world = a_world(r, s)
    world.reservations.allocate("p", {r.uid: {CPU: 1000}})
    world.reservations.allocate("p", {r.uid: {CPU: 3000}})
    assert (remaining(world, r), remaining(world, s)) == (1000, 4000)
    world.reservations.allocate("p", {s.uid: {CPU: 3000}})
    assert (remaining(world, r), remaining(world, s)) == (4000, 1000)


def test_a_confirmed_allocation_equals_the_assumed_one():
    r = held(allocate_once=False)
    world = a_world(r)
    world.reservations.allocate("uid-pod-default-p", {r.uid: {CPU: 2000}})
    world.upsert(drawing("p", r, cpu="2"))
    assert remaining(world, r) == 2000
    check_invariants(world)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_nodes_reservations_and_pods_may_be_read_in_any_order(order):
    r = held(allocate_once=False)
    news = [typed(a_node("n", cpu="16")), r, drawing("p", r, cpu="3")]
    world = World()
    for i in order:
        world.upsert(news[i])
    assert (requested(world), remaining(world, r)) == (4000, 1000)
    check_invariants(world)


def test_a_pod_deleted_before_its_reservation_is_seen_leaves_nothing():
    r = held()
    pod = drawing("p", r, cpu="3")
    world = a_world(pod)
    world.delete(pod)
    world.upsert(r)
    assert (requested(world), remaining(world, r), matches(world)) == (4000, 4000, ["r"])


def test_the_end_of_one_reservation_keeps_the_allocation_from_another():
    r, s = held(allocate_once=False), held("s", allocate_once=False, owner_labels={"app": "r"})
    pod = drawing("p", r, s, cpu="6", draws=["4", "2"])
    world = a_world(r, s, pod)
    assert (requested(world), remaining(world, s)) == (8000, 2000)
    world.delete(r)
    assert (requested(world), remaining(world, s)) == (8000, 2000)
    world.delete(pod)
    assert (requested(world), remaining(world, s)) == (4000, 4000)
    check_invariants(world)


def test_an_owner_that_was_made_smaller_draws_less():
    r, s = held(allocate_once=False), held("s", allocate_once=False, owner_labels={"app": "r"})
    world = a_world(r, s, drawing("p", r, s, cpu="6", draws=["4", "2"]))
    world.upsert(drawing("p", r, s, cpu="1", draws=["4", "2"]))
    assert (requested(world), remaining(world, r), remaining(world, s)) == (8000, 3000, 4000)
    check_invariants(world)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_when_a_reservation_ends_its_owners_count_as_ordinary_pods(phase):
    r = held(allocate_once=False)
    world = a_world(r, drawing("p", r, cpu="1"))
    world.upsert(held(phase=phase, allocate_once=False))
    assert requested(world) == 1000
    assert requested(world, PODS) == 1


def test_a_node_added_again_holds_the_resources_again():
    r, node = held(allocate_once=False), typed(a_node("n", cpu="16"))
    world = a_world(r, drawing("p", r, cpu="1"))
    world.delete(node)
    assert matches(world) == []
    for name in ("another", "n"):
        world.upsert(typed(a_node(name, cpu="16")))
    assert (requested(world), requested(world, node="another")) == (4000, 0)
    assert (remaining(world, r), matches(world)) == (3000, ["r"])
    check_invariants(world)


def reserve_pod_of(world, reservation):
    stand_in = typed(a_pod(reservation.name, cpu="4"), uid=reservation.uid)
    world.assume(world.pod_info(stand_in, is_reserve_pod=True), world.nodes.row_of["n"])


def test_the_hold_replaces_the_assumed_reserve_pod():
    r = held()
    world = a_world()
    reserve_pod_of(world, r)
    world.upsert(r)
    assert (requested(world), requested(world, PODS)) == (4000, 1)
    assert not world.nodes.is_assumed(r.uid)


@pytest.mark.parametrize("end", ["Failed", "Succeeded", "deleted"])
def test_a_reservation_that_ended_unseen_leaves_no_assumed_pod(end):
    world, pending = a_world(), held(phase="Pending", node="")
    world.upsert(pending)
    reserve_pod_of(world, pending)
    if end == "deleted":
        world.delete(pending)
    else:
        world.upsert(held(phase=end))
    assert requested(world) == 0
    assert not world.reservations.pending


def test_a_pending_reservation_keeps_its_reserve_pod_assumed():
    world, pending = a_world(), held(phase="Pending", node="")
    reserve_pod_of(world, pending)
    world.upsert(pending)
    assert world.nodes.is_assumed(pending.uid)


def test_the_columns_grow_with_reservations_and_resources():
    names = [f"example.com/r{i}" for i in range(40)]
    reservations = [held(f"r{i}", reserved={"cpu": "100m", n: "1"}) for i, n in enumerate(names)]
    world = a_world(*reservations, **dict.fromkeys(names, "1"))
    assert requested(world) == 4000
    ids = [world.reservations.resource_id(name) for name in names]
    assert [remaining(world, r, i) for r, i in zip(reservations, ids, strict=True)] == [1] * 40
    for r in reservations[::2]:
        world.delete(r)
    world.upsert(held("late", reserved={"cpu": "100m"}))
    assert requested(world) == 2100
    check_invariants(world)


def test_a_fork_and_its_original_are_independent():
    r = held(allocate_once=False)
    world = a_world(r, drawing("p", r, cpu="1"))
    fork = world.fork()
    fork.reservations.allocate("q", {r.uid: {CPU: 2000}})
    fork.delete(drawing("p", r, cpu="1"))
    assert (remaining(world, r), remaining(fork, r)) == (3000, 2000)
    world.delete(r)
    assert (requested(world), requested(fork)) == (1000, 2000)
    assert matches(fork) == ["r"]
    check_invariants(world)


@pytest.mark.parametrize("pod_first", [True, False])
def test_a_pod_on_another_node_allocates_nothing(pod_first):
    """Any client may write the annotation: it must not free the resources it names."""
    r, far = held(), typed(a_node("far"))
    pod = drawing("liar", r, cpu="3", node="far")
    world = a_world(*((far, pod, r) if pod_first else (far, r, pod)))
    assert (requested(world), remaining(world, r)) == (4000, 4000)
    assert requested(world, node="far") == 3000
    check_invariants(world.fork())
    world.delete(pod)
    assert (requested(world), requested(world, node="far")) == (4000, 0)


def test_allocations_are_counted_again_when_a_reservation_changes_its_node():
    r, far = held(), typed(a_node("far"))
    here, there = drawing("here", r, cpu="1"), drawing("there", r, cpu="2", node="far")
    world = a_world(far, r, here, there)
    assert (requested(world), requested(world, node="far")) == (4000, 2000)
    world.upsert(held(node="far"))
    assert (requested(world), requested(world, node="far")) == (1000, 4000)
    check_invariants(world)


def test_the_cache_of_matches_is_bounded():
    world = a_world(held())
    for i in range(10_000):
        wish = {"scheduling.koordinator.sh/reservation-affinity": f'{{"name":"r{i}"}}'}
        world.match(world.pod_info(typed(a_pod("p", labels={"app": "r"}, annotations=wish))))
    assert len(world.reservations._matcher._matches) < 5000


def test_rows_with_allocations_are_those_of_nodes_with_owners():
    r = held()
    world = a_world(r, typed(a_node("m")))
    assert world.reservations.rows_with_allocations().tolist() == []
    world.upsert(drawing("p", r))
    assert world.reservations.rows_with_allocations().tolist() == [world.nodes.row_of["n"]] == [0]


def test_a_pod_is_expected_in_a_reservation_that_is_just_large_enough():
    ours = {"owner_labels": {"app": "r"}, "allocate_once": False}
    rooms = [held("a", **ours), held("b", reserved={"cpu": "9"}, inner="1", **ours)]
    world = a_world(*rooms, drawing("p", rooms[0]), drawing("q", rooms[1], cpu="6"))
    for cpu, name in (("1", "a"), ("4", "a"), ("5", "b"), ("8", "b"), ("9", "a")):
        pod = world.pod_info(typed(a_pod("new", cpu=cpu, labels={"app": "r"})))
        found = expected_reservation(world.reservations, world.nodes.row_of["n"], pod)
        assert found is not None
        assert found.reservation.name == name, cpu


def test_the_cache_of_pod_kinds_is_bounded(monkeypatch):
    monkeypatch.setattr(matching, "_MAX_WITHOUT_OWNER", 2)
    monkeypatch.setattr(matching, "_MOST_MATCHES", 2)
    world = a_world(held(owner_labels={"app": "r"}))
    matcher = world.reservations._matcher
    for number in range(5):
        unlike = {"app": f"other{number}"}
        assert world.match(world.pod_info(typed(a_pod(f"s{number}", labels=unlike)))) is None
        assert 1 <= len(matcher._without_owner) <= 2
        tolerations = [{"key": f"k{number}", "operator": "Exists"}]
        mine = a_pod(f"p{number}", labels={"app": "r"}, tolerations=tolerations)
        assert world.match(world.pod_info(typed(mine))) is not None
        assert 1 <= len(matcher._matches) <= 2


@pytest.mark.parametrize("name", ["cpu", "memory", "ephemeral-storage"])
def test_every_resource_of_a_node_can_be_the_only_one_reserved(name):
    r = held(reserved={name: "4"})
    world = a_world(r, **{"ephemeral-storage": "4"})
    resource = world.reservations.resource_id(name)
    amount = 4000 if name == "cpu" else 4
    slot = world.reservations.by_uid[r.uid].slot
    assert requested(world, resource) == remaining(world, r, resource) == amount
    assert int(world.reservations.columns.held[resource, slot]) == amount


def test_changed_node_labels_bump_the_epoch_once():
    world = a_world(held())
    for labels, is_news in (({"a": "1"}, True), ({"a": "1"}, False), ({"a": "2"}, True)):
        before = world.nodes.epochs["reservations"]
        world.upsert(typed(a_node("n", cpu="16", labels=labels)))
        assert (world.nodes.epochs["reservations"] != before) == is_news


def test_a_reservation_that_holds_resources_is_no_longer_being_bound():
    world = a_world(typed(a_reservation("r", phase="Pending")))
    r = held()
    reservations = world.reservations
    reservations.being_bound[r.uid], reservations.awaiting_binds[r.uid] = (0, True), "n"
    assert list(reservations.pending) == [r.uid]
    world.upsert(r)
    assert not reservations.pending
    assert not reservations.being_bound
    assert not reservations.awaiting_binds
