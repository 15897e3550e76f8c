"""DeviceTaintRules on a kube-apiserver v1.37, where they are GA, on, and served as v1 only.

`make versions` builds it; without it these tests are skipped.
"""

import json
import subprocess
import sys

import pytest

from holdfast.testing import a_claim, a_device_class, a_node, a_pod, a_slice, a_taint_rule
from real.control_plane import ControlPlane, other_apiserver
from real.programs import create, create_nodes, holdfast, until

VERSION = "v1.37.1"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(other_apiserver(VERSION) is None, reason="make versions builds it"),
]
BETA = ("--runtime-config=resource.k8s.io/v1beta2=true", "--feature-gates=DRADeviceTaintRules=true")
RULE = {**a_taint_rule("broken", driver="gpu.example.com"), "apiVersion": "resource.k8s.io/v1"}
KINDS = "pods,nodes,resourceclaims,resourceslices,deviceclasses,devicetaintrules"
REJECTED = "cannot allocate all claims"


@pytest.fixture(params=[(), BETA], ids=["gate off before", "v1beta2 before"])
def plane(request, tmp_path):
    """A v1.36 with a node that has devices."""
    plane = ControlPlane(tmp_path / "plane", audit=True, flags=request.param).start()
    try:
        plane.kubectl("apply", "-f", "deploy/crds")
        create_nodes(plane, a_node("n1"))
        create(plane, a_device_class("gpu"), a_slice("s", node="n1", devices=4))
        yield plane
    finally:
        plane.stop()


def use(plane, name):
    claims = [{"name": "dev", "resourceClaimName": name}]
    create(plane, a_claim(name, device_class="gpu"), a_pod(name, cpu="1m", resource_claims=claims))


def node_of(plane, name):
    return plane.get("pod", name)["spec"].get("nodeName", "")


def is_kept_away(plane, name):
    conditions = plane.get("pod", name)["status"].get("conditions", [])
    return any(REJECTED in each.get("message", "") for each in conditions)


def answer(*command):
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *map(str, command)], capture_output=True, text=True
    )
    return done.stdout + done.stderr


def test_rules_are_followed_by_scheduler_and_commands_also_after_an_upgrade(plane, tmp_path):
    scheduler = plane.service_account("holdfast-scheduler")
    with holdfast("scheduler", scheduler, tmp_path, "--no-leader-elect") as log:
        use(plane, "before")
        until(lambda: node_of(plane, "before"), "n1")
        plane.upgrade(VERSION, without=BETA)
        create(plane, RULE)
        until(lambda: "followed in resource.k8s.io/v1 now" in log.read_text())
        use(plane, "kept-away")
        until(lambda: is_kept_away(plane, "kept-away"))
    # From its start, too.
    with holdfast("scheduler", scheduler, tmp_path):
        use(plane, "after")
        until(lambda: is_kept_away(plane, "after"))
        assert REJECTED in answer("why", "after", "--kubeconfig", plane.kubeconfig)
        assert "(rule broken)" in answer("devices", "--kubeconfig", plane.kubeconfig)
        snapshot = tmp_path / "snapshot.json"
        snapshot.write_text(json.dumps(plane.get(KINDS)))
        found = answer("explain", "--snapshot", snapshot, "--pod", "default/after")
        assert "taint example.com/broken:NoSchedule is not tolerated" in found
        plane.kubectl("delete", "devicetaintrule", "broken")
        until(lambda: node_of(plane, "after"), "n1")
        until(lambda: node_of(plane, "kept-away"), "n1")
    refused = [line for line in plane.refused() if "devicetaintrules" in line]
    assert refused == []
