"""``holdfast apiserver`` and ``holdfast scheduler``: one part in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import running
from holdfast.cli.health import HealthPage
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.leader import LeaderElection
from holdfast.clock import SystemClock
from holdfast.cluster import EmbeddedServer
from holdfast.plugins import default_profiles
from holdfast.scheduler.scheduler import Scheduler
from holdfast.settings import ServerSettings

Kubeconfig = Annotated[Path | None, typer.Option(help="Default: as kubectl finds it.")]


def apiserver(
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 6443,
    kubeconfig: Annotated[Path | None, typer.Option(help="Where to write it.")] = None,
    announce: Annotated[bool, typer.Option("--announce", hidden=True)] = False,
) -> None:
    """Serve the Kubernetes API from one data directory until told to stop."""
    directory = (data_dir or running.default_data_dir()).expanduser().absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = kubeconfig or directory / "kubeconfig"
    asyncio.run(_serve(directory, path, ServerSettings(host, port), announce))


def scheduler(
    kubeconfig: Kubeconfig = None,
    leader_elect: Annotated[bool, typer.Option(help="Let one replica decide at a time.")] = True,
    health_port: Annotated[
        int, typer.Option(min=0, max=65535, help="/healthz, /readyz, /metrics on loopback.")
    ] = 10259,
    check_invariants: Annotated[bool, typer.Option("--check-invariants")] = False,
) -> None:
    """Place pods on any API server, a real one included."""
    asyncio.run(_schedule(kubeconfig, leader_elect, health_port, check_invariants))


async def _serve(
    directory: Path, kubeconfig: Path, settings: ServerSettings, announce: bool
) -> None:
    stop = _stop_signal()
    server = await EmbeddedServer.start(directory, kubeconfig, settings, SystemClock())
    # The parent process waits for this word; a person reads the sentence.
    print(
        "ready" if announce else f"serving {server.front.url}, kubeconfig {kubeconfig}", flush=True
    )
    await stop.wait()
    await server.stop()


async def _schedule(
    kubeconfig: Path | None, leader_elect: bool, health_port: int, check: bool
) -> None:
    stop = _stop_signal()
    clock = SystemClock()
    endpoint = await load(kubeconfig)
    client = Client(HttpTransport(endpoint), "holdfast-scheduler")
    part = Scheduler(client, clock, default_profiles(), check=check)
    page = await HealthPage.start(health_port, part)

    async def work() -> None:
        await part.start()
        print(f"scheduling for {endpoint.url}", flush=True)
        await part.stopped()

    identity = f"{socket.gethostname()}_{os.getpid()}"
    election = LeaderElection(client, clock=clock, identity=identity, name="kube-scheduler")
    working = asyncio.create_task(election.run(work) if leader_elect else work())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        # Finish what is being bound while the lease is still ours.
        await part.stop()
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
        await page.close()
        await client.close()


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    return stop
