"""Koordinator's tables of Filter with reservations, on the plugin and the ledger."""

from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.scheduling.plugins.reservation.nomination import nominate, why_none_nominated
from holdfast.state.reservations.reserved_resources import freed_capacity
from parity.harness import parity
from parity.reserving import (
    ANY_OWNER,
    Account,
    a_user,
    asked_for,
    asking,
    asking_for,
    is_reserve_pod,
    reservation,
    summed_up,
)
from parity.scheduling import asked, node, pod

FILE = "koord_reservation_filter.jsonl"
NO_OWNER = [{"object": {"uid": "missing"}}]
PLENTY = {"cpu": "99", "memory": "99Gi", "ephemeral-storage": "99Gi", "pods": "9"}


def pre_allocating(record):
    return "pre-allocat" in record.name


@parity(FILE, "Test_filterWithReservations", "TestFilterWithPreemption")
def test_accounts(record):
    state = record.input["stateData"]
    account = Account(record.input["node"], state)
    found = asked(ReservationPlugin(), asking(state), account.world)
    change = account.change if any(account.change.removed.values()) else NO_CHANGE
    assert found.filter(account.name, change) == record.expected["wantStatus"]


@parity(FILE, "TestFilterNominateReservation")
def test_nominating(record):
    """A reservation that may not be nominated is rejected for a pod that requires it."""
    world, where = World(), "test-node"
    world.upsert(node({**record.input["node"], "status": {"allocatable": PLENTY}}))
    target = reservation(record.input["targetReservation"], owners=ANY_OWNER, where=where)
    world.upsert(target)
    if used := (record.input["targetReservation"]["status"].get("allocated")):
        world.upsert(a_user("before", where, used, target))
    found = asked(ReservationPlugin(), record.input["pod"], world)
    chosen, _ = nominate(found.prepared.plan, row := world.nodes.row_of[where])
    want = record.expected["wantStatus"]
    assert (chosen is not None) is (want["code"] == "Success")
    if chosen is None:
        assert [why_none_nominated(found.prepared.plan, row)] == want["reasons"]


def moved(before, after, world):
    """Return the amounts that a hypothetical change moves on the node and in the reservation."""
    old, new = (freed_capacity(world.reservations, change) for change in (before, after))
    found = []
    for was, now in ((old.rows, new.rows), (old.slots, new.slots)):
        places = {*was, *now}
        found.append(
            {
                world.nodes.resources[r]: d
                for place in places
                for r in {*was.get(place, {}), *now.get(place, {})}
                if (d := now.get(place, {}).get(r, 0) - was.get(place, {}).get(r, 0))
            }
        )
    return found


def told(amounts):
    return {k: int(v) * (1000 if k == "cpu" else 1) for k, v in (amounts or {}).items() if int(v)}


@parity(FILE, "TestPreFilterExtensionAddPod", "TestPreFilterExtensionRemovePod")
def test_hypotheses(record):
    """AddPod and RemovePod move the same amounts; an owner's amounts move in its reservation."""
    given, expected = record.input, record.expected
    world, where = World(), "test-node"
    world.upsert(node(given["node"]))
    # More is reserved than any owner uses, so that all that an owner frees is reserved again.
    # An added pod allocates from the reservation it owns; upstream, from the nominated one.
    info = reservation(
        given["reservationIfWithR"], owners=ANY_OWNER if given["withR"] else NO_OWNER, where=where,
        allocatable={"cpu": "100", "pods": "10"},
    )  # fmt: skip
    world.upsert(info)
    requests = {}
    for container in given["pod"]["spec"].get("containers") or ():
        requests = container["resources"]["requests"]
    user = a_user("user", where, requests, info if given["withR"] else None)
    row, adding = world.nodes.row_of[where], given["function"] == "AddPod"
    if adding and not given["withR"]:
        changes = (NO_CHANGE, PodChange(added={row: (world.pod_info(user),)}))
    else:
        world.upsert(user)
        without = PodChange(removed={row: (world.nodes.pod(user.uid)[0],)})
        changes = (without, NO_CHANGE) if adding else (NO_CHANGE, without)
    on_node, inside = moved(*changes, world)
    state = given.get("state") or {}
    wants = [expected["wantPreemptible"], expected["wantPreemptibleInRRs"].get(where, {})]
    olds = [state.get("preemptible") or {}, (state.get("preemptibleInRRs") or {}).get(where, {})]
    keys = [where, info.uid]
    for key, want, old, got in zip(keys, wants, olds, (on_node, inside), strict=True):
        new, was = told(want.get(key)), told(old.get(key))
        delta = {k: new.get(k, 0) - was.get(k, 0) for k in {*new, *was}}
        assert got == {k: d for k, d in delta.items() if d}


