"""Koordinator's controller of PodMigrationJobs: its steps, its arbitration and its limits."""

import copy

from holdfast.api.decode import convert_object
from holdfast.api.durations import parse_seconds
from holdfast.api.koordinator_names import EVICTION_COST, PASSED_ARBITRATION
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.reservation import Reservation
from holdfast.api.timestamps import parse_rfc3339
from holdfast.controllers.pod_migration import arbitration
from holdfast.controllers.pod_migration.arbitration import arbitrate
from holdfast.controllers.pod_migration.job_status import StatusChange
from holdfast.controllers.pod_migration.object_limits import ObjectLimits
from holdfast.controllers.pod_migration.plan import (
    Action,
    Facts,
    evicting,
    not_created,
    plan_step,
    reservation_ref,
)
from holdfast.controllers.pod_migration.reservation_template import (
    reservation_body,
    reservation_options,
)
from holdfast.migration.limits import MigratingPods
from holdfast.migration.pod_filters import Candidate, find_obstacle
from holdfast.migration.workloads import Workload, max_of_workload
from holdfast.settings import MigrationSettings, ObjectLimit
from parity.harness import parity

FILE = "koord_migration.jsonl"
ORDER = "scheduling.koordinator.sh/reservation-order"


def typed(raw, kind=PodMigrationJob):
    return convert_object(raw or {}, kind)


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


@parity(FILE, "TestGetMaxUnavailable")
def test_max_unavailable(record):
    got = max_of_workload(record.input["replicas"], record.input.get("intOrPercent"))
    assert got == record.expected["want"]


@parity(FILE, "TestFilterPodWithMaxEvictionCost")
def test_eviction_cost(record):
    pod = a_pod(0, annotations={EVICTION_COST: str(record.input["cost"])})
    obstacle = find_obstacle(Candidate(pod, Workload("w", 5)), MigrationSettings())
    assert (not obstacle) is record.expected["want"]


@parity(FILE, "TestCreateOrUpdateReservationOptions")
def test_reservation_template(record):
    given = record.input
    keep = not given["disablePVCReservation"]
    got = reservation_options(typed(given["job"]), given["pod"], reserve_volume_claims=keep)
    plain_template(record.expected["wantOptions"]["template"])
    assert got == record.expected["wantOptions"]


def a_pod(number, *, node="n", namespace="ns", owner="w", kind="ReplicaSet", ready=True, **more):
    meta = {"name": f"p{number}", "namespace": namespace, "uid": f"uid-{number}", **more}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
        ]
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    raw = {"metadata": meta, "spec": {"nodeName": node},
           "status": {"phase": "Running", "conditions": conditions}}  # fmt: skip
    return typed(raw, Pod)


def others(given, **shared):
    """Return the pods that migrate already; the first may be the tested one."""
    count = given.get("numMigratingPodsGlobally", given.get("numMigratingPods", 0))
    pods = [a_pod(number, **shared) for number in range(1, count + 1)]
    if given.get("samePod") and pods:
        pods[0] = a_pod(0)
    return pods


def allowed(settings, migrating, workload=None):
    counted = MigratingPods(settings)
    for pod in migrating:
        counted.add(pod)
    return not counted.find_limit(a_pod(0), workload)


@parity(FILE, "TestFilterMaxMigratingGlobally")
def test_limit_of_the_cluster(record):
    settings = MigrationSettings(max_globally=record.input["maxMigratingGlobally"])
    assert allowed(settings, others(record.input)) is record.expected["want"]


@parity(FILE, "TestFilterMaxMigratingPerNode")
def test_limit_of_a_node(record):
    settings = MigrationSettings(max_per_node=record.input["maxMigrating"])
    migrating = others(record.input, node="n" if record.input["sameNode"] else "other")
    assert allowed(settings, migrating) is record.expected["want"]


@parity(FILE, "TestFilterMaxMigratingPerNamespace")
def test_limit_of_a_namespace(record):
    settings = MigrationSettings(max_per_namespace=record.input["maxMigrating"], max_per_node=None)
    migrating = others(record.input, namespace="ns" if record.input["sameNamespace"] else "other")
    assert allowed(settings, migrating) is record.expected["want"]


@parity(FILE, "TestFilterMaxMigratingPerWorkload", "TestFilterMaxUnavailablePerWorkload")
def test_limit_of_a_workload(record):
    given = record.input
    settings = MigrationSettings(
        max_per_node=None,
        max_per_workload=given.get("maxMigrating"),
        max_unavailable_per_workload=given.get("maxUnavailable"),
    )
    owner = "w" if given["sameWorkload"] else "other"
    migrating = others(given, owner=owner)
    lost = given.get("numUnavailablePods", 0) if given["sameWorkload"] else 0
    pods = tuple(a_pod(100 + number, ready=False) for number in range(lost))
    workload = Workload("w", given["totalReplicas"], pods)
    assert allowed(settings, migrating, workload) is record.expected["want"]


@parity(FILE, "TestFilterExpectedReplicas")
def test_expected_replicas(record):
    given = record.input
    settings = MigrationSettings(max_unavailable_per_workload=given["maxUnavailable"])
    candidate = Candidate(a_pod(0), Workload("w", given["totalReplicas"]))
    assert (not find_obstacle(candidate, settings)) is record.expected["want"]


