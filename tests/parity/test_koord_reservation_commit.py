"""Koordinator's tables of Reserve, Bind and the events of reservations."""

import msgspec
import numpy as np
import pytest

from holdfast.api.decode import convert_object
from holdfast.api.reservation import Reservation as ReservationObject
from holdfast.runtime.errors import NotFound, Refused
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import Placement, Skip
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.scheduling.scheduler.cycle import schedule_pod, unreserve_and_forget
from parity.harness import parity
from parity.reserving import ALLOCATED, ANY_OWNER, reservation
from parity.scheduling import node, pod

FILE = "koord_reservation_commit.jsonl"
PROFILE = Profile("p", (ReservationPlugin(),))


def decided(given):
    """Schedule the pod on a node with the reservation that the Go test nominated."""
    world, raw = World(), given["pod"]
    where = given["nodeName"] or "test-node"
    allocatable = {"cpu": "9", "memory": "99Gi", "pods": "9"}
    world.upsert(node({"metadata": {"name": where}, "status": {"allocatable": allocatable}}))
    offered = given.get("nominatedReservation") or given.get("assumedReservation")
    reserves = any(k.endswith("/reserve-pod") for k in raw["metadata"].get("annotations", {}))
    if offered and not reserves:
        held = {"cpu": "2", "memory": "4Gi"}
        world.upsert(reservation(offered, owners=ANY_OWNER, where=where, allocatable=held))
        if not raw["spec"].get("containers"):
            # The Go test states that the pod was assumed; here a pod with requests is.
            container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
            raw = {**raw, "spec": {"containers": [container]}}
    uid = raw["metadata"].get("uid") or "incoming"
    if reserves:
        template = {"template": {"spec": {}}}
        world.upsert(reservation({"metadata": {"name": "r", "uid": uid}, "spec": template}))
    pod_info = world.pod_info(pod(raw, uid=uid), is_reserve_pod=reserves)
    placement = schedule_pod(PROFILE, PROFILE.view(pod_info, world, 0.0), np.random.default_rng(0))
    assert isinstance(placement, Placement), placement
    return world, placement


def assigned(world):
    """Return the pods that have an allocation from any reservation."""
    return {uid for info in world.reservations for uid in info.allocated_by_pod}


@parity(FILE, "TestReserve")
def test_reserve(record):
    world, placement = decided(record.input)
    want = record.expected
    assert assigned(world) == set(want["wantPods"] or ())
    if want["wantReservation"] is None:
        assert ALLOCATED not in placement.annotations
        return
    named = msgspec.json.decode(placement.annotations[ALLOCATED])
    assert named["name"] == want["wantReservation"]["metadata"]["name"]
    [info] = world.reservations
    [drawn] = info.allocated_by_pod.values()
    [wanted] = want["wantPods"].values()
    assert {world.nodes.resources[r] for r in drawn} - {"pods"} == set(wanted["requests"])


@parity(FILE, "TestUnreserve")
def test_unreserve(record):
    given, want = record.input, record.expected
    world, placement = decided(given)
    if given["podAssignedToNode"]:
        meta = msgspec.structs.replace(
            placement.pod.pod.metadata, annotations=dict(placement.annotations)
        )
        spec = msgspec.structs.replace(placement.pod.pod.spec, node_name=placement.node)
        world.upsert(msgspec.structs.replace(placement.pod.pod, metadata=meta, spec=spec))
    unreserve_and_forget(PROFILE, world, placement)
    kept = bool(assigned(world))
    assert kept is want["wantReservationAllocatedKept"]


@parity(FILE, "TestPreBind")
def test_annotation(record):
    """The annotation is part of the Binding."""
    _, placement = decided(record.input)
    before = record.input["pod"]["metadata"].get("annotations") or {}
    want = record.expected["wantPod"]["metadata"].get("annotations") or {}
    assert {**before, **placement.annotations} == want


@parity(FILE, "TestBind")
def test_bind(record):
    given, want = record.input, record.expected
    raw, stored = given["pod"], given.get("reservation")
    uid = raw["metadata"].get("uid")
    world = World()
    # A reserve pod has the annotations of its reservation; the Go case omits them.
    notes = [(obj or {}).get("metadata", {}).get("annotations") or {} for obj in (raw, stored)]
    found = pod(raw, name="reserve-pod-0", annotations={**notes[0], **notes[1]})
    pod_info = world.pod_info(found, is_reserve_pod=bool(uid))
    placement = Placement(pod_info, 0, given["nodeName"], {})
    steps = ReservationPlugin().bind(placement)
    if want["want"]["code"] == "Skip":
        assert isinstance(steps, Skip)
        return
    message = want["want"].get("reasons", [""])[0]
    if "not found" in message:
        # The message is the server's, whether the get or the write finds that it is missing.
        next(steps)
        with pytest.raises(NotFound, match="not found"):
            steps.throw(NotFound(message))
        return
    next(steps)
    if message:
        with pytest.raises(Refused, match=message):
            steps.send(stored)
        return
    call = steps.send(stored)
    got = convert_object(call.body, ReservationObject).status
    wanted = convert_object(want["wantReservation"], ReservationObject).status
    assert (got.phase, got.node_name) == (wanted.phase, wanted.node_name)
    assert dict(got.allocatable) == dict(wanted.allocatable)
    said = [[(c.type, c.status, c.reason) for c in s.conditions] for s in (got, wanted)]
    assert said[0] == said[1]


@parity(FILE, "TestEventHandlerOnAdd", "TestEventHandlerUpdate")
def test_reservation_events(record):
    """Go keeps a finished reservation to clean it up; in Holdfast it holds no resources."""
    given, want = record.input, record.expected["wantReservation"]
    world = World()
    world.upsert(node({"metadata": {"name": "test-node-1"}}))
    versions = [given.get(key) for key in ("oldReservation", "reservation", "newReservation")]
    for raw in versions:
        if raw is not None:
            world.upsert(reservation(raw))
    held = [info.reservation for info in world.reservations]
    holds = want is not None and want["status"]["phase"] == "Available"
    assert [r.uid for r in held] == ([want["metadata"]["uid"]] if holds else [])
