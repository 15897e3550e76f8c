"""The programs under test in processes of their own, and objects that kubelets would write."""

import contextlib
import json
import signal
import subprocess
import sys
import time

from free_port import free_port
from real.control_plane import program


def until(question, wanted=True, seconds=60):
    """Wait until ``question`` returns the wanted value; kubectl cannot wait for everything."""
    deadline = time.monotonic() + seconds
    while (answer := question()) != wanted:
        assert time.monotonic() < deadline, f"still {answer!r}, wanted {wanted!r}"
        time.sleep(0.1)


@contextlib.contextmanager
def holdfast(command, kubeconfig, directory, *flags, killed=False):
    """Run ``holdfast scheduler`` or ``holdfast controllers``; it must end without an error.

    With ``killed`` it ends with SIGKILL.
    """
    log = directory / f"{command}.log"
    arguments = [command, "--kubeconfig", kubeconfig, "--health-port", str(free_port()), *flags]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments], stdout=out, stderr=out
        )
    started = {"scheduler": "scheduling for ", "controllers": "running "}[command]
    try:
        until(lambda: started in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.kill() if killed else process.terminate()
        process.wait(30)
    assert process.returncode == (-signal.SIGKILL if killed else 0), log.read_text()


@contextlib.contextmanager
def kube_controller_manager(plane, directory, **more):
    """Run the stock kube-controller-manager with its default controllers, and more flags."""
    flags = {
        "kubeconfig": plane.kubeconfig,
        "leader-elect": "false",
        "secure-port": "0",
        # No kubelet sends heartbeats.
        "node-monitor-grace-period": "1h",
        **more,
    }
    with (directory / "kube-controller-manager.log").open("wb") as out:
        process = subprocess.Popen(
            [
                program("kube-controller-manager"),
                *(f"--{name}={value}" for name, value in flags.items()),
            ],
            stdout=out,
            stderr=out,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def create(plane, *objects):
    """Create objects in one request of kubectl."""
    listing = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    plane.kubectl("create", "-f", "-", text=json.dumps(listing))


def create_nodes(plane, *nodes):
    """Create nodes that are ready, as kubelets do."""
    create(plane, *nodes)
    for node in nodes:
        name, status = node["metadata"]["name"], json.dumps({"status": node["status"]})
        plane.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
        plane.kubectl("taint", "node", name, "node.kubernetes.io/not-ready-", check=False)


def run_pod(plane, namespace, name):
    """Write that a pod runs and is ready, as its kubelet does."""
    now = "2026-01-01T00:00:00Z"
    status = {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
    }
    plane.kubectl(
        "patch",
        "pod",
        name,
        "-n",
        namespace,
        "--subresource=status",
        "-p",
        json.dumps({"status": status}),
    )
