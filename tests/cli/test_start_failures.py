"""``holdfast up`` with an API server that is killed at the start or cannot use its data."""

import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cli.conftest import read_until, with_client
from holdfast.api.scheme import PODS
from holdfast.cli import running_cluster
from holdfast.runtime.errors import HoldfastError
from holdfast.testing import a_pod

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-start-failures")]
SENTENCES = (
    "the API server ended before it was ready (killed by SIGKILL)",
    "the API server ended while the cluster started (killed by SIGKILL)",
)


def child_of(pid, seconds=30):
    """Wait for the first child of a process; return its pid."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            return int(found[0])
        time.sleep(0.001)  # in a loop without a pause, the process would start more slowly
    raise AssertionError(f"process {pid} started no child")


def write(kubeconfig, name):
    """Create a pod, which may fail."""

    async def create(client):
        with suppress(HoldfastError):
            await client.create(PODS, a_pod(name), "default")

    with_client(kubeconfig, create)


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("ready", [False, True])
def test_up_exits_with_one_sentence(start, tmp_path, detach, ready):
    """The child is killed at once, or after it has written its kubeconfig."""
    flags = ("--data-dir", tmp_path, "--port", "0", "--nodes", "1", "--two-processes")
    process = start("up", *flags, *(("--detach",) if detach else ()))
    parent = child_of(process.pid) if detach else process.pid
    server = child_of(parent)
    if ready:
        os.kill(parent, signal.SIGSTOP)  # so that it cannot finish its start before the kill
        while not (tmp_path / "kubeconfig").exists():
            os.kill(server, 0)
            time.sleep(0.001)
    os.kill(server, signal.SIGKILL)
    os.kill(parent, signal.SIGCONT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert any(words in out for words in SENTENCES), out
    assert "Traceback" not in out
    assert running_cluster.find(tmp_path) is None


def test_up_in_the_background_that_is_killed_at_once(start, tmp_path):
    process = start("up", "--data-dir", tmp_path, "--port", "0", "--detach")
    os.kill(child_of(process.pid), signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the cluster did not start:\nno output (killed by SIGKILL); its log is " in out


def test_a_configuration_without_a_profile_for_ordinary_pods_is_named(holdfast, tmp_path):
    """As Koordinator's guide to pre-allocation shows it: its pods have no schedulerName."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: koord-scheduler}]\n"
    )
    flags = ("--data-dir", tmp_path / "data", "--single-process", "--host", "nowhere.invalid")
    done = holdfast("up", *flags, "--config", config)
    assert f"warning: {config} has no profile default-scheduler: pods without" in done.err
    assert "(its profiles: koord-scheduler)" in done.err
    assert "no profile" not in holdfast("up", *flags).err


@pytest.mark.parametrize(
    "command", [("up",), ("up", "--single-process"), ("up", "--detach"), ("apiserver",)]
)
def test_a_damaged_database_is_reported_in_one_sentence(holdfast, tmp_path, command):
    (tmp_path / "store").mkdir(mode=0o700)
    path = tmp_path / "store" / "store.db"
    path.write_bytes(b"garbage " * 4096)
    done = holdfast(*command, "--data-dir", tmp_path, "--port", "0")
    assert done.code == 1
    assert f"{path} is damaged (file is not a database): nothing was changed; " in done.err
    assert "Traceback" not in done.err
    assert done.err.count("is damaged") == 1
    assert path.read_bytes() == b"garbage " * 4096
    assert running_cluster.find(tmp_path) is None


def test_status_reports_a_server_that_is_not_ready(start, tmp_path, holdfast):
    """Files of the server process cannot grow: a write meets that at once."""
    process = start("up", "--data-dir", tmp_path, "--port", "0", "--nodes", "1", "--two-processes")
    read_until(process, "Stop it with Ctrl-C")
    server = child_of(process.pid)
    resource.prlimit(server, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    write(tmp_path / "kubeconfig", "refused")
    read_until(process, "cannot commit")
    status = holdfast("status", "--data-dir", tmp_path)
    assert status.code == 1
    assert (
        "not ready: /readyz returned 500: [+]ping ok [-]store failed: reason withheld" in status.out
    )
    resource.prlimit(server, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    write(tmp_path / "kubeconfig", "taken")
    read_until(process, "commits again")
    assert holdfast("status", "--data-dir", tmp_path).code == 0
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
