"""``holdfast apiserver``: the API server in a process of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.cli.foreground import warn_if_open
from holdfast.cli.signals import stop_signal
from holdfast.clock import SystemClock
from holdfast.cluster import READY, EmbeddedServer
from holdfast.settings import ServerSettings


def serve(directory: Path, kubeconfig: Path, settings: ServerSettings, *, announce: bool) -> None:
    """Serve the API; ``announce`` is for a parent process that waits for the word."""
    if not announce:
        warn_if_open(settings.host)
    asyncio.run(_serve(directory, kubeconfig, settings, announce))


async def _serve(
    directory: Path, kubeconfig: Path, settings: ServerSettings, announce: bool
) -> None:
    stop = stop_signal(with_parent=announce)
    server = await EmbeddedServer.start(directory, kubeconfig, settings, SystemClock())
    if announce:
        print(READY, server.url, flush=True)
    else:
        print(f"serving {server.url}; stop it with Ctrl-C", flush=True)
        print(f"  export KUBECONFIG={kubeconfig}", flush=True)
    try:
        await stop.wait()
    finally:
        await server.stop()
