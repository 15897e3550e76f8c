"""The page on classic DRA is replayed: the KEP's stories with processes and a driver."""

import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from stories.transcript import ROOT, replay, running_cluster, steps_of

GUIDE = ROOT / "docs" / "classic-dra.md"
EXAMPLE = ROOT / "examples" / "60-classic-gpu"


@contextmanager
def driver(env, directory):
    """Run the controller and the node part on the first node; SIGTERM must end them cleanly."""
    node = Path(env["XDG_DATA_HOME"]) / "holdfast" / "nodes" / "node-0001"
    with (directory / "driver.log").open("a") as log:
        running = subprocess.Popen(
            [sys.executable, EXAMPLE / "driver.py", "all", "--kubelet-dir", node],
            stdout=log,
            stderr=log,
            env=env,
        )
    try:
        yield
    finally:
        running.terminate()
        status = running.wait(timeout=30)
    text = (directory / "driver.log").read_text()
    assert status == 0, text
    assert "Traceback" not in text, text


@pytest.mark.guide
@pytest.mark.kubectl
def test_C082_the_stories_of_the_kep_run_as_the_page_on_classic_dra_says():
    """The directory is short, because it contains sockets."""
    with tempfile.TemporaryDirectory(prefix="hf-") as name:
        directory = Path(name)
        with (
            running_cluster(directory, "--runtime", "process") as env,
            driver(env, directory),
        ):
            assert replay(GUIDE, env) > 15
            # The driver unprepares what it has prepared.
            subprocess.run(["kubectl", "delete", "pods", "--all"], env=env, check=True)


def test_the_page_uses_every_file_of_the_example():
    used = " ".join(command for command, _ in steps_of(GUIDE))
    for path in EXAMPLE.glob("*.yaml"):
        assert str(path.relative_to(ROOT)) in used
