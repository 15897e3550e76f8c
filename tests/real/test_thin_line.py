"""A pod, a reservation and a restart on a real kube-apiserver and etcd.

No kubelet runs: the test creates Node objects that are Ready, and pods are bound but never run.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from free_port import free_port
from holdfast.testing import a_node, a_pod, a_reservation

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def cluster(control_plane):
    """The control plane with Holdfast's CRDs and three ready nodes."""
    control_plane.kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
    control_plane.kubectl(
        "wait", "--for=condition=Established", "-f", str(ROOT / "deploy" / "crds"), "--timeout=30s"
    )
    for name in ("node-0", "node-1", "node-2"):
        node = a_node(name, cpu="16", memory="32Gi")
        control_plane.kubectl("create", "-f", "-", text=json.dumps(node))
        control_plane.kubectl(
            "patch", "node", name, "--subresource=status", "--type=merge",
            "-p", json.dumps({"status": node["status"]}),
        )  # fmt: skip
        control_plane.kubectl("taint", "node", name, "node.kubernetes.io/not-ready-", check=False)
    return control_plane


@contextlib.contextmanager
def scheduling(kubeconfig, log):
    """Run `holdfast scheduler` in its own process."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "scheduler", "--kubeconfig", kubeconfig,
             "--health-port", str(free_port())],
            stdout=out, stderr=out,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)


@pytest.fixture
def scheduler(cluster, scheduler_kubeconfig, tmp_path):
    log = tmp_path / "scheduler.log"
    with scheduling(scheduler_kubeconfig, log) as process:
        # Signals are handled only after the start.
        until(lambda: "scheduling for" in log.read_text())
        yield process
    assert process.returncode == 0, log.read_text()


def until(question, seconds=60):
    """Wait until ``question`` returns a true value; kubectl cannot wait for everything."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"never true: {question}"
        time.sleep(0.1)
    return answer


def bound(cluster, name):
    return cluster.kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


def phase(cluster, name):
    return cluster.kubectl("get", "reservation", name, "-o", "jsonpath={.status.phase}")


def test_a_pod_and_the_guides_reservation(cluster, scheduler):
    cluster.kubectl("apply", "-f", str(EXAMPLES / "01-first-pod"))
    assert until(lambda: bound(cluster, "first")).startswith("node-")
    cluster.kubectl("create", "-f", str(EXAMPLES / "10-reservation" / "reservation-demo.yaml"))
    until(lambda: phase(cluster, "reservation-demo") == "Available")
    held = cluster.get("reservation", "reservation-demo")
    assert held["status"]["allocatable"] == {"cpu": "500m", "memory": "800Mi"}
    cluster.kubectl("create", "-f", str(EXAMPLES / "10-reservation" / "pod-demo-0.yaml"))
    assert until(lambda: bound(cluster, "pod-demo-0")) == held["status"]["nodeName"]
    pod = cluster.get("pod", "pod-demo-0")
    note = json.loads(
        pod["metadata"]["annotations"]["scheduling.koordinator.sh/reservation-allocated"]
    )
    assert note == {"name": "reservation-demo", "uid": held["metadata"]["uid"]}
    mine = ("--field-selector", "involvedObject.name=pod-demo-0")
    until(lambda: "Scheduled" in {e["reason"] for e in cluster.get("events", *mine)["items"]})
    columns = cluster.kubectl("get", "reservation", "reservation-demo").splitlines()[0].split()
    assert columns == ["NAME", "PHASE", "AGE", "NODE", "TTL", "EXPIRES"]


def test_a_restarted_scheduler_knows_the_reservations(cluster, scheduler_kubeconfig, tmp_path):
    everything = a_reservation("all", cpu="15", owner_labels={"app": "big"}, allocate_once=False)
    log = tmp_path / "scheduler.log"
    names = ("all-0", "all-1", "all-2")
    with scheduling(scheduler_kubeconfig, log) as process:
        for name in names:
            everything["metadata"]["name"] = name
            cluster.kubectl("create", "-f", "-", text=json.dumps(everything))
        until(lambda: all(phase(cluster, n) == "Available" for n in names))
        process.send_signal(signal.SIGKILL)
        process.wait()
    with scheduling(scheduler_kubeconfig, log):
        cluster.kubectl("create", "-f", "-", text=json.dumps(a_pod("stranger", cpu="2")))
        said = until(lambda: cluster.kubectl(
            "get", "pod", "stranger",
            "-o", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"))  # fmt: skip
        assert said.startswith("0/3 nodes are available: 3 Insufficient cpu.")
        owner = a_pod("owner", cpu="15", labels={"app": "big"})
        cluster.kubectl("create", "-f", "-", text=json.dumps(owner))
        assert until(lambda: bound(cluster, "owner"))
        cluster.kubectl("delete", "reservation", *names)
        assert until(lambda: bound(cluster, "stranger"))
    cluster.kubectl("delete", "pod", "stranger", "owner", "--grace-period=0", "--force")
