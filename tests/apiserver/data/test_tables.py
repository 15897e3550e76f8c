"""Table rows as `kubectl get` prints them."""

import json
from pathlib import Path

import pytest

from holdfast.api import scheme
from holdfast.api.resource import Resource
from holdfast.api.timestamps import rfc3339
from holdfast.runtime.errors import BadRequest
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.kinds import BUILT_IN
from holdfast.server.tables import columns_of, custom_printer, table

NOW = 1_000_000.0
RECORDED = json.loads(Path(__file__).with_name("table_cases.json").read_text())["cases"]


PRINTERS = {(s.resource.group, s.resource.plural): s.printer for s in BUILT_IN}


def built_in(group, plural):
    return PRINTERS[group, plural]


def of(resource):
    return PRINTERS[resource.group, resource.plural]


def at(seconds_ago):
    return rfc3339(NOW - seconds_ago)


def obj(name="a", age=90, **parts):
    meta = {"name": name, "creationTimestamp": at(age)} | parts.pop("metadata", {})
    return {"metadata": meta} | parts


def cells(printer, one, **kwargs):
    return table(printer, [one], now=NOW, **kwargs)["rows"][0]["cells"]


def shown(printer, one, wide=False):
    """Return a row as a map from column name to cell."""
    made = table(printer, [one], now=NOW)
    return {
        c["name"]: v
        for c, v in zip(made["columnDefinitions"], made["rows"][0]["cells"], strict=True)
        if wide or not c["priority"]
    }


def pod(phase="Running", statuses=(), init=(), spec=None, metadata=None, **status):
    spec = {"containers": [{"name": "c", "image": "i"}]} | (spec or {})
    status = {"phase": phase, "containerStatuses": list(statuses)} | status
    if init:
        status["initContainerStatuses"] = list(init)
    return obj(metadata=metadata or {}, spec=spec, status=status)


def running(ready=True, restarts=0, **more):
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": {"running": {}}} | more


def stopped(code, reason="", **more):
    return {"name": "c", "state": {"terminated": {"exitCode": code, "reason": reason} | more}}


def waiting(reason):
    return {"name": "c", "state": {"waiting": {"reason": reason}}}


READY = {"type": "Ready", "status": "True"}
DELETED = {"deletionTimestamp": at(1)}


