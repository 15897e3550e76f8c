"""What the stock kube-controller-manager does about tainted devices, as our controller does it.

tests/controllers/test_device_taint_eviction.py expects the same words of the embedded cluster. No
kubelet and no scheduler run: the test assigns pods and allocates their claims.
"""

import json

import pytest

from holdfast.testing import (
    a_claim,
    a_device,
    a_namespace,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
)
from real.programs import create, create_nodes, kube_controller_manager, until

pytestmark = pytest.mark.real
HERE = "taints"
DRIVER = "taints.example.com"
FOREVER = {"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"}
TOLERATIONS = ([], [FOREVER], [FOREVER | {"tolerationSeconds": 4}])
"""Of the claims p0 to p2, on the devices gpu-0 to gpu-2."""
IN_PROGRESS = "EvictionInProgress"
EVENT = ("Normal", "DeviceTaintManagerEviction", "Marking for deletion")


@pytest.fixture
def plane(control_plane):
    """The control plane with three pods on one node, each with a device."""
    create_nodes(control_plane, a_node(HERE))
    devices = a_slice(HERE, node=HERE, driver=DRIVER, devices=3)
    create(control_plane, a_namespace(HERE), devices)
    for number, tolerations in enumerate(TOLERATIONS):
        name = f"p{number}"
        claims = [{"name": "gpu", "resourceClaimName": name}]
        pod = a_pod(name, namespace=HERE, node=HERE, claims=claims)
        create(control_plane, a_claim(name, namespace=HERE), pod)
        uid = control_plane.get("pod", name, "-n", HERE)["metadata"]["uid"]
        result = {
            "request": "req-0",
            "driver": DRIVER,
            "pool": HERE,
            "device": f"gpu-{number}",
            "tolerations": tolerations,
        }
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        }
        patch(control_plane, "resourceclaim", name, {"status": status}, "--subresource=status")
    yield control_plane
    control_plane.kubectl("delete", "devicetaintrule", "dry", "r")
    control_plane.kubectl("delete", "resourceslice", HERE)
    control_plane.kubectl("delete", "pods", "--all", "-n", HERE, "--grace-period=0", "--force")
    control_plane.kubectl("delete", "namespace", HERE, "--wait=false")
    control_plane.kubectl("delete", "node", HERE)


def patch(plane, kind, name, change, *flags):
    plane.kubectl("patch", kind, name, "-n", HERE, "--type=merge", "-p", json.dumps(change), *flags)


def staying(plane):
    pods = plane.get("pods", "-n", HERE)["items"]
    return {p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"]}


def condition(plane, rule):
    conditions = plane.get("devicetaintrule", rule).get("status", {}).get("conditions", [])
    return [(c["type"], c["status"], c["reason"], c["message"]) for c in conditions]


def events(plane, name):
    found = plane.get("events", "-n", HERE)["items"]
    return [
        (e["type"], e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == name
    ]


def test_pods_leave_and_rules_report_progress(plane, tmp_path):
    gates = {"feature-gates": "DRADeviceTaintRules=true"}
    with kube_controller_manager(plane, tmp_path, **gates):
        create(plane, a_taint_rule("dry", pool=HERE, effect="None"))
        said = (
            "3 published devices selected. 3 allocated devices selected. 2 pods would be evicted "
            "in 1 namespace if the effect was NoExecute. This information will not be updated "
            "again. Recreate the DeviceTaintRule to trigger an update."
        )
        until(lambda: condition(plane, "dry"), [(IN_PROGRESS, "False", "NoEffect", said)])
        devices = [a_device(f"gpu-{n}") for n in range(3)]
        devices[0]["taints"] = [{"key": "example.com/other", "effect": "NoExecute"}]
        patch(plane, "resourceslice", HERE, {"spec": {"devices": devices}})
        until(lambda: staying(plane), {"p1", "p2"})
        create(plane, a_taint_rule("r", driver=DRIVER, effect="NoExecute"))
        pending = (
            IN_PROGRESS,
            "True",
            "PodsPendingEviction",
            "1 pod needs to be evicted in 1 namespace.",
        )
        completed = (
            IN_PROGRESS,
            "False",
            "Completed",
            "1 pod evicted since starting the controller.",
        )
        until(lambda: bool(condition(plane, "r")))
        assert condition(plane, "r") in ([pending], [completed])
        until(lambda: staying(plane), {"p1"})
        until(lambda: condition(plane, "r"), [completed])
        until(lambda: events(plane, "p0"), [EVENT])
    gone = plane.get("pod", "p0", "-n", HERE)
    found = next(c for c in gone["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (found["reason"], found["message"]) == (
        "DeletionByDeviceTaintManager",
        "Device Taint manager: deleting due to NoExecute taint",
    )
