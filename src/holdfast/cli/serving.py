"""``holdfast apiserver``: the API server in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast.cli import signals
from holdfast.cli.foreground import warn_if_open
from holdfast.clock import SystemClock
from holdfast.cluster import EmbeddedServer
from holdfast.errors import HoldfastError
from holdfast.server_process import FAILED, READY
from holdfast.settings import ServerSettings


def serve(directory: Path, kubeconfig: Path, settings: ServerSettings, *, announce: bool) -> None:
    """Serve the API; ``announce`` is for a parent process that waits for the word."""
    if not announce:
        warn_if_open(settings.host)
    signals.run(_serve(directory, kubeconfig, settings, announce))


async def _serve(
    directory: Path, kubeconfig: Path, settings: ServerSettings, announce: bool
) -> None:
    stop = signals.stop_signal(with_parent=announce)
    try:
        server = await EmbeddedServer.start(directory, kubeconfig, settings, SystemClock())
    except Exception as error:
        if announce:
            _announce_failure(error)
        raise
    if announce:
        print(READY, server.url, flush=True)
    else:
        print(f"serving {server.url}; stop it with Ctrl-C", flush=True)
        print(f"  export KUBECONFIG={kubeconfig}", flush=True)
    try:
        await stop.wait()
    finally:
        await server.stop()


def _announce_failure(error: Exception) -> None:
    """Let the parent say why; a failure that was not foreseen leaves its traceback here too."""
    foreseen = isinstance(error, HoldfastError)
    words = str(error) if foreseen else f"the API server failed: {type(error).__name__}: {error}"
    print(FAILED, json.dumps(words), flush=True)
    if foreseen:
        sys.exit(1)
