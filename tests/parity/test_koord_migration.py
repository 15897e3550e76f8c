"""Koordinator's controller of PodMigrationJobs: its steps."""

import copy

from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.timestamps import parse_rfc3339
from holdfast.controllers.pod_migration.job_fields import reservation_ref
from holdfast.controllers.pod_migration.job_status import StatusChange
from holdfast.controllers.pod_migration.plan import Action, Facts, evicting, not_created, plan_step
from holdfast.controllers.pod_migration.reservation_template import (
    reservation_body,
    reservation_options,
)
from parity.harness import parity
from parity.migrating import typed

FILE = "koord_migration.jsonl"
ORDER = "scheduling.koordinator.sh/reservation-order"


def merged(raw, patch):
    out = dict(raw)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = merged(out.get(key) or {}, value)
        else:
            out[key] = value
    return out


class Run:
    """One reconcile of upstream: steps until one waits, or a reservation was created."""

    def __init__(self, given):
        self.given = given
        self.raw = copy.deepcopy(given["job"])
        self.now = parse_rfc3339(given["now"])
        self.pods = {p["metadata"]["name"]: p for p in given.get("pods") or ()}
        self.reservations = given.get("reservations") or []

    @property
    def job(self):
        return typed(self.raw)

    def apply(self, change):
        self.raw["status"] = merged(self.raw.get("status") or {}, change.patch())

    def facts(self):
        ref = reservation_ref(self.job)
        named = [r for r in self.reservations if ref and r["metadata"]["name"] == ref.name]
        held = typed(named[0], Reservation) if named else None
        if self.given.get("reservation"):
            held = typed(self.given["reservation"], Reservation)
        owners = held.status.current_owners if held else ()
        bound = self.pods.get(owners[0].name) if owners else None
        return Facts(self.pod(), held, typed(bound, Pod) if bound else None)

    def pod(self):
        found = self.pods.get(self.job.spec.pod_ref.name)
        return typed(found, Pod) if found else None

    def reconcile(self):
        step = plan_step(self.job, self.facts(), self.given["defaultJobMode"], self.now)
        self.apply(step.change)
        if self.pod() is not None and self.job.phase == "Running" and self.pod().uid:
            self.raw["spec"]["podRef"].setdefault("uid", self.pod().uid)
        if step.action is Action.EVICT and "evictError" not in self.given:
            self.apply(evicting(self.job, self.pod(), self.now))
        if step.action is Action.CREATE:
            self.create()

    def create(self):
        if failure := self.given.get("createReservationError"):
            self.apply(not_created(self.job, failure, self.now))
            return
        pod = self.pods[self.job.spec.pod_ref.name]
        options = reservation_options(self.job, pod)
        body = reservation_body(self.job, options["template"], "1")
        template = {**options["template"], "metadata": {"labels": body["metadata"]["labels"]}}
        made = self.reservations[0]["metadata"]
        ref = {key: made[key] for key in ("name", "uid") if key in made}
        self.raw["spec"]["reservationOptions"] = {"reservationRef": ref, "template": template}


def plain_status(status):
    out = {k: v for k, v in (status or {}).items() if v not in ("", None)}
    for condition in out.get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    return out


def plain_spec(spec):
    """Drop what the reservation of a job does not keep (correction 7), and times."""
    out = copy.deepcopy(spec)
    template = (out.get("reservationOptions") or {}).get("template")
    if template:
        template["metadata"]["labels"].pop(ORDER, None)
        plain_template(template)
    return out


def plain_template(template):
    pod = template["spec"]["template"]
    for name in ("ownerReferences", "resourceVersion", "uid"):
        pod["metadata"].pop(name, None)
    if pod["spec"].get("containers", 0) is None:
        del pod["spec"]["containers"]
    return template


def check(record, run):
    want = record.expected
    assert plain_status(run.raw.get("status")) == plain_status(want["jobStatus"])
    assert plain_spec(run.raw["spec"]) == plain_spec(want["jobSpec"])


@parity(
    FILE, "TestMigrate", "TestMigrateWithSamePodName",
    "TestMigrateWhenEvictingWithSucceededReservation", "TestMigrateWithReservationScheduleFailed",
    "TestMigrateWithReservationSucceeded", "TestMigrateWithReservationExpired",
    "TestEvictPodDirectly",
)  # fmt: skip
def test_reconcile(record):
    run = Run(record.input)
    run.reconcile()
    check(record, run)


@parity(FILE, "TestAbortJobIfTimeout")
def test_timeout(record):
    run = Run(record.input)
    run.raw["spec"]["paused"] = False
    ended = plan_step(run.job, run.facts(), "ReservationFirst", run.now)
    if ended.change.fields.get("reason") == "Timeout":
        run.apply(ended.change)
    assert plain_status(run.raw.get("status")) == plain_status(record.expected["jobStatus"])


SCHEDULED = {"conditions": [{"type": "Scheduled", "status": "True"}], "nodeName": "test-node-1"}
MADE = {"reservationRef": {"name": "test-reservation"}}


def begun(run, *, mode="ReservationFirst", options=None, held=None):
    """Give the job what the step before the tested one has written."""
    run.given = {**run.given, "defaultJobMode": mode}
    run.raw.setdefault("status", {}).setdefault("phase", "Running")
    if options:
        run.raw["spec"].setdefault("reservationOptions", options)
    if held:
        run.given["reservation"] = merged(
            {"metadata": {"name": "test-reservation"}, "spec": {}}, held
        )
    return run


