"""PodMigrationJobs on a real kube-apiserver, with the stock kube-controller-manager.

``holdfast scheduler`` and ``holdfast controllers`` run apart, each with its rights in deploy/rbac.
No kubelet runs: the test writes that pods are ready, and pods are evicted without a grace period.
"""

import json
from pathlib import Path

import pytest
import yaml

from holdfast.api.scheme import DISRUPTION_BUDGETS, POD_MIGRATION_JOBS
from holdfast.testing import a_deployment, a_namespace, a_node
from holdfast.testing.builders import an_object
from real.programs import create, create_nodes, holdfast, kube_controller_manager, run_pod, until

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
SPACE = "migrations"
HERE = {"pool": "migrations"}
CONFIG = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "profiles": [
        {
            "name": "koord-descheduler",
            "pluginConfig": [
                {
                    "name": "MigrationController",
                    "args": {
                        "objectLimiters": {},
                        "defaultDeleteOptions": {"gracePeriodSeconds": 0},
                    },
                }
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def plane(control_plane):
    """The control plane with a node for the Deployment."""
    control_plane.kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
    control_plane.kubectl(
        "wait", "--for=condition=Established", "-f", str(ROOT / "deploy" / "crds"), "--timeout=30s"
    )
    create(control_plane, a_namespace(SPACE))
    create_nodes(control_plane, a_node("move-1", labels=HERE))
    yield control_plane
    control_plane.kubectl("delete", "podmigrationjob", "--all")
    control_plane.kubectl("delete", "namespace", SPACE, "--wait=false")
    control_plane.kubectl("delete", "node", "move-1", "move-2", "--ignore-not-found")


def pods(plane):
    found = plane.get("pods", "-n", SPACE)["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def run_all(plane):
    """Play the kubelets; return the nodes of the pods."""
    for pod in pods(plane):
        if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            run_pod(plane, SPACE, pod["metadata"]["name"])
    return sorted(pod["spec"].get("nodeName", "") for pod in pods(plane))


def job_for(name, pod, **spec):
    ref = {"namespace": SPACE, "name": pod}
    return an_object(POD_MIGRATION_JOBS, name, {"podRef": ref, "ttl": "5m", **spec})


def status(plane, name):
    return plane.get("podmigrationjob", name).get("status", {})


def condition(plane, name, type_):
    found = status(plane, name).get("conditions", ())
    return next(((c["status"], c.get("reason", "")) for c in found if c["type"] == type_), None)


def test_a_pod_moves_to_reserved_room(
    plane, scheduler_kubeconfig, controllers_kubeconfig, tmp_path
):
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    with (
        kube_controller_manager(plane, tmp_path),
        holdfast("scheduler", scheduler_kubeconfig, tmp_path, "--no-controllers"),
        holdfast("controllers", controllers_kubeconfig, tmp_path, "--config", config),
    ):
        create(plane, a_deployment("web", namespace=SPACE, replicas=3, cpu="2", node_selector=HERE))
        until(lambda: run_all(plane), ["move-1"] * 3)
        budget = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        create(plane, an_object(DISRUPTION_BUDGETS, "web", budget, namespace=SPACE))
        allowed = ("get", "pdb", "web", "-n", SPACE, "-o", "jsonpath={.status.currentHealthy}")
        until(lambda: plane.kubectl(*allowed), "3")
        old = pods(plane)[0]["metadata"]

        create(plane, job_for("move", old["name"]))
        unschedulable = ("False", "Unschedulable")
        until(lambda: condition(plane, "move", "ReservationScheduled"), unschedulable)
        create_nodes(plane, a_node("move-2", labels=HERE))
        until(lambda: condition(plane, "move", "ReservationScheduled"), ("True", ""))
        reason = ("get", "events", "-A", "--field-selector",
                  "involvedObject.name=move,reason=FailedEvict", "-o",
                  "jsonpath={.items[0].message}")  # fmt: skip
        until(lambda: "disruption budget" in plane.kubectl(*reason, check=False))
        assert old["uid"] in {pod["metadata"]["uid"] for pod in pods(plane)}
        relaxed = json.dumps({"spec": {"minAvailable": 2}})
        plane.kubectl("patch", "pdb", "web", "-n", SPACE, "--type=merge", "-p", relaxed)
        until(lambda: run_all(plane) and status(plane, "move").get("phase"), "Succeeded")

        assert run_all(plane) == ["move-1", "move-1", "move-2"]
        done = status(plane, "move")
        assert (done["status"], done["nodeName"]) == ("Complete", "move-2")
        new = plane.get("pod", done["podRef"]["name"], "-n", SPACE)
        assert new["spec"]["nodeName"] == "move-2"
        assert old["uid"] not in {pod["metadata"]["uid"] for pod in pods(plane)}
        line = plane.kubectl("get", "pmj", "move", "--no-headers").split()
        assert line[:3] == ["move", "Succeeded", "Complete"]

        held = plane.get("podmigrationjob", "move")["spec"]["reservationOptions"]
        name = held["reservationRef"]["name"]
        plane.kubectl("delete", "pmj", "move")
        gone = ("get", "reservation", name, "--ignore-not-found", "-o", "name")
        until(lambda: plane.kubectl(*gone), "")