@parity(FILE, "TestPreFilter", where=lambda r: not pre_allocating(r))
def test_prefilter(record):
    given, want = record.input, record.expected
    world = World()
    world.upsert(node({"metadata": {"name": "test-node-1"}}))
    if "nodeReservationStates" in given:
        labels = {"reservation-type": "test"}
        raw = {"metadata": {"name": "r", "labels": labels}}
        world.upsert(reservation(raw, owners=ANY_OWNER, where="test-node-1"))
    raw = given["pod"]
    if is_reserve_pod(raw):
        if "reservation" in given:
            world.upsert(reservation(given["reservation"]))
        found = asked_for(f"uid-{raw['metadata']['name']}", raw, world)
    else:
        found = asked(ReservationPlugin(), raw, world)
    assert found.prefilter == want["wantStatus"]
    nodes = want["wantPreRes"] and set(want["wantPreRes"]["nodeNames"])
    assert found.narrowed_to == nodes


@parity(FILE, "TestPreFilter", where=pre_allocating)
def test_prefilter_of_pre_allocation(record):
    """Go's state names the nodes with pre-allocatable pods; here such a pod is on the node."""
    given, want = record.input, record.expected
    world, uid = World(), "incoming"
    requests, where = {"cpu": "1"}, "test-node-1"
    world.upsert(node({"metadata": {"name": where}, "status": {"allocatable": PLENTY}}))
    if "nodeReservationStates" in given:
        world.upsert(a_user("test-pod-0", where, requests))
    raw, incoming = given["pod"], given["reservation"]
    # The reserve pod has the labels of its reservation and the same pre-allocation settings.
    meta = {**incoming["metadata"], "uid": uid, "labels": raw["metadata"].get("labels", {})}
    spec = {**incoming["spec"], "preAllocation": True}
    spec["template"] = asking_for(spec["template"], requests)
    world.upsert(reservation({**incoming, "metadata": meta, "spec": spec}))
    found = asked_for(uid, asking_for(raw, requests), world)
    assert found.prefilter == want["wantStatus"]
    assert found.narrowed_to == (want["wantPreRes"] and set(want["wantPreRes"]["nodeNames"]))


@parity(FILE, "TestFilter")
def test_filter(record):
    given = record.input
    raw, state = given["pod"], given.get("stateData")
    if "nodeInfo" not in given:
        # A row is always a node, so there is no case of a missing node.
        assert record.expected["want"]["reasons"] == ["node not found"]
        return
    where = given["nodeInfo"]["node"]
    account = Account(where, state or {})
    world, name = account.world, account.name
    if state is not None and pre_allocating(record):
        pre_allocatable = state["nodeReservationStates"][name].get("preAllocatablePods") or ()
        for there in pre_allocatable:
            world.upsert(pod(there))
        state = None
    incoming = raw["metadata"].get("uid")
    for other in (
        () if state and "nodeReservationStates" in state else given.get("reservations", ())
    ):
        world.upsert(
            reservation({**other, "status": {}}, owners=ANY_OWNER)
            if other["metadata"]["uid"] == incoming
            else reservation(other, owners=ANY_OWNER, where=name)
        )
    if is_reserve_pod(raw):
        found = asked_for(incoming, raw, world)
    else:
        found = asked(ReservationPlugin(), asking(state or {}, raw), world)
    assert found.filter(name) == record.expected["want"]


@parity(FILE, "TestPostFilter")
def test_summary(record):
    assert summed_up(record) == list(record.expected["wantStatus"].get("reasons", ()))


@parity(FILE, "TestPostFilterWithPreemption", where=lambda r: not r.input["enablePreemption"])
def test_summary_without_preemption(record):
    assert summed_up(record) == list(record.expected["wantStatus"].get("reasons", ()))
