"""Koordinator's tables of how many pods migrate at once, and in which order."""

import copy

from holdfast.api.durations import parse_seconds
from holdfast.api.koordinator_names import EVICTION_COST, PASSED_ARBITRATION
from holdfast.api.pod import Pod
from holdfast.controllers.pod_migration import arbitration
from holdfast.controllers.pod_migration.arbitration import arbitrate
from holdfast.controllers.pod_migration.rate_limits import ObjectLimits
from holdfast.runtime.settings import MigrationSettings, ObjectLimit
from holdfast.state.migration.limits import MigratingPods, Workload, max_of_workload
from holdfast.state.migration.pod_selection import MigrationCandidate, find_obstacle
from parity.harness import parity
from parity.migrating import typed

FILE = "koord_migration.jsonl"


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


@parity(FILE, "TestGetMaxUnavailable")
def test_max_unavailable(record):
    got = max_of_workload(record.input["replicas"], record.input.get("intOrPercent"))
    assert got == record.expected["want"]


@parity(FILE, "TestFilterPodWithMaxEvictionCost")
def test_eviction_cost(record):
    pod = a_pod(0, annotations={EVICTION_COST: str(record.input["cost"])})
    obstacle = find_obstacle(MigrationCandidate(pod, Workload("w", 5)), MigrationSettings())
    assert (not obstacle) is record.expected["want"]


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
    candidate = MigrationCandidate(a_pod(0), Workload("w", given["totalReplicas"]))
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
    assert (limits.find_limit(typed(pod, Pod), later) is not None) is record.expected["want"]


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