@pytest.mark.parametrize(
    ("one", "status", "ready"),
    [
        (pod("Pending"), "Pending", "0/1"),
        (pod("Running", [running()]), "Running", "1/1"),
        (pod("Pending", [waiting("ContainerCreating")]), "ContainerCreating", "0/1"),
        (pod("Running", [waiting("CrashLoopBackOff")]), "CrashLoopBackOff", "0/1"),
        (pod("Succeeded", [stopped(0, "Completed")]), "Completed", "0/1"),
        (pod("Failed", [stopped(1, "Error")]), "Error", "0/1"),
        (pod("Failed", [stopped(3)]), "ExitCode:3", "0/1"),
        (pod("Failed", [stopped(3, signal=9)]), "Signal:9", "0/1"),
        (pod("Failed", reason="Evicted"), "Evicted", "0/1"),
        (
            pod("Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
            "SchedulingGated",
            "0/1",
        ),
        # one finished, one running: the pod runs; without the Ready condition it is not ready
        (
            pod("Running", [stopped(0, "Completed"), running()], conditions=[READY]),
            "Running",
            "1/1",
        ),
        (pod("Running", [stopped(0, "Completed"), running()]), "NotReady", "1/1"),
        (pod("Running", [stopped(0, "Completed"), stopped(2, "Error")]), "Error", "0/1"),
        (pod("Running", [running()], metadata=DELETED), "Terminating", "1/1"),
        (pod("Running", [running()], metadata=DELETED, reason="NodeLost"), "Unknown", "1/1"),
        (
            pod("Succeeded", [stopped(0, "Completed")], metadata=DELETED),
            "Completed",
            "0/1",
        ),
    ],
)
def test_pod_status_is_that_of_upstream(one, status, ready):
    row = shown(of(scheme.PODS), one)
    assert (row["Status"], row["Ready"]) == (status, ready)


INIT = {"initContainers": [{"name": "i1"}, {"name": "i2"}]}
SIDECAR = {"initContainers": [{"name": "i1", "restartPolicy": "Always"}]}


@pytest.mark.parametrize(
    ("one", "status", "ready"),
    [
        (pod("Pending", spec=INIT, init=[running()]), "Init:0/2", "0/1"),
        (pod("Pending", spec=INIT, init=[stopped(0), running()]), "Init:1/2", "0/1"),
        (pod("Pending", spec=INIT, init=[waiting("ErrImagePull")]), "Init:ErrImagePull", "0/1"),
        (pod("Pending", spec=INIT, init=[waiting("PodInitializing")]), "Init:0/2", "0/1"),
        (pod("Pending", spec=INIT, init=[stopped(1, "Error")]), "Init:Error", "0/1"),
        (pod("Pending", spec=INIT, init=[stopped(4)]), "Init:ExitCode:4", "0/1"),
        (
            pod("Running", [running()], spec=SIDECAR, init=[running(name="i1", started=True)]),
            "Running",
            "2/2",
        ),
        (pod("Pending", spec=SIDECAR, init=[running(name="i1")]), "Init:0/1", "0/2"),
    ],
)
def test_init_containers_and_sidecars_show_in_the_status(one, status, ready):
    row = shown(of(scheme.PODS), one)
    assert (row["Status"], row["Ready"]) == (status, ready)


def test_a_pod_row_has_the_columns_of_kubectl_get_and_wide_adds_the_node():
    one = pod("Running", [running()], spec={"nodeName": "n1"}, podIPs=[{"ip": "10.0.0.1"}])
    assert list(shown(of(scheme.PODS), one)) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert shown(of(scheme.PODS), one, wide=True) == {
        "Name": "a",
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "0",
        "Age": "90s",
        "IP": "10.0.0.1",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }


def test_restarts_show_the_time_of_the_last_one():
    last = {"terminated": {"finishedAt": at(300)}}
    one = pod("Running", [running(restarts=3, lastState=last)])
    assert shown(of(scheme.PODS), one)["Restarts"] == "3 (5m ago)"


def test_the_row_of_a_finished_pod_has_the_condition_completed():
    row = table(of(scheme.PODS), [pod("Failed")], now=NOW)["rows"][0]
    assert row["conditions"][0] == {
        "type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed.",
    }  # fmt: skip
    assert "conditions" not in table(of(scheme.PODS), [pod()], now=NOW)["rows"][0]


def test_readiness_gates_are_counted():
    gates = {"readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]}
    one = pod(spec=gates, conditions=[{"type": "x", "status": "True"}])
    assert shown(of(scheme.PODS), one, wide=True)["Readiness Gates"] == "1/2"


def test_nodes():
    one = obj(
        metadata={"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
        spec={"unschedulable": True},
        status={
            "conditions": [READY],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "arm64"},
        },
    )
    assert cells(of(scheme.NODES), one) == [
        "a", "Ready,SchedulingDisabled", "gpu,worker", "90s", "v1", "10.0.0.9", "<none>",
        "<unknown>", "6 (arm64)", "<unknown>",
    ]  # fmt: skip
    assert cells(of(scheme.NODES), obj())[1] == "Unknown"


@pytest.mark.parametrize(
    ("printer", "one", "expected"),
    [
        (
            of(scheme.DEPLOYMENTS),
            obj(
                spec={
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "x"}},
                    "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                },
                status={"readyReplicas": 1, "updatedReplicas": 2},
            ),
            ["a", "1/3", 2, 0, "90s", "c", "i", "app=x"],
        ),
        (
            of(scheme.REPLICASETS),
            obj(spec={"replicas": 2}, status={"replicas": 1}),
            ["a", 2, 1, 0, "90s", "", "", "<none>"],
        ),
        (
            built_in("batch", "jobs"),
            obj(
                spec={"completions": 2},
                status={
                    "succeeded": 2,
                    "startTime": at(80),
                    "completionTime": at(20),
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            ),
            ["a", "Complete", "2/2", "60s", "90s", "", "", "<none>"],
        ),
        (
            of(scheme.DISRUPTION_BUDGETS),
            obj(spec={"minAvailable": "50%"}, status={"disruptionsAllowed": 1}),
            ["a", "50%", "N/A", 1, "90s"],
        ),
        (of(scheme.NAMESPACES), obj(status={"phase": "Active"}), ["a", "Active", "90s"]),
        (of(scheme.LEASES), obj(spec={"holderIdentity": "me"}), ["a", "me", "90s"]),
        (built_in("", "configmaps"), obj(data={"x": "1"}, binaryData={"y": ""}), ["a", 2, "90s"]),
        (built_in("", "secrets"), obj(type="Opaque", data={"x": ""}), ["a", "Opaque", 1, "90s"]),
        (
            of(scheme.PRIORITY_CLASSES),
            obj(value=7, preemptionPolicy="Never"),
            ["a", 7, False, "90s", "Never"],
        ),
        (of(scheme.RESOURCE_CLAIMS), obj(), ["a", "pending", "90s"]),
        (
            of(scheme.RESOURCE_CLAIMS),
            obj(metadata=DELETED, status={"allocation": {}, "reservedFor": [{}]}),
            ["a", "deleted,allocated,reserved", "90s"],
        ),
        (
            of(scheme.RESOURCE_SLICES),
            obj(spec={"driver": "d", "nodeName": "n", "pool": {"name": "p"}}),
            ["a", "n", "d", "p", "90s"],
        ),
        (
            built_in("", "services"),
            obj(
                spec={
                    "type": "NodePort",
                    "clusterIP": "10.1.1.1",
                    "clusterIPs": ["10.1.1.1"],
                    "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}],
                    "selector": {"b": "2", "a": "1"},
                }
            ),
            ["a", "NodePort", "10.1.1.1", "<none>", "80:30000/TCP", "90s", "a=1,b=2"],
        ),
        (
            built_in("", "persistentvolumeclaims"),
            obj(
                spec={"volumeName": "v", "storageClassName": "fast", "volumeMode": "Block"},
                status={
                    "phase": "Bound",
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                },
            ),
            ["a", "Bound", "v", "1Gi", "RWO", "fast", "<unset>", "90s", "Block"],
        ),
        (
            built_in("", "resourcequotas"),
            obj(status={"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}),
            ["a", "pods: 1/5", "limits.cpu: 0/2", "90s"],
        ),
        (built_in("rbac.authorization.k8s.io", "roles"), obj(), ["a", at(90)]),
        (built_in("apiextensions.k8s.io", "customresourcedefinitions"), obj(), ["a", at(90)]),
        (
            KindDescriptor(Resource("x.io", "v1", "widgets", "Widget", dict)).printer,
            obj(),
            ["a", "90s"],
        ),
    ],
)
def test_built_in_kinds_print_as_upstream(printer, one, expected):
    assert cells(printer, one) == expected


def test_events_of_both_groups_print_alike():
    core = obj(
        type="Warning", reason="FailedScheduling", message=" no room\n", count=2,
        firstTimestamp=at(600), lastTimestamp=at(5), source={"component": "sched", "host": "h"},
        involvedObject={"kind": "Pod", "name": "p", "fieldPath": "spec"},
    )  # fmt: skip
    expected = [
        "5s", "Warning", "FailedScheduling", "pod/p", "spec", "sched, h", "no room", "10m", 2, "a",
    ]  # fmt: skip
    assert cells(of(scheme.EVENTS), core) == expected
    new = obj(
        type="Warning", reason="FailedScheduling", note="no room", eventTime=at(600),
        reportingController="sched", reportingInstance="h",
        series={"count": 2, "lastObservedTime": at(5)},
        regarding={"kind": "Pod", "name": "p", "fieldPath": "spec"},
    )  # fmt: skip
    assert cells(built_in("events.k8s.io", "events"), new) == expected


def test_custom_resources_print_their_own_columns():
    version = {
        "additionalPrinterColumns": [
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            {"name": "Sel", "type": "string", "jsonPath": ".spec.sel"},
            {"name": "Odd", "type": "boolean", "jsonPath": ".spec.n"},
        ]
    }
    widgets = custom_printer(columns_of(version))
    one = obj(spec={"n": 3, "sel": {"a": [1]}}, status={"phase": "Available"})
    assert cells(widgets, one) == ["a", "Available", 3, "90s", '{"a":[1]}', None]
    made = table(widgets, [], now=NOW)["columnDefinitions"]
    assert [c["name"] for c in made] == ["Name", "Phase", "N", "Age", "Sel", "Odd"]
    assert made[2]["priority"] == 1


def test_a_crd_without_columns_shows_the_age():
    assert [c.name for c in columns_of({})] == ["Age"]


def test_rows_contain_the_requested_object():
    one = pod()
    rows = {
        how: table(of(scheme.PODS), [one], include_object=how, now=NOW)["rows"][0]["object"]
        for how in ("None", "Metadata", "Object")
    }
    assert rows["None"] is None
    assert rows["Metadata"] == {
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": one["metadata"],
    }  # fmt: skip
    assert rows["Object"] is one
    with pytest.raises(BadRequest, match="includeObject"):
        table(of(scheme.PODS), [one], include_object="Everything", now=NOW)


def test_later_watch_events_have_no_columns_and_lists_keep_their_metadata():
    made = table(
        of(scheme.PODS), [], with_columns=False, now=NOW, metadata={"resourceVersion": "9"}
    )
    assert made["columnDefinitions"] is None
    assert made["metadata"] == {"resourceVersion": "9"}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['group']}/{case['plural']}")
def test_rows_equal_those_of_a_real_api_server(case):
    made = table(PRINTERS[case["group"], case["plural"]], case["items"], now=case["now"])
    columns = [
        [c["name"], c["type"], c["format"], c["priority"]] for c in made["columnDefinitions"]
    ]
    assert columns == case["columns"]
    assert [row["cells"] for row in made["rows"]] == case["cells"]
