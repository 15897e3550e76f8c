"""Every command of docs/real-clusters.md works, in the order of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from free_port import free_port
from holdfast.testing import a_node, a_pod
from real.control_plane import ControlPlane, program
from real.programs import create, create_nodes, until

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "real-clusters.md"
STARTED = {"scheduler": "scheduling for ", "controllers": "running "}
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: classic}
spec:
  containers: [{name: main, image: none, resources: {claims: [gpu]}}]
  resourceClaims: [{name: gpu, template: {resourceClassName: acme}}]
"""


def commands():
    page = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.S)  # those are manifests
    return re.findall(r"^    (.*)$", page, re.M)


class Shell:
    """Runs commands one after the other; ``holdfast`` runs on in the background."""

    def __init__(self, plane, directory):
        tools = directory / "bin"
        tools.mkdir()
        (tools / "kubectl").symlink_to(program("kubectl"))
        (tools / "holdfast").symlink_to(Path(sys.executable).parent / "holdfast")
        (directory / "deploy").symlink_to(ROOT / "deploy")
        self._directory = directory
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig),
            "PATH": f"{tools}:{os.defpath}",
        }
        self._ports = {"10259": free_port(), "10257": free_port()}
        self._running = []

    def run(self, line):
        """Run a command; return its output."""
        if line.startswith(tuple(f"holdfast {name}" for name in STARTED)):
            return self._start(line)
        for usual, port in self._ports.items():
            line = line.replace(f"127.0.0.1:{usual}", f"127.0.0.1:{port}")
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self._directory,
            env=self._environment,
            text=True,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _start(self, line):
        name = line.split()[1]
        port = self._ports["10259" if name == "scheduler" else "10257"]
        log = self._directory / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*line.split(), "--health-port", str(port)],
                cwd=self._directory,
                env=self._environment,
                stdout=out,
                stderr=out,
            )
        self._running.append((process, log))
        until(lambda: STARTED[name] in log.read_text())
        return log.read_text()

    def stop(self):
        """Stop the programs; none may have failed."""
        for process, log in self._running:
            process.terminate()
            assert process.wait(30) == 0, log.read_text()
        self._running.clear()


@pytest.fixture
def plane(tmp_path):
    """A control plane of its own: the page removes what other tests use."""
    running = ControlPlane(tmp_path / "plane", audit=True).start()
    yield running
    running.stop()


def test_every_command_of_the_page_works(plane, tmp_path):
    create_nodes(plane, a_node("n", cpu="4"))
    directory = tmp_path / "page"
    directory.mkdir()
    (directory / "pods.yaml").write_text(PODS)
    shell = Shell(plane, directory)
    shown = {}
    try:
        for line in commands():
            if line.startswith("kubectl delete --ignore-not-found"):
                assert plane.refused() == []
                shell.stop()
            shown[line] = shell.run(line)
            if line.startswith("holdfast scheduler"):
                create(plane, a_pod("first"))
                until(lambda: plane.get("pod", "first")["spec"].get("nodeName"), "n")
    finally:
        shell.stop()
    text = "\n".join(shown.values())
    ours = ("reservation-controller", "reservation-device-controller", "resourcepolicy-controller",
            "podmigrationjob-controller", "classic-")  # fmt: skip
    assert f"running {', '.join(ours)}" in text
    assert "resourceClaimName: classic-gpu-shadow" in (directory / "converted.yaml").read_text()
    assert text.count("readyz check passed") == 2
    assert set(STARTED) | {"convert", "webhook"} == {
        line.split()[1] for line in shown if line.startswith("holdfast ")
    }
    assert plane.kubectl("get", "crd", "-o", "name") == ""
    users = {
        kind: plane.kubectl(
            "config",
            "view",
            "--kubeconfig",
            str(directory / f"{kind}.kubeconfig"),
            "-o",
            "jsonpath={.users[*].name}",
        )
        for kind in STARTED
    }
    assert users == {kind: f"holdfast-{kind}" for kind in STARTED}