@parity(
    FILE, "TestRequeueJobIfObjectLimiterFailed", "TestRequeueJobIfObjectLimiterFailedWithNamespace"
)
def test_object_limits(record):
    given = record.input
    named = given.get("objectLimiters")
    settings = MigrationSettings()
    if named is not None:
        limits = {
            kind: ObjectLimit(parse_seconds(x["duration"]), x.get("maxMigrating"), x["burst"] or 1)
            for kind, x in named.items()
        }
        settings = MigrationSettings(object_limits=limits)
    limits, pod = ObjectLimits(settings), given["pod"]
    evicted = copy.deepcopy(pod)
    if owner := given.get("evictedWorkload"):
        evicted["metadata"]["ownerReferences"] = [owner]
    evicted["metadata"]["namespace"] = given.get("evictedNamespace") or "test-namespace"
    for _ in range(given["evictedPodsCount"]):
        limits.evicted(typed(evicted, Pod), given["totalReplicas"], 0.0)
    later = parse_seconds(given["sleepDuration"])
    assert (limits.seconds_to_wait(typed(pod, Pod), later) > 0) is record.expected["want"]


def jobs_and_pods(count, batch_jobs, first=0):
    jobs, pods = [], {}
    for index in range(count):
        name = f"job-{first + index}"
        jobs.append(typed({"metadata": {"name": name}}))
        owner = batch_jobs.get(str(index))
        pods[name] = a_pod(name, owner="" if owner is None else f"batch-{owner}", kind="Job")
    return jobs, pods


def indexes(jobs):
    return [int(job.name.removeprefix("job-")) for job in jobs]


@parity(FILE, "TestSortJobsByController")
def test_order_by_batch_job(record):
    given = record.input
    jobs, pods = jobs_and_pods(given["podMigrationJobNum"], given["jobOfPodMigrationJob"])
    got = arbitration.sort_by_batch_job(jobs, lambda job: pods[job.name])
    assert indexes(got) == record.expected["expectIdx"]


@parity(FILE, "TestSortJobsByMigratingNum")
def test_order_by_migrating(record):
    given = record.input
    jobs, pods = jobs_and_pods(given["podMigrationJobNum"], given["jobOfPodMigrationJob"])
    migrating = []
    for first, name in ((100, "Running"), (200, "PassedPending")):
        count, owners = (
            given[f"{name[0].lower()}{name[1:]}PodMigrationJobNum"],
            given[f"jobOf{name}PodMigrationJob"],
        )
        more, their_pods = jobs_and_pods(count, owners, first)
        migrating += more
        pods |= their_pods
    got = arbitration.sort_by_migrating(jobs, lambda job: pods[job.name], migrating)
    assert indexes(got) == record.expected["expectIdx"]


@parity(FILE, "TestGetMigratingJobNum")
def test_number_of_migrating_jobs(record):
    given = record.input
    passed = {"metadata": {"annotations": {PASSED_ARBITRATION: "true"}}}
    raw = (
        [passed] * given["passedPendingPodMigrationJobNum"]
        + [{"status": {"phase": "Running"}}] * given["runningPodMigrationJobNum"]
        + [{}] * given["podMigrationJobNum"]
    )
    assert sum(arbitration.is_migrating(typed(x)) for x in raw) == record.expected["expectNum"]


@parity(FILE, "TestSortJobsByPod")
def test_order_by_pod(record):
    order = record.input["order"]
    jobs = [typed({"metadata": {"name": f"test-job-{index}"}}) for index in range(len(order))]
    ranks = {f"test-job-{index}": rank for index, rank in enumerate(order)}
    pods = {name: a_pod(name) for name in ranks}
    got = arbitration.sort_by_pod(
        jobs, lambda job: pods[job.name], lambda pod: (ranks[pod.name.removeprefix("p")],)
    )
    assert [job.name for job in got] == record.expected["expectedJobs"]


@parity(FILE, "TestFiltering")
def test_one_job(record):
    given = record.input
    pod = typed(given["pod"], Pod) if "pod" in given else None
    result = arbitrate(
        [typed({"metadata": {"name": "j"}})], lambda _: pod,
        lambda _: "" if given["nonRetryable"] else "never",
        lambda _: "" if given["retryable"] else "later",
        lambda _: None,
    )  # fmt: skip
    assert ("j" in result.forbidden) is record.expected["isFailed"]
    assert ("j" in result.passed) is record.expected["isPassed"]


@parity(FILE, "TestDoOnceArbitrate")
def test_one_round(record):
    given = record.input
    jobs, pods = jobs_and_pods(given["jobNum"], {})
    order = given.get("order") or {}
    jobs.sort(key=lambda job: order.get(job.name.removeprefix("job-"), 0))

    def fails(table):
        return lambda pod: "no" if pod.name.removeprefix("pjob-") in given[table] else ""

    got = arbitrate(jobs, lambda job: pods[job.name], fails("nonRetryableMap"),
                    fails("retryableMap"), lambda _: None)  # fmt: skip
    want = record.expected
    for found, name in (
        (got.forbidden, "expectFailedJob"),
        (got.passed, "expectPassedJob"),
        (got.waiting, "expectWaitCollection"),
    ):
        assert {job.removeprefix("job-") for job in found} == set(want[name])