def reasons(run):
    return {k: v for k, v in run.raw["status"].items() if k in ("phase", "reason", "message")}


@parity(
    FILE, "TestAbortJobByMissingPod", "TestAbortJobByMissingReservation",
    "TestAbortJobByInvalidReservation", "TestAbortJobByReservationUnschedulable",
    "TestAbortJobIfReserveOnSameNode",
)  # fmt: skip
def test_failures(record):
    run, function = Run(record.input), record.input["function"]
    if function == "abortJobByReservationBound":
        run.pods = {"test-pod": {"metadata": {"name": "test-pod"}}}
        begun(run, options=MADE, held={"status": {**SCHEDULED, "phase": "Succeeded"}})
    elif function == "abortJobByReservationUnschedulable":
        begun(
            run,
            options=MADE,
            held=merged(run.given["reservation"], {"status": {"phase": "Failed"}}),
        )
    elif function == "abortJobIfReserveOnSameNode":
        begun(run, held=merged(run.given["reservation"], {"status": {"phase": "Available"}}))
    else:
        begun(run)
    run.reconcile()
    assert reasons(run) == record.expected["jobStatus"]


@parity(FILE, "TestHandleScheduleFailed", "TestHandleScheduleSuccess")
def test_scheduling_of_the_reservation(record):
    run = begun(Run(record.input), options=MADE)
    wanted = record.expected["jobStatus"]
    scheduled = "nodeName" in wanted
    run.pods = {"test-pod": {"metadata": {"name": "test-pod"}, "spec": {"nodeName": "other"}}}
    held = merged(run.given["reservation"], {"status": {"phase": "Available" if scheduled else ""}})
    run.given["reservation"] = held
    step = plan_step(run.job, run.facts(), "ReservationFirst", run.now)
    run.apply(step.change)
    got = plain_status(run.raw["status"])
    got["conditions"] = [c for c in got["conditions"] if c["type"] != "ReservationCreated"]
    assert {k: v for k, v in got.items() if k != "phase"} == plain_status(wanted)


@parity(FILE, "TestEvictPod")
def test_eviction(record):
    run = begun(Run(record.input), mode="EvictDirectly")
    run.reconcile()
    got, want = plain_status(run.raw["status"]), plain_status(record.expected["jobStatus"])
    assert got.get("conditions") == want.get("conditions")
    if got["phase"] != "Succeeded":  # in this mode the job is complete with the eviction
        assert {**got, "phase": ""} == {**want, "phase": ""}


@parity(FILE, "TestCreateReservation", "TestAllowAnnotatedPodMigrationJobPassFilter")
def test_creation(record):
    run = Run(record.input)
    if record.input["function"] == "preparePendingJob":
        step = plan_step(run.job, run.facts(), "ReservationFirst", run.now)
        run.apply(step.change)
    else:
        begun(run).reconcile()
        record.expected["jobStatus"].setdefault("phase", "Running")
    check(record, run)


@parity(FILE, "TestWaitForPodBindReservation")
def test_binding(record):
    evicted = {"type": "Eviction", "status": "True"}
    run = begun(Run(record.input), options=MADE)
    held = merged(run.given["reservation"], {"status": {**SCHEDULED, "phase": "Available"}})
    run.given["reservation"] = held
    run.raw["status"].setdefault("conditions", []).append(evicted)
    step = plan_step(run.job, run.facts(), "ReservationFirst", run.now)
    found = {c["type"]: c for c in step.change.fields["conditions"]}["PodBoundReservation"]
    if held["status"].get("currentOwners"):
        assert found["status"] == "True"  # the same call goes on until the job is complete
    else:
        want = record.expected["jobStatus"]["conditions"][0]
        assert {"reason": found.get("reason"), "status": found["status"]} == {
            "reason": want.get("reason"),
            "status": want["status"],
        }


PENDING_POD = {"spec": {"owners": [{"object": {"name": "test-pod", "namespace": "default"}}]}}


@parity(FILE, "TestWaitForPendingPodScheduled")
def test_pending_pod(record):
    run = begun(Run(record.input), options=MADE)
    run.given["reservation"] = merged(
        {"metadata": {"name": "test-reservation"}, "status": {**SCHEDULED, "phase": "Available"}},
        PENDING_POD,
    )
    run.reconcile()
    got, want = plain_status(run.raw["status"]), plain_status(record.expected["jobStatus"])
    got["conditions"] = [c for c in got["conditions"] if not c["type"].startswith("Reservation")]
    for name in ("phase", "reason", "message"):
        assert got.get(name) == want.get(name, "Running" if name == "phase" else None)
    assert got["conditions"] == want.get("conditions", [])


@parity(FILE, "TestGetCondition")
def test_get_condition(record):
    job = typed({"status": record.input["status"]})
    found = job.condition(record.input["conditionType"])
    want = record.expected["want1"]
    assert (found.status if found else None) == (want["status"] if want else None)


@parity(FILE, "TestUpdateCondition")
def test_update_condition(record):
    job, new = typed({"status": record.input["status"]}), record.input["condition"]
    change = StatusChange.of(job, 0.0)
    got = change.set(new["type"], new["status"], "", new.get("message", ""))
    assert got is record.expected["want"]


@parity(FILE, "TestCreateOrUpdateReservationOptions")
def test_reservation_template(record):
    given = record.input
    keep = not given["disablePVCReservation"]
    got = reservation_options(typed(given["job"]), given["pod"], reserve_volume_claims=keep)
    plain_template(record.expected["wantOptions"]["template"])
    assert got == record.expected["wantOptions"]
