"""The embedded cluster in the background: start it, wait for it, stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from holdfast.child_process import COMMAND, exit_description
from holdfast.cli import running
from holdfast.errors import Refused
from holdfast.private_files import open_private
from holdfast.settings import ClusterSettings

START_SECONDS = 120.0
STOP_SECONDS = 75.0
"""Longer than the components (45 s) and then the API server (15 s) may take."""
_TICK = 0.02


def start(settings: ClusterSettings) -> None:
    """Run ``holdfast up`` in a session of its own and wait until it announces itself."""
    directory = settings.data_dir
    log = directory / running.LOG
    out = _open_log(log)
    before = os.fstat(out).st_size
    print("starting the embedded cluster ...", flush=True)
    child = subprocess.Popen(
        [*COMMAND, *_arguments(settings)],
        stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
    )  # fmt: skip
    os.close(out)
    deadline = time.monotonic() + START_SECONDS
    while (found := running.find(directory)) is None:
        if (code := child.poll()) is not None:
            said = (
                _said(log, before)
                or f"it said nothing ({exit_description(code)}); its log is {log}"
            )
            raise Refused(f"the cluster did not start:\n{said}")
        if time.monotonic() > deadline:
            child.terminate()
            raise Refused(f"the cluster was not up after {START_SECONDS:.0f} s; its log is {log}")
        time.sleep(_TICK)
    print(f"Holdfast is up at {found.url} (pid {found.pid}); log: {log}")
    print(f"  export KUBECONFIG={found.kubeconfig}")
    if found.pages:
        print(f"  curl {found.pages}/metrics")


def stop(directory: Path) -> None:
    """Ask the cluster to end and wait until it has; its data stays."""
    found = running.find(directory)
    if found is None:
        print(f"nothing runs on {directory}")
        return
    try:
        os.kill(found.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as wrong:
        raise Refused(f"process {found.pid} is another user's: stop it as that user") from wrong
    deadline = time.monotonic() + STOP_SECONDS
    while found.alive:
        if time.monotonic() > deadline:
            raise Refused(
                f"process {found.pid} has not stopped after {STOP_SECONDS:.0f} s; "
                f"`kill -9 {found.pid}` is safe: what was acknowledged is on disk"
            )
        time.sleep(_TICK)
    print("stopped")


def _open_log(log: Path) -> int:
    try:
        return open_private(log, os.O_WRONLY | os.O_APPEND)
    except OSError as wrong:
        raise Refused(
            f"cannot write the log {log} ({wrong.strerror}): it must be a file of this user and "
            "no symbolic link"
        ) from wrong


def _arguments(settings: ClusterSettings) -> list[str]:
    """The flags that mean the same settings."""
    arguments = [
        "up", "--data-dir", str(settings.data_dir), "--nodes", str(settings.nodes.count),
        "--host", settings.server.host, "--port", str(settings.server.port),
        "--single-process" if settings.single_process else "--two-processes",
    ]  # fmt: skip
    if settings.kubeconfig is not None:
        arguments += ["--kubeconfig", str(settings.kubeconfig)]
    if settings.scheduler.config is not None:
        arguments += ["--config", str(settings.scheduler.config)]
    if settings.health_port is not None:
        arguments += ["--health-port", str(settings.health_port)]
    if settings.scheduler.check_invariants:
        arguments.append("--check-invariants")
    return arguments


def _said(log: Path, since: int) -> str:
    """The end of what the child wrote, without our own name in front of it."""
    with log.open("rb") as file:
        file.seek(since)
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(line.removeprefix("holdfast: ") for line in lines[-10:])
