"""``holdfast apiserver``: run the API server in its own process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast.cli import signals
from holdfast.cli.published_setup import withdraw
from holdfast.processes.api_server import FAILED, READY
from holdfast.processes.embedded_server import EmbeddedServer
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.settings import ServerSettings

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def run_apiserver(
    directory: Path, kubeconfig: Path, settings: ServerSettings, *, announce: bool
) -> None:
    """Serve the API; with ``announce``, print READY or FAILED for a waiting parent process."""
    if not announce:
        warn_if_not_loopback(settings.host)
    signals.run(_serve(directory, kubeconfig, settings, announce))


def warn_if_not_loopback(host: str) -> None:
    """Print a warning if the address is reachable from other machines."""
    if host not in LOOPBACK:
        print(
            f"warning: --host {host} lets other machines connect; the kubeconfig grants admin "
            "access, so keep it private",
            file=sys.stderr, flush=True,
        )  # fmt: skip


async def _serve(
    directory: Path, kubeconfig: Path, settings: ServerSettings, announce: bool
) -> None:
    stop = signals.stop_event(with_parent=announce)
    try:
        server = await EmbeddedServer.start(
            directory, kubeconfig, settings, SystemClock(), components_connect=True
        )
    except Exception as error:
        if announce:
            _announce_failure(error)
        raise
    if announce:
        print(READY, server.url, flush=True)
    else:
        await withdraw(server.client("system:kube-controller-manager"))
        print(f"serving {server.url}; stop it with Ctrl-C", flush=True)
        print(f"  export KUBECONFIG={kubeconfig}", flush=True)
    try:
        await stop.wait()
    finally:
        await server.stop()


def _announce_failure(error: Exception) -> None:
    """Print the error for the parent; exit if it is expected, else the caller raises it."""
    expected = isinstance(error, HoldfastError)
    message = str(error) if expected else f"the API server failed: {type(error).__name__}: {error}"
    print(FAILED, json.dumps(message), flush=True)
    if expected:
        sys.exit(1)
