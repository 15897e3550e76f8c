"""``holdfast up`` with its API server in a second process: signals and crashes end both."""

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from cli.conftest import PROGRAM, placed, read_until
from holdfast.cli import running_cluster

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-two-processes")]


@pytest.fixture
def pair(start, tmp_path):
    """Start a cluster with its API server in a second process; return both."""
    parent = start("up", "--data-dir", tmp_path, "--port", "0", "--nodes", "1", "--two-processes")
    read_until(parent, "Stop it with Ctrl-C")
    (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    return parent, int(child)


def ended(pid, seconds=30):
    """Wait a while; return whether a process that is not our child has ended."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:  # its parent has waited for it
        return True
    try:
        return bool(select.select([watch], [], [], seconds)[0])
    finally:
        os.close(watch)


def test_the_cluster_reports_a_dead_server_process_and_exits(pair, tmp_path):
    parent, child = pair
    os.kill(child, signal.SIGKILL)
    out, _ = parent.communicate(timeout=60)
    assert parent.returncode == 1
    assert "holdfast: the API server has died; the cluster was stopped, its data is safe" in out
    assert running_cluster.find(tmp_path) is None


def test_the_server_process_exits_when_the_cluster_dies(pair):
    parent, child = pair
    parent.kill()
    assert ended(child)


def test_ctrl_c_stops_both_processes_in_order(pair, tmp_path):
    parent, child = pair
    parent.send_signal(signal.SIGINT)
    out, _ = parent.communicate(timeout=60)
    assert (parent.returncode, out) == (0, f"stopped; the data stays in {tmp_path}\n")
    assert not Path(f"/proc/{child}").exists()


def test_signals_that_do_not_stop_the_cluster(pair, tmp_path):
    """SIGUSR2 writes the scheduler's dump to the log; other signals are logged or ignored."""
    parent, child = pair
    for name in (signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE):
        parent.send_signal(name)
        os.kill(child, name)
    for _ in pair:
        read_until(parent, "SIGHUP has no effect: stop this process with SIGTERM")
    os.kill(child, signal.SIGUSR2)
    read_until(parent, "SIGUSR2 has no effect")
    parent.send_signal(signal.SIGUSR2)
    output = read_until(parent, "activeQ:0; backoffQ:0; unschedulablePods:0")
    assert "Nodes: missed [], redundant []" in output
    parent.send_signal(signal.SIGTERM)
    out, _ = parent.communicate(timeout=60)
    # The log of a signal may come late.
    last = out.splitlines()[-1]
    assert (parent.returncode, last) == (0, f"stopped; the data stays in {tmp_path}")
    assert not Path(f"/proc/{child}").exists()


def test_sigterm_to_both_processes_at_once(pair, tmp_path):
    """A service manager that stops a control group does this."""
    parent, child = pair
    os.kill(child, signal.SIGTERM)
    parent.send_signal(signal.SIGTERM)
    out, _ = parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert "Traceback" not in out
    assert out.endswith(f"stopped; the data stays in {tmp_path}\n")


def test_a_second_sigterm_ends_both_processes_at_once(pair):
    parent, child = pair
    os.kill(child, signal.SIGSTOP)  # so that stopping takes longer than the test
    try:
        parent.send_signal(signal.SIGTERM)
        with pytest.raises(AssertionError, match="did not end in time"):
            parent.communicate(timeout=0.5)
        # Signals that arrive together count as one, and a busy machine may delay the first.
        for _ in range(30):
            parent.send_signal(signal.SIGTERM)
            if ended(parent.pid, seconds=1):
                break
        assert ended(parent.pid)
    finally:
        os.kill(child, signal.SIGCONT)
    assert ended(child)
    parent.communicate(timeout=10)
    assert parent.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.6])
def test_sigterm_while_the_cluster_starts(start, tmp_path, seconds):
    parent = start("up", "--data-dir", tmp_path, "--port", "0", "--nodes", "1", "--two-processes")
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while not (found := children.read_text().split()):
        assert parent.returncode is None
    select.select([], [], [], seconds)
    parent.send_signal(signal.SIGTERM)
    out, _ = parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert "Traceback" not in out
    assert not Path(f"/proc/{found[0]}").exists()
    assert running_cluster.find(tmp_path) is None


def test_a_closed_terminal_does_not_end_the_cluster(tmp_path):
    """SIGHUP is sent, and output can no longer be written."""
    main, terminal = os.openpty()
    command = (*PROGRAM, "up", "--data-dir", tmp_path, "--port", "0", "--nodes", "1")
    process = subprocess.Popen(
        ["setsid", "--ctty", *map(str, command)], stdin=terminal, stdout=terminal, stderr=terminal
    )
    try:
        os.close(terminal)
        output = b""
        # Read to the end of the line: closing the terminal during a write would be an error.
        while not output.endswith(b"`.\r\n"):
            output += os.read(main, 4096)
        os.close(main)  # the kernel sends SIGHUP to the session
        pid = running_cluster.find(tmp_path).pid
        assert placed(tmp_path / "kubeconfig", "after-the-terminal") == "node-0001"
        os.kill(pid, signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
