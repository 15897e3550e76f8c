"""Koordinator's reservation controller, its helper functions and its pod webhook."""

import copy

import msgspec

from holdfast.api import reservation_names as names
from holdfast.api.annotations import allocated_reservation
from holdfast.api.decode import convert_object
from holdfast.api.durations import parse_seconds
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.quantity import Quantity
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_status import refused
from holdfast.api.timestamps import parse_rfc3339
from holdfast.api.validation.reservation import check_reservation
from holdfast.controllers.reservation.plan import plan_collection, plan_reservation
from holdfast.controllers.reservation.usage import NodeUsage
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.plugins.reservation.arguments import read_args
from holdfast.scheduling.plugins.reservation.reserve_pods import bind_reservation
from holdfast.scheduling.scheduler.metrics import Metrics
from holdfast.scheduling.scheduler.object_metrics import ReservationMetrics
from holdfast.server.kinds.validation.pods import check_pod
from holdfast.state.reservations.owner_rules import compile_owners
from holdfast.state.reservations.reservation_annotations import affinity_of
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing import typed as as_stored
from holdfast.testing.fake_cluster import FakeCluster
from parity.harness import parity

CONTROLLER = "koord_reservation_controller.jsonl"
UTIL = "koord_reservation_util.jsonl"
EXTENSION = "koord_extension.jsonl"


def typed(raw, kind=Reservation):
    return convert_object(raw or {}, kind)


def usage(record, reservation):
    name = reservation.status.node_name
    if not name:
        return None
    nodes = [typed(raw, Node) for raw in record.input.get("nodes") or ()]
    pods = tuple(typed(raw, Pod) for raw in record.input.get("pods") or ())
    found = next((node for node in nodes if node.name == name), None)
    return NodeUsage(found, pods) if found else NodeUsage(None)


def merged(raw, patch):
    """Return the object that a server stores after a merge patch."""
    out = copy.deepcopy(raw)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = merged(out.get(key) or {}, value)
        else:
            out[key] = value
    return out


def plain(amounts):
    return {name: Quantity.parse(amount) for name, amount in (amounts or {}).items()}


def status_of(raw):
    status = dict(raw.get("status") or {})
    for part in ("allocatable", "allocated"):
        status[part] = plain(status.get(part))
    return status


@parity(
    CONTROLLER, "TestFailedOrSucceededReservation", "TestExpireActiveReservation",
    "TestSyncStatus", "TestGC", where=lambda r: r.input["function"] == "sync",
)  # fmt: skip
def test_sync(record):
    raw = record.input["reservation"]
    reservation = typed(raw)
    now = parse_rfc3339(record.input["now"])
    for write in plan_reservation(reservation, usage(record, reservation), now).writes:
        raw = merged(raw, {"status": write.patch["status"]})
    assert status_of(raw) == status_of(record.expected["reservation"])


@parity(
    CONTROLLER, "TestSyncStatus", "TestGC",
    where=lambda r: r.input["function"] == "gcReservations",
)  # fmt: skip
def test_garbage_collection(record):
    given = record.input
    found = plan_collection(
        [typed(raw) for raw in given["reservations"]],
        [node["metadata"]["name"] for node in given["nodes"]],
        parse_rfc3339(given["now"]), parse_seconds(given["gcDuration"]),
    )  # fmt: skip
    deleted = {deletion.name for deletion in found}
    left = [raw["metadata"]["name"] for raw in given["reservations"]]
    assert [name for name in left if name not in deleted] == record.expected["remaining"]


@parity(CONTROLLER, "TestNew")
def test_settings(record):
    settings = read_args(record.input.get("args") or {}).controller_settings
    want = record.expected
    assert settings.gc_after_seconds == parse_seconds(want["expectedGCDuration"])
    assert settings.gc_interval_seconds == parse_seconds(want["expectedGCInterval"])
    assert settings.gc_enabled is not want["expectedIsGCDisabled"]
    assert settings.workers == want["expectedNumWorker"]


@parity(CONTROLLER, "TestRecordReservationPhases")
def test_phase_metrics(record):
    metrics = Metrics()
    metrics.registry.register(ReservationMetrics(lambda: [typed(record.input["reservation"])]))
    page = metrics.page().decode()
    told = [line for line in page.splitlines() if "reservation_status_phase" in line]
    wanted = record.expected["expectedMetrics"].strip().splitlines()
    assert [line.removesuffix(".0") for line in told] == wanted


@parity(UTIL, "TestIsReservationExpired")
def test_expired(record):
    assert typed(record.input.get("reservation")).expired is record.expected["want"]


@parity(UTIL, "TestIsReservationActive")
def test_active(record):
    assert typed(record.input.get("reservation")).active is record.expected["want"]


@parity(UTIL, "TestIsReservationAvailable", "TestIsReservationSucceeded", "TestIsReservationFailed")
def test_phases(record):
    phase = record.input["function"].removeprefix("IsReservation")
    assert (typed(record.input["reservation"]).phase == phase) is record.expected["want"]


@parity(UTIL, "TestIsObjValidActiveReservation")
def test_valid_and_active(record):
    reservation = typed(record.input["object"])
    got = not list(check_reservation(reservation)) and reservation.active
    assert got is record.expected["want"]


@parity(UTIL, "TestGetReservationSchedulerName")
def test_scheduler_name(record):
    assert typed(record.input.get("reservation")).scheduler_name == record.expected["want"]


@parity(UTIL, "TestMatchReservationOwners")
def test_owners(record):
    rules = compile_owners(typed(record.input["reservation"])) or ()
    pod = typed(record.input["pod"], Pod)
    assert any(rule.owns(pod) for rule in rules) is record.expected["want"]


