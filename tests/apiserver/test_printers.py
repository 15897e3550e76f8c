"""The cells of ``kubectl get``, by test cases of upstream's printers where they exist."""

import pytest

from holdfast.server.kinds.printers.pods import POD
from holdfast.server.kinds.printers.workloads import AUTOSCALER, CONTROLLER_REVISION, JOB

NOW = 1_700_000_000.0
EARLIER = "2023-11-14T22:03:20Z"
"""Return the time ten minutes before NOW."""
READY = {"type": "Ready", "status": "True"}
INITIALIZED = {"type": "Initialized", "status": "True"}


def cells(printer, obj):
    made = {"name": "x", "creationTimestamp": EARLIER, **obj.get("metadata", {})}
    shown = printer.cells({**obj, "metadata": made}, NOW)
    assert len(shown) == len(printer.columns)
    return dict(zip([column.name for column in printer.columns], shown, strict=True))


def container(state, restarts=0, *, name="c", ready=False, **more):
    return {"name": name, "restartCount": restarts, "ready": ready, "state": state, **more}


def running(restarts=0, **more):
    return container({"running": {}}, restarts, **{"ready": True, **more})


def ended(code=0, restarts=0, reason=None, signal=None, **more):
    told = {"exitCode": code, "reason": reason, "signal": signal}
    state = {key: value for key, value in told.items() if value is not None}
    return container({"terminated": state}, restarts, **more)


def waiting(reason, restarts=0, **more):
    return container({"waiting": {"reason": reason}}, restarts, **more)


def a_pod(*main, init=(), sidecars=0, deleted=False, **status):
    """Return a pod with two containers; the first init containers are sidecars."""
    policies = ["Always"] * sidecars + [None] * (len(init) - sidecars)
    setup = [{"name": f"i{i}", "restartPolicy": policy} for i, policy in enumerate(policies)]
    named = [{**one, "name": f"i{i}"} for i, one in enumerate(init)]
    return {
        "metadata": {"deletionTimestamp": EARLIER} if deleted else {},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": setup},
        "status": {
            "phase": "Running", "containerStatuses": list(main), "initContainerStatuses": named,
            **status,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "ready", "status", "restarts"),
    [
        (a_pod(phase="Pending"), "0/2", "Pending", "0"),
        (a_pod(phase="Failed", reason="Evicted"), "0/2", "Evicted", "0"),
        (a_pod(running(3), waiting("Odd", 3)), "1/2", "Odd", "6"),
        (a_pod(waiting("First"), waiting("Second")), "0/2", "First", "0"),
        (a_pod(running(), running()), "2/2", "Running", "0"),
        (a_pod(running(ready=False), running()), "1/2", "Running", "0"),
        (a_pod(running(), ended(), conditions=[READY]), "1/2", "ExitCode:0", "0"),
        (a_pod(running(), ended(reason="Completed"), conditions=[READY]), "1/2", "Running", "0"),
        (a_pod(running(), ended(reason="Completed")), "1/2", "NotReady", "0"),
        (a_pod(ended(reason="Completed"), ended(1, reason="Error")), "0/2", "Error", "0"),
        (a_pod(ended(signal=9)), "0/2", "Signal:9", "0"),
        (a_pod(ended(7)), "0/2", "ExitCode:7", "0"),
        (a_pod(running(), running(), deleted=True), "2/2", "Terminating", "0"),
        (a_pod(running(), reason="NodeLost", deleted=True), "1/2", "Unknown", "0"),
        (a_pod(phase="Succeeded", deleted=True), "0/2", "Succeeded", "0"),
        (a_pod(init=[waiting("PodInitializing", 2)]), "0/2", "Init:0/1", "2"),
        (a_pod(init=[ended(), running()]), "0/2", "Init:1/2", "0"),
        (a_pod(init=[waiting("ImagePullBackOff")]), "0/2", "Init:ImagePullBackOff", "0"),
        (a_pod(init=[ended(1, 2, signal=3)]), "0/2", "Init:Signal:3", "2"),
        (a_pod(running(1), running(1), init=[ended(0, 5)]), "2/2", "Running", "2"),
        (a_pod(running(), init=[running(5)], conditions=[INITIALIZED]), "1/2", "Init:0/1", "0"),
        (a_pod(running(), running(), init=[running(5, started=True)], sidecars=1),
         "3/3", "Running", "5"),
        (a_pod(init=[running(started=True, ready=False), waiting("PodInitializing")], sidecars=1),
         "0/3", "Init:1/2", "0"),
        (a_pod(phase="Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
         "0/2", "SchedulingGated", "0"),
    ],
)  # fmt: skip
def test_the_status_of_a_pod_follows_from_its_containers(pod, ready, status, restarts):
    shown = cells(POD, pod)
    assert (shown["Ready"], shown["Status"], shown["Restarts"]) == (ready, status, restarts)


def test_the_time_of_the_last_restart_is_shown():
    def crashed(at):
        return running(2, lastState={"terminated": {"finishedAt": at}})

    pod = a_pod(crashed("2023-11-14T22:12:20Z"), crashed(EARLIER))
    assert cells(POD, pod)["Restarts"] == "4 (60s ago)"


def test_a_pod_in_wide_cells():
    wide = ("IP", "Node", "Nominated Node", "Readiness Gates")
    pod = a_pod(conditions=[READY], podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                nominatedNodeName="n2")  # fmt: skip
    gates = [{"conditionType": kind} for kind in ("Ready", "example.com/other")]
    pod["spec"] |= {"nodeName": "n1", "readinessGates": gates}
    shown = cells(POD, pod)
    assert [shown[name] for name in wide] == ["10.0.0.1", "n1", "n2", "1/2"]
    shown = cells(POD, a_pod())
    assert [shown[name] for name in wide] == ["<none>"] * 4


def resource(name, target, current=None):
    metric = {"type": "Resource", "resource": {"name": name, "target": target}}
    found = {"type": "Resource", "resource": {"name": name, "current": current or {}}}
    return metric, found


def other(kind, target, current=None):
    field = kind.lower()
    return {"type": kind, field: {"target": target}}, {field: {"current": current or {}}}


HALF, MOST = {"averageUtilization": 50}, {"averageUtilization": 80}


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [
        ((), "<none>"),
        ([resource("cpu", MOST, HALF)], "cpu: 50%/80%"),
        ([resource("cpu", MOST)], "cpu: <unknown>/80%"),
        ([resource("cpu", {}, HALF)], "cpu: 50%/<auto>"),
        ([resource("cpu", {"averageValue": "100m"}, {"averageValue": "50m"})], "cpu: 50m/100m"),
        ([other("Pods", {"averageValue": "100m"})], "<unknown>/100m"),
        ([other("External", {"averageValue": "9"}, {"averageValue": "8"})], "8/9 (avg)"),
        ([other("Object", {"value": "9"}, {"value": "8"})], "8/9"),
        ([other("Strange", {})], "<unknown type>"),
        ([resource("a", MOST, HALF), resource("b", MOST)], "a: 50%/80%, b: <unknown>/80%"),
        ([resource(name, MOST) for name in "abc"],
         "a: <unknown>/80%, b: <unknown>/80% + 1 more..."),
    ],
)  # fmt: skip
def test_an_autoscaler_shows_two_metrics_and_counts_the_others(metrics, shown):
    obj = {"spec": {"metrics": [m for m, _ in metrics]},
           "status": {"currentMetrics": [found for _, found in metrics]}}  # fmt: skip
    assert cells(AUTOSCALER, obj)["Targets"] == shown


