"""``holdfast up`` whose API server process is killed while the cluster starts."""

import os
import signal
import time
from pathlib import Path

import pytest

from holdfast.cli import running

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-start-failures")]
SENTENCES = (
    "the API server ended before it was ready (killed by SIGKILL)",
    "the API server ended while the cluster started (killed by SIGKILL)",
)


def child_of(pid, seconds=30):
    """The first child of a process, as soon as it is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            return int(found[0])
    raise AssertionError(f"process {pid} started no child")


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("ready", [False, True])
def test_up_ends_with_a_sentence(start, tmp_path, detach, ready):
    """The child is killed at once, or when it has written its kubeconfig and will be ready."""
    flags = ("--data-dir", tmp_path, "--port", "0", "--nodes", "1", "--two-processes")
    process = start("up", *flags, *(("--detach",) if detach else ()))
    parent = child_of(process.pid) if detach else process.pid
    server = child_of(parent)
    while ready and not (tmp_path / "kubeconfig").exists():
        os.kill(server, 0)
    os.kill(server, signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert any(words in out for words in SENTENCES), out
    assert "Traceback" not in out
    assert running.find(tmp_path) is None
