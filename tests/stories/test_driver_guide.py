"""The page on writing a driver is replayed: a new project, its driver, and pods with devices."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from stories.transcript import ROOT, replay_steps, running_cluster, steps_of

GUIDE = ROOT / "docs" / "writing-a-driver.md"
SIMULATED = ROOT / "examples" / "50-driver-simulated-gpu"
EXAMPLE = """
$ kubectl apply -f {files}
deviceclass.resource.k8s.io/gpu created
deviceclass.resource.k8s.io/gpu-share created
deviceclass.resource.k8s.io/gpu-partition created
resourceclaimtemplate.resource.k8s.io/whole-and-partition created
pod/two-containers created
resourceclaimtemplate.resource.k8s.io/share created
pod/share created
$ kubectl logs two-containers -c whole
GPU_DEVICE_GPU_0=gpu-0
$ kubectl logs two-containers -c partition
GPU_DEVICE_GPU_3_3G40GB_0=gpu-3-3g40gb-0
$ kubectl logs share
GPU_DEVICE_GPU_2=gpu-2
GPU_DEVICE_GPU_2_MEMORY=20Gi
"""


@contextmanager
def driver(program, env, directory):
    """Run the program of a driver on the first node; SIGTERM must end it cleanly."""
    node = Path(env["XDG_DATA_HOME"]) / "holdfast" / "nodes" / "node-0001"
    with (directory / "driver.log").open("a") as log:
        running = subprocess.Popen(
            [sys.executable, program, "--kubelet-dir", node],
            stdout=log,
            stderr=log,
            env={**os.environ, "KUBECONFIG": "/nowhere"},
        )
    try:
        yield
    finally:
        running.terminate()
        status = running.wait(timeout=30)
    assert status == 0, (directory / "driver.log").read_text()
    assert not list((node / "plugins_registry").iterdir())
    assert not list((node / "cdi").iterdir())


@pytest.mark.guide
@pytest.mark.kubectl
def test_D080_the_page_on_writing_a_driver_is_true():
    """The directory is short, because it contains sockets."""
    with tempfile.TemporaryDirectory(prefix="hf-") as name:
        directory = Path(name)
        with running_cluster(directory, "--runtime", "process") as env:
            new, *steps = steps_of(GUIDE)
            replay_steps([new], env, directory)
            with driver(directory / "gpu-example-com" / "driver.py", env, directory):
                replay_steps(steps, env, directory)
            text = EXAMPLE.format(files=SIMULATED)
            with driver(SIMULATED / "driver.py", env, directory):
                page = directory / "example.md"
                page.write_text(f"```console{text}```\n")
                replay_steps(steps_of(page), env, directory)
                subprocess.run(["kubectl", "delete", "pods", "--all"], env=env, check=True)