def test_an_autoscaler_of_v1_shows_the_percentage_of_cpu():
    obj = {"spec": {"targetCPUUtilizationPercentage": 80,
                    "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5},
           "status": {"currentReplicas": 3}}  # fmt: skip
    assert list(cells(AUTOSCALER, obj).values()) == [
        "x", "Deployment/web", "cpu: <unknown>/80%", "<unset>", 5, 3, "10m",
    ]  # fmt: skip
    obj["status"]["currentCPUUtilizationPercentage"] = 0
    assert cells(AUTOSCALER, obj)["Targets"] == "cpu: 0%/80%"


@pytest.mark.parametrize(
    ("spec", "status", "completions", "duration"),
    [
        ({"completions": 2}, {"succeeded": 1}, "1/2", ""),
        ({}, {}, "0/1", ""),
        ({"parallelism": 1}, {}, "0/1", ""),
        ({"parallelism": 2}, {"startTime": EARLIER}, "0/1 of 2", "10m"),
        ({}, {"startTime": EARLIER, "completionTime": "2023-11-14T22:03:50Z"}, "0/1", "30s"),
    ],
)
def test_a_job_shows_its_completions(spec, status, completions, duration):
    shown = cells(JOB, {"spec": spec, "status": status})
    assert (shown["Completions"], shown["Duration"]) == (completions, duration)


def test_the_status_of_a_finished_job_wins_over_terminating():
    def status(*held, **meta):
        conditions = [{"type": kind, "status": "True"} for kind in held]
        return cells(JOB, {"metadata": meta, "status": {"conditions": conditions}})["Status"]

    assert status() == "Running"
    assert status("FailureTarget", "Suspended") == "Suspended"
    assert status("Suspended", deletionTimestamp=EARLIER) == "Terminating"
    assert status("Complete", deletionTimestamp=EARLIER) == "Complete"


def test_a_controller_revision_shows_its_controller():
    owners = [
        {"kind": "Other", "name": "o"},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True},
    ]
    shown = cells(CONTROLLER_REVISION, {"metadata": {"ownerReferences": owners}, "revision": 3})
    assert (shown["Controller"], shown["Revision"]) == ("daemonset.apps/d", 3)
    assert cells(CONTROLLER_REVISION, {})["Controller"] == "<none>"
