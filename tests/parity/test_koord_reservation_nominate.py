"""Koordinator's tables of the nominated reservation and of the scores of nodes."""

import numpy as np

from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.scheduling.plugins.reservation.nomination import nominate, why_none_nominated
from holdfast.scheduling.plugins.reservation.owner_plan import OwnerPlan
from holdfast.scheduling.scheduler.cycle import schedule_pod
from parity.harness import parity
from parity.reserving import ANY_OWNER, a_user, asking, is_reserve_pod, reservation
from parity.scheduling import asked, by_name, node, pod

FILE = "koord_reservation_nominate.jsonl"
PLENTY = {"cpu": "99", "memory": "99Gi", "pods": "99"}


def about_pre_allocation(record):
    return "with pre-allocation" in record.name


def the_world(given):
    world = World()
    for raw in given.get("nodes") or [given["node"]]:
        world.upsert(node({**raw, "status": {"allocatable": PLENTY}}))
    for raw in given.get("reservations") or ():
        where = (raw.get("status") or {}).get("nodeName") or "test-node"
        offer = reservation(raw, owners=ANY_OWNER, where=where, allocatable=requested(raw))
        world.upsert(offer)
        if used := (given.get("allocated") or {}).get(offer.uid):
            world.upsert(a_user(f"user-of-{offer.name}", where, used, offer))
    return world


def requested(raw):
    template = raw["spec"].get("template") or {"spec": {}}
    [container] = template["spec"].get("containers") or [{"resources": {"requests": {}}}]
    return container["resources"]["requests"]


def nominated(world, raw, where):
    """Return the name of the reservation nominated for a pod on a node, or None."""
    found = asked(ReservationPlugin(), raw, world)
    if not isinstance(found.prepared.plan, OwnerPlan):
        return None
    chosen, _ = nominate(found.prepared.plan, world.nodes.row_of[where])
    return None if chosen is None else chosen.reservation.name


@parity(FILE, "TestNominateReservation")
def test_one_node(record):
    given, want = record.input, record.expected["wantReservation"]
    if is_reserve_pod(given["pod"]):
        assert want is None
        assert World().match(World().pod_info(pod(given["pod"]), is_reserve_pod=True)) is None
        return
    got = nominated(the_world(given), given["pod"], "test-node")
    assert got == (want and want["metadata"]["name"])


@parity(FILE, "TestPreScoreWithNominateReservation")
def test_several_nodes(record):
    given, want = record.input, record.expected["wantReservation"] or {}
    if is_reserve_pod(given["pod"]):
        assert want == {}
        return
    world = the_world(given)
    got = {name: nominated(world, given["pod"], name) for name in world.nodes.row_of}
    names = {name: info["reservation"]["metadata"]["name"] for name, info in want.items()}
    assert {name: found for name, found in got.items() if found} == names


@parity(FILE, "TestReservationNominate", where=lambda r: not about_pre_allocation(r))
def test_status(record):
    """Without a nominated reservation, only a pod that requires one is rejected."""
    given, want = record.input, record.expected["wantStatus"]
    world = the_world(given)
    if is_reserve_pod(given["pod"]):
        assert want == {"code": "Success"}
        return
    found = asked(ReservationPlugin(), asking(given, given["pod"]), world)
    matched = (
        (given.get("nodeReservationStates") or {}).get("test-node", {}).get("matchedOrIgnored")
    )
    if want["code"] != "Success":
        assert not matched
        # The row of another node, where no reservation matches.
        assert [why_none_nominated(found.prepared.plan, 10**6)] == want["reasons"]
        return
    plan = found.prepared.plan
    row = world.nodes.row_of["test-node"]
    chosen, _ = nominate(plan, row)
    assert plan.ignores_reservations or chosen is not None


@parity(FILE, "TestReservationNominate", where=about_pre_allocation)
def test_status_of_pre_allocation(record):
    """A reservation is placed even if no pod is pre-allocatable."""
    given = record.input
    assert record.expected["wantStatus"] == {"code": "Success"}
    world, [raw] = World(), given["reservations"]
    world.upsert(node({**given["node"], "status": {"allocatable": PLENTY}}))
    world.upsert(reservation({**raw, "status": {}}, owners=ANY_OWNER))
    uid = raw["metadata"]["uid"]
    pod_info = world.pod_info(pod(given["pod"], uid=uid), is_reserve_pod=True)
    profile = Profile("p", (ReservationPlugin(),))
    placed = schedule_pod(profile, profile.view(pod_info, world, 0.0), np.random.default_rng(0))
    assert isinstance(placed, Placement)
    assert placed.node == "test-node"


@parity(FILE, "TestScore")
def test_score(record):
    given, name = record.input, "test-node"
    if is_reserve_pod(given["pod"]):
        assert record.expected["wantScore"] == 0
        return
    found = asked(ReservationPlugin(), given["pod"], the_world(given))
    assert found.scores(normalized=False)[name] == record.expected["wantScore"]


@parity(FILE, "TestScoreWithOrder")
def test_order(record):
    given = {
        **record.input,
        "nodes": [{"metadata": {"name": n}} for n in record.input["nodeNames"]],
    }
    found = asked(ReservationPlugin(), given["pod"], the_world(given))
    for normalized, key in ((False, "scores"), (True, "normalizedScores")):
        assert found.scores(normalized=normalized) == by_name(record.expected[key])


@parity(FILE, "TestMultiReservationsOnSameNode")
def test_each_once(record):
    given, where = record.input, "node-1"
    world, profile = World(), Profile("p", (ReservationPlugin(),))
    status = {"allocatable": {**given["node"]["status"]["allocatable"], "pods": "99"}}
    world.upsert(node({**given["node"], "status": status}))
    for i in range(given["reservationCount"]):
        raw = {
            "metadata": {"name": f"r{i}", "labels": given["ownerLabels"]},
            "spec": {"allocateOnce": given["allocateOnce"]},
        }
        held = given["reservedResources"]
        world.upsert(reservation(raw, owners=ANY_OWNER, where=where, allocatable=held))
    taken = []
    for i in range(given["reservationCount"]):
        pod_info = world.pod_info(pod(given["pod"], uid=f"pod-{i}"))
        placed = schedule_pod(profile, profile.view(pod_info, world, 0.0), np.random.default_rng(0))
        assert isinstance(placed, Placement)
        taken += world.reservations.allocations_of(pod_info.uid)
    assert len(set(taken)) == given["reservationCount"]
    late = world.pod_info(pod(given["pod"], uid="late"))
    assert not isinstance(
        schedule_pod(profile, profile.view(late, world, 0.0), np.random.default_rng(0)), Placement
    )
