"""``holdfast up``, ``down`` and ``status``: the embedded cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holdfast.cli import running
from holdfast.clock import SystemClock
from holdfast.cluster import Cluster
from holdfast.errors import Refused
from holdfast.settings import (
    ClusterSettings,
    NodeSettings,
    SchedulerSettings,
    ServerSettings,
)

DataDir = Annotated[Path | None, typer.Option(help="Where everything is kept.", metavar="DIR")]
START_SECONDS = 60.0
STOP_SECONDS = 30.0
console = Console(highlight=False, soft_wrap=True)


def up(
    nodes: Annotated[int, typer.Option(min=0, help="Simulated nodes to register.")] = 3,
    data_dir: DataDir = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 6443,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Where to write it; default: in the data directory.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Go on in the background.")] = False,
    single_process: Annotated[
        bool | None,
        typer.Option("--single-process/--two-processes", help="API server in this process or not."),
    ] = None,
    check_invariants: Annotated[
        bool, typer.Option("--check-invariants", help="Check every promise after every decision.")
    ] = False,
) -> None:
    """Run API server, scheduler, controllers and simulated nodes."""
    directory = (data_dir or running.default_data_dir()).expanduser().absolute()
    if other := running.find(directory):
        raise Refused(
            f"a cluster runs on {directory} already (pid {other.pid}, {other.url}): "
            "use it, or stop it with `holdfast down`"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = ClusterSettings(
        data_dir=directory,
        kubeconfig=kubeconfig.expanduser().absolute() if kubeconfig else None,
        single_process=True if single_process is None else single_process,
        server=ServerSettings(host, port),
        nodes=NodeSettings(nodes),
        scheduler=SchedulerSettings(check_invariants=check_invariants),
    )
    if detach:
        _start_detached(directory)
    else:
        asyncio.run(_run(settings))


def down(data_dir: DataDir = None) -> None:
    """Stop the cluster; its data stays."""
    directory = (data_dir or running.default_data_dir()).expanduser().absolute()
    found = running.find(directory)
    if found is None:
        console.print(f"nothing runs on {directory}", markup=False)
        return
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while found.alive:
        if time.monotonic() > deadline:
            raise Refused(f"process {found.pid} does not stop; `kill -9 {found.pid}` is safe")
        time.sleep(0.05)
    console.print("stopped", markup=False)


def status(data_dir: DataDir = None) -> None:
    """Say whether the cluster runs; exit 1 if not."""
    directory = (data_dir or running.default_data_dir()).expanduser().absolute()
    found = running.find(directory)
    if found is None:
        console.print(f"nothing runs on {directory}: start it with `holdfast up`", markup=False)
        raise typer.Exit(1)
    console.print(f"running: pid {found.pid}, {found.url}", markup=False)
    console.print(f"export KUBECONFIG={found.kubeconfig}", markup=False)


async def _run(settings: ClusterSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    cluster = Cluster(settings, SystemClock())
    with console.status("starting the embedded cluster"):
        await cluster.start()
    word = running.Running(os.getpid(), cluster.url, str(cluster.kubeconfig))
    running.announce(settings.data_dir, word)
    console.print(
        f"Holdfast is up at {cluster.url} with {settings.nodes.count} nodes.", markup=False
    )
    console.print(f"  export KUBECONFIG={cluster.kubeconfig}", markup=False)
    console.print("  kubectl get nodes", markup=False)
    console.print("Stop it with Ctrl-C or `holdfast down`.", markup=False)
    try:
        await stop.wait()
    finally:
        with console.status("stopping"):
            await cluster.stop()
        running.withdraw(settings.data_dir)
    console.print("stopped; the data stays in " + str(settings.data_dir), markup=False)


def _start_detached(directory: Path) -> None:
    """Start the same command again in the background and wait until it announces itself."""
    arguments = [word for word in sys.argv[1:] if word != "--detach"]
    log = directory / "holdfast.log"
    with log.open("ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while (found := running.find(directory)) is None:
        if child.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace").splitlines()[-5:]
            raise Refused("it did not start; the end of its log says:\n" + "\n".join(tail))
        time.sleep(0.05)
    console.print(f"Holdfast is up at {found.url} (pid {found.pid}); log: {log}", markup=False)
    console.print(f"  export KUBECONFIG={found.kubeconfig}", markup=False)
