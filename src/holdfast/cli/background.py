"""Start and stop the embedded cluster as a background process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from holdfast.cli import running_cluster
from holdfast.runtime.child_process import COMMAND, exit_description
from holdfast.runtime.errors import Refused
from holdfast.runtime.private_files import open_private
from holdfast.runtime.settings import ClusterSettings, NodeSettings

START_SECONDS = 120.0
STOP_SECONDS = 75.0
"""More than the components (45 s) and then the API server (15 s) need at most."""
_TICK = 0.02
_STOPPED = (0, -signal.SIGTERM)
"""The exit codes of a process that is stopped while it starts."""


def start(settings: ClusterSettings) -> None:
    """Run ``holdfast up`` in a new session and wait until its state file is written."""
    directory = settings.data_dir
    log = directory / running_cluster.LOG
    out = _open_log(log)
    before = os.fstat(out).st_size
    print("starting the embedded cluster ...", flush=True)
    child = subprocess.Popen(
        [*COMMAND, *_arguments(settings)],
        stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
    )  # fmt: skip
    os.close(out)
    running_cluster.write_starting(directory, child.pid)
    deadline = time.monotonic() + START_SECONDS
    while (cluster := running_cluster.find(directory)) is None:
        if (code := child.poll()) is not None:
            if code in _STOPPED:
                raise Refused("the cluster was stopped while it started")
            ending = f"no output ({exit_description(code)}); its log is {log}"
            output = _new_lines(log, before) or ending
            raise Refused(f"the cluster did not start:\n{output}")
        if time.monotonic() > deadline:
            child.terminate()
            raise Refused(
                f"the cluster was not ready after {START_SECONDS:.0f} s; its log is {log}"
            )
        time.sleep(_TICK)
    print(f"Holdfast is up at {cluster.url} (pid {cluster.pid}); log: {log}")
    print(f"  export KUBECONFIG={cluster.kubeconfig}")
    if flag := running_cluster.flag_for(directory):
        print(f"  holdfast down{flag}")
    if cluster.pages:
        print(f"  curl {cluster.pages}/metrics")


def stop(directory: Path) -> None:
    """Send SIGTERM to the cluster and wait until it has ended; its data stays.

    A cluster that is starting is stopped too.
    """
    cluster = running_cluster.find(directory) or running_cluster.find_starting(directory)
    if cluster is None:
        print(f"no cluster is running on {directory}")
        return
    try:
        os.kill(cluster.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise Refused(
            f"process {cluster.pid} belongs to another user: stop it as that user"
        ) from error
    deadline = time.monotonic() + STOP_SECONDS
    while cluster.alive:
        if time.monotonic() > deadline:
            raise Refused(
                f"process {cluster.pid} has not stopped after {STOP_SECONDS:.0f} s; "
                f"`kill -9 {cluster.pid}` is safe: every acknowledged write is on disk"
            )
        time.sleep(_TICK)
    print("stopped")


def _open_log(log: Path) -> int:
    try:
        return open_private(log, os.O_WRONLY | os.O_APPEND)
    except OSError as error:
        raise Refused(
            f"cannot write the log {log} ({error.strerror}): it must be a regular file of this "
            "user, not a symbolic link"
        ) from error


def _arguments(settings: ClusterSettings) -> list[str]:
    """Return the flags that produce these settings."""
    arguments = [
        "up", "--data-dir", str(settings.data_dir), "--nodes", str(settings.nodes.count),
        "--host", settings.server.host, "--port", str(settings.server.port),
        "--single-process" if settings.single_process else "--two-processes",
    ]  # fmt: skip
    arguments += node_arguments(settings.nodes)
    if settings.server.feature_gates.chosen:
        arguments += ["--feature-gates", str(settings.server.feature_gates)]
    if settings.kubeconfig is not None:
        arguments += ["--kubeconfig", str(settings.kubeconfig)]
    if settings.scheduler.config is not None:
        arguments += ["--config", str(settings.scheduler.config)]
    if settings.health_port is not None:
        arguments += ["--health-port", str(settings.health_port)]
    if settings.descheduler:
        arguments.append("--descheduler")
    if settings.scheduler.check_invariants:
        arguments.append("--check-invariants")
    return arguments


def node_arguments(nodes: NodeSettings) -> list[str]:
    """Return the flags of nodes with an agent."""
    arguments = ["--runtime", nodes.runtime]
    if nodes.shape is not None:
        arguments += ["--node-shape", str(nodes.shape)]
    if nodes.driver_nodes is not None:
        arguments += ["--driver-nodes", str(nodes.driver_nodes)]
    for name, directory in nodes.kubelet_dirs.items():
        arguments += ["--kubelet-dir", f"{name}={directory}"]
    if nodes.allow_process_runtime:
        arguments.append("--allow-process-runtime")
    if nodes.reset_checkpoint:
        arguments.append("--reset-checkpoint")
    return arguments


def _new_lines(log: Path, since: int) -> str:
    """Return the last ten lines written after the offset, without the prefix ``holdfast: ``."""
    with log.open("rb") as file:
        file.seek(since)
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(line.removeprefix("holdfast: ") for line in lines[-10:])
