"""Kubernetes' own example DRA driver, unmodified, on a node of the embedded cluster.

Its demo manifests are read from its Go module. Every container prints its environment, in which
the driver's CDI files have put the GPUs of its claims.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kubectl_program import binaries
from real.control_plane import program
from real.programs import until

pytestmark = pytest.mark.real
MODULE = Path(__file__).parent / "example_driver"
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]
"""


class ExampleCluster:
    """A running cluster whose node-0001 runs processes, and the driver beside it."""

    def __init__(self, directory):
        self.directory = directory
        self.node = directory / "nodes/node-0001"

    def kubectl(self, *arguments, text=None):
        command = [program("kubectl"), "--kubeconfig", self.directory / "kubeconfig", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]

    @contextlib.contextmanager
    def driver(self):
        """Run the driver as its DaemonSet would, with the directories of our node."""
        [path] = binaries().glob("*/dra-example-kubeletplugin-*")
        flags = {
            "--kubeconfig": self.node / "kubeconfig", "--node-name": "node-0001",
            "--cdi-root": self.node / "cdi",
            "--kubelet-plugins-directory-path": self.node / "plugins",
            "--kubelet-registrar-directory-path": self.node / "plugins_registry",
        }  # fmt: skip
        words = [str(word) for flag in flags.items() for word in flag]
        with (self.directory / "driver.log").open("ab") as log:
            process = subprocess.Popen([path, *words], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)

    def environment(self, namespace, pod, container):
        """Wait for all that ``export`` prints: it sorts, and bash itself sets SHLVL."""
        read = ("logs", "-n", namespace, pod, "-c", container)
        until(lambda: "declare -x SHLVL=" in self.kubectl(*read))
        return self.kubectl(*read)

    def gpus(self, namespace):
        """Return the GPUs that each container of a namespace prints, by pod and container."""
        found = {}
        for pod in self.objects("pods", "-n", namespace):
            name = pod["metadata"]["name"]
            for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
                log = self.environment(namespace, name, container["name"])
                devices = re.findall(r'GPU_DEVICE_\d+="(gpu-\d+)"', log)
                found[name, container["name"]] = sorted(devices)
        return found


@pytest.fixture(scope="module")
def cluster():
    if shutil.which("go") is None:
        pytest.skip("the demo manifests are in the Go module of the driver: install Go")
    with tempfile.TemporaryDirectory(prefix="hf-", ignore_cleanup_errors=True) as path:
        flags = ["--data-dir", path, "--nodes", "2", "--runtime", "process", "--port", "0"]
        holdfast = [sys.executable, "-m", "holdfast"]
        subprocess.run([*holdfast, "up", "--detach", *flags], check=True, timeout=120)
        try:
            yield ExampleCluster(Path(path))
        finally:
            subprocess.run([*holdfast, "down", "--data-dir", path], check=True, timeout=60)


def demo(number):
    where = subprocess.check_output(
        ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/dra-example-driver"],
        cwd=MODULE, text=True,
    )  # fmt: skip
    return Path(where.strip()) / f"demo/gpu-test{number}.yaml"


def run_demo(cluster, number):
    """Apply a demo and return the GPUs of its containers when all of them run."""
    namespace = f"gpu-test{number}"
    cluster.kubectl("apply", "-f", str(demo(number)))
    cluster.kubectl("wait", "pods", "--all", "-n", namespace, "--for=condition=Ready",
                    "--timeout=60s")  # fmt: skip
    return cluster.gpus(namespace)


def test_the_demos_of_the_example_driver(cluster):
    cluster.kubectl("apply", "-f", "-", text=CLASS)
    cluster.kubectl("apply", "-f", str(demo(1)))
    with cluster.driver() as driver:
        one = run_demo(cluster, 1)
        assert sorted(map(len, one.values())) == [1, 1]
        assert one["pod0", "ctr0"] != one["pod1", "ctr0"]
        assert [len(gpus) for gpus in run_demo(cluster, 2).values()] == [2]
        three = run_demo(cluster, 3)  # two containers share a claim
        assert three["pod0", "ctr0"] == three["pod0", "ctr1"] != []
        four = run_demo(cluster, 4)  # two pods share a claim
        assert four["pod0", "ctr0"] == four["pod1", "ctr0"] != []
        five = run_demo(cluster, 5)  # requests of one claim, in separate containers
        assert five["pod0", "ts-ctr0"] == five["pod0", "ts-ctr1"]
        assert five["pod0", "sp-ctr0"] == five["pod0", "sp-ctr1"] != five["pod0", "ts-ctr0"]
        in_use = [g for found in (one, three, four, five) for gpus in found.values() for g in gpus]
        assert len(set(in_use)) == 6

        # All eight GPUs are in use: the next pod waits until one is free.
        cluster.kubectl("apply", "-f", str(demo(6)))
        until(lambda: "PodScheduled" in json.dumps(cluster.objects("pods", "-n", "gpu-test6")))
        [waiting] = cluster.objects("pods", "-n", "gpu-test6")
        assert waiting["status"]["phase"] == "Pending"
        cluster.kubectl("delete", "pod", "pod0", "-n", "gpu-test1", "--timeout=60s")
        six = run_demo(cluster, 6)  # an init container and a container share a claim
        assert six["pod0", "init0"] == six["pod0", "ctr0"] == one["pod0", "ctr0"]

        for number in range(1, 7):
            cluster.kubectl("delete", "-f", str(demo(number)), "--timeout=60s",
                            "--ignore-not-found")  # fmt: skip
        until(lambda: [p.name for p in (cluster.node / "cdi").iterdir() if "common" not in p.name],
              [])  # fmt: skip
        assert driver.poll() is None
    assert len(cluster.objects("resourceslices")) == 1  # for 30 s, if the driver comes back
