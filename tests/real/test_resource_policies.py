"""Resource policies on a real kube-apiserver, with the stock kube-controller-manager.

``holdfast scheduler`` and ``holdfast controllers`` run apart, each with its rights in deploy/rbac.
No kubelet runs: the test writes that pods are ready, and removes terminating pods.
"""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.testing import a_deployment, a_namespace, a_node
from policies.objects import TIERS, WEB, policy
from real.control_plane import program
from real.programs import (
    create,
    create_nodes,
    holdfast,
    kube_controller_manager,
    run_pod,
    until,
)

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
HERE = {"pool": "policies"}
NODES = ("a1", "a2", "b1", "b2", "c1")
COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.fixture(scope="module")
def plane(control_plane):
    """The control plane with the nodes of the specification's scenarios."""
    if program("kube-controller-manager") is None:
        pytest.fail("kube-controller-manager not found: run `make binaries` (needs Go) first")
    control_plane.kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
    control_plane.kubectl(
        "wait", "--for=condition=Established", "-f", str(ROOT / "deploy" / "crds"), "--timeout=30s"
    )
    create(control_plane, a_namespace(WEB))
    tiers = {name: TIERS[name[0]] for name in NODES}
    create_nodes(
        control_plane,
        *(
            a_node(name, labels=HERE | ({"tier": tier} if tier else {}))
            for name, tier in tiers.items()
        ),
    )
    yield control_plane
    control_plane.kubectl("delete", "namespace", WEB, "--wait=false")
    control_plane.kubectl("delete", "node", *NODES)


@pytest.fixture(params=["apart", "in one process"])
def running(plane, scheduler_kubeconfig, controllers_kubeconfig, tmp_path, request):
    """kube-controller-manager, the scheduler, and the controllers apart or in its process."""
    apart = request.param == "apart"
    with (
        kube_controller_manager(plane, tmp_path),
        holdfast("scheduler", scheduler_kubeconfig, tmp_path, *["--no-controllers"] * apart),
        (
            holdfast("controllers", controllers_kubeconfig, tmp_path)
            if apart
            else contextlib.nullcontext()
        ),
    ):
        yield plane
        plane.kubectl("delete", "deployment", "web", "-n", WEB)
        plane.kubectl("delete", "pod", "--all", "-n", WEB, "--grace-period=0", "--force")


def pods(plane):
    return plane.get("pods", "-n", WEB)["items"]


def staying(plane):
    """Return how many pods stay on the nodes of each letter."""
    found = [pod for pod in pods(plane) if "deletionTimestamp" not in pod["metadata"]]
    return Counter(pod["spec"].get("nodeName", "-")[0] for pod in found)


def costs(plane):
    """Return the deletion costs of the pods by the letter of their nodes."""
    found = {}
    for pod in pods(plane):
        cost = pod["metadata"].get("annotations", {}).get(COST)
        found.setdefault(pod["spec"].get("nodeName", "-")[0], []).append(cost)
    return found


def scale(plane, replicas, stay):
    """Scale with kubectl; wait until the pods that stay are those given by letter."""
    plane.kubectl("scale", "deployment/web", "-n", WEB, f"--replicas={replicas}")
    until(lambda: staying(plane).total(), replicas)
    assert staying(plane) == stay
    for pod in pods(plane):
        if "deletionTimestamp" in pod["metadata"]:
            name = pod["metadata"]["name"]
            plane.kubectl("delete", "pod", name, "-n", WEB, "--grace-period=0", "--force")
    until(lambda: len(pods(plane)), replicas)


def usage(plane):
    return plane.kubectl("get", "resourcepolicy", "p", "-n", WEB, "-o", "jsonpath={.status.usage}")


def policy_command(plane, *arguments):
    """Run ``holdfast policy`` and return its output."""
    command = [sys.executable, "-m", "holdfast", "policy", *arguments]
    done = subprocess.run(
        [*command, "-n", WEB, "--kubeconfig", plane.kubeconfig],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_P040_kube_controller_manager_scales_in_from_the_lowest_unit(running):
    create(
        running,
        policy(),
        a_deployment("web", replicas=6, namespace=WEB, cpu="1", node_selector=HERE),
    )
    until(lambda: staying(running), Counter(a=2, b=3, c=1))
    for pod in pods(running):
        run_pod(running, WEB, pod["metadata"]["name"])
    until(lambda: costs(running), {"a": ["200"] * 2, "b": ["100"] * 3, "c": ["0"]})
    until(lambda: usage(running), "od 2/2, spot 3/3")
    assert "od 2/2, spot 3/3, no unit 1" in policy_command(running, "list")
    assert "Ready=True" in policy_command(running, "status", "p", "--pods")
    assert policy_command(running, "why", "p", "--for", "deployment/web").startswith(
        "web/p: one more pod of deployment/web would be placed on c1 (no unit)"
    )

    scale(running, 3, Counter(a=2, b=1))
    until(lambda: usage(running), "od 2/2, spot 1/3")
    scale(running, 2, Counter(a=2))
    until(lambda: usage(running), "od 2/2, spot 0/3")

    running.kubectl("delete", "resourcepolicy", "p", "-n", WEB)
    until(lambda: costs(running), {"a": [None, None]})
    events = json.loads(running.kubectl("get", "events", "-n", WEB, "-o", "json"))["items"]
    assert not [e["message"] for e in events if e["reason"] == "FailedReconcile"]