@parity(UTIL, "TestSetReservationUnschedulable")
def test_unschedulable(record):
    raw = record.input["reservation"]
    want = record.expected["want"]["status"]
    now = parse_rfc3339(want["conditions"][0]["lastProbeTime"])
    conditions = refused(typed(raw).status.conditions, record.input["msg"], now)
    assert {"phase": typed(raw).phase, "conditions": conditions} == want


@parity(UTIL, "TestSetReservationAvailable")
def test_available(record):
    """The Go test checks only for errors; here the table's phase and conditions are compared."""
    raw, node = copy.deepcopy(record.input["reservation"]), record.input["nodeName"]
    world = FakeCluster(a_node(node)).world
    pod_info = world.pod_info(reserve_pod(typed(raw)), is_reserve_pod=True)
    steps = bind_reservation(Placement(pod_info, world.nodes.row_of[node], node, {}))
    next(steps)
    stored = steps.send(raw).body
    want = record.observed["tableWant"]["status"]
    assert status_of(stored)["allocatable"] == plain(want["allocatable"])
    assert (stored["status"]["phase"], stored["status"]["nodeName"]) == (want["phase"], node)
    assert [(c["type"], c["status"], c["reason"]) for c in stored["status"]["conditions"]] == [
        (c["type"], c["status"], c["reason"]) for c in want["conditions"]
    ]
    assert record.expected["error"] is None


@parity(UTIL, "TestReservePod")
def test_reserve_pod(record):
    got = reserve_pod(typed(record.input["reservation"]))
    want = typed(record.expected["wantReservePod"], Pod)
    assert got.metadata.annotations == want.metadata.annotations
    assert got.metadata.labels == want.metadata.labels
    assert (got.namespace, got.uid) == (want.namespace, want.uid)
    assert got.spec.node_name == want.spec.node_name
    assert got.spec.priority == want.spec.priority
    assert got.spec.scheduler_name == want.spec.scheduler_name
    assert request_nanos(got) == request_nanos(want)


@parity(UTIL, "TestReservationRequests")
def test_requests(record):
    got = request_nanos(reserve_pod(typed(record.input["reservation"])))
    assert got == {name: nanos(amount) for name, amount in record.expected["want"].items()}


@parity(UTIL, "TestGetReservationRestrictedResources")
def test_restricted_resources(record):
    reserved = dict.fromkeys(record.input["resourceNames"], "1")
    options = record.input.get("options")
    notes = {names.RESTRICTED_OPTIONS: msgspec.json.encode(options).decode()} if options else None
    status = {"phase": "Available", "nodeName": "n", "allocatable": reserved}
    raw = a_reservation(annotations=notes, allocate_policy="Restricted", status=status)
    (info,) = FakeCluster(a_node("n"), raw).world.reservations
    resources = FakeCluster().world.nodes.resources
    assert sorted(resources[r] for r in info.restricted) == sorted(record.expected["want"])


@parity(UTIL, "TestGetRequiredReservationAffinity")
def test_required_affinity(record):
    pod = typed(record.input["pod"], Pod)
    affinity = affinity_of(pod)
    assert (affinity is None) is record.expected["wantNil"]
    if affinity is not None:
        assert _may_use_unschedulable(pod) is record.expected["wantTolerateUnschedulable"]


def _may_use_unschedulable(pod):
    """Match a pod with an unschedulable reservation whose owners have the label."""
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}}
    held = a_reservation(labels={"test": "true"}, owners=[{"labelSelector": {}}],
                         unschedulable=True, status=status)  # fmt: skip
    cluster = FakeCluster(a_node("n"), held)
    return cluster.world.match(cluster.world.pod_info(pod)) is not None


@parity(EXTENSION, "TestIsReservationIgnored")
def test_ignored(record):
    """A pod that ignores reservations is the owner of none."""
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}}
    held = a_reservation(owners=[{"labelSelector": {}}], status=status)
    cluster = FakeCluster(a_node("n"), held)
    pod = a_pod("p", labels=(record.input.get("pod") or {}).get("metadata", {}).get("labels"))
    assert cluster.place(pod) == "n"
    drawn = cluster.world.reservations.allocations_of(cluster.world.pod_info(as_stored(pod)).uid)
    assert (not drawn) is record.expected["want"]


@parity(EXTENSION, "TestExactMatchReservation")
def test_exact_match(record):
    given = record.input
    status = {"phase": "Available", "nodeName": "n", "allocatable": given["reservationAllocatable"]}
    held = a_reservation(owners=[{"labelSelector": {}}], status=status)
    notes = {names.EXACT_MATCH: msgspec.json.encode(given["spec"]).decode()}
    pod = a_pod("p", cpu=None, requests=given["podRequests"], annotations=notes)
    cluster = FakeCluster(a_node("n"), held)
    matched = cluster.world.match(cluster.world.pod_info(typed(pod, Pod)))
    assert (matched is not None) is record.expected["want"]


@parity(EXTENSION, "TestReservationAllocatedGetters")
def test_allocated(record):
    allocated = record.input.get("allocated")
    notes = None if allocated is None else {
        names.ALLOCATED: msgspec.json.encode(allocated).decode()
    }  # fmt: skip
    found = allocated_reservation(typed(a_pod("p", annotations=notes), Pod))
    got = (found.name, found.uid) if found else ("", "")
    assert got == (record.expected["expectName"], record.expected["expectUID"])


@parity("koord_webhook.jsonl", "TestClusterReservationValidatingPod")
def test_a_pod_that_calls_itself_a_reserve_pod(record):
    told = [f"{cause.field}: {cause.message}" for cause in check_pod(record.input["newPod"])]
    assert (record.expected["wantReason"] in told) is not record.expected["wantAllowed"]
