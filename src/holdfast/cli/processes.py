"""``holdfast apiserver`` and ``holdfast scheduler``: one part in a process of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from holdfast.cli.explain import configured_profiles
from holdfast.cli.foreground import warn_if_open
from holdfast.cli.health import HealthPage
from holdfast.cli.signals import stop_signal
from holdfast.cli.snapshot import built_in_profiles
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.leader import LeaderElection
from holdfast.clock import SystemClock
from holdfast.cluster import READY, EmbeddedServer
from holdfast.controllers.group import BESIDE_KUBERNETES, ControllerGroup
from holdfast.errors import HoldfastError
from holdfast.framework.profile import Profile
from holdfast.scheduler.scheduler import Scheduler
from holdfast.settings import SchedulerSettings, ServerSettings

LEASE = "kube-scheduler"


def serve(directory: Path, kubeconfig: Path, settings: ServerSettings, *, announce: bool) -> None:
    """Serve the API; ``announce`` is for a parent process that waits for the word."""
    if not announce:
        warn_if_open(settings.host)
    asyncio.run(_serve(directory, kubeconfig, settings, announce))


def schedule(
    kubeconfig: Path | None, config: Path | None, health_port: int, settings: SchedulerSettings
) -> None:
    """Schedule for the cluster of a kubeconfig."""
    profiles = built_in_profiles() if config is None else configured_profiles(config)
    asyncio.run(_schedule(kubeconfig, profiles, health_port, settings))


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


async def _schedule(
    kubeconfig: Path | None,
    profiles: Mapping[str, Profile],
    health_port: int,
    settings: SchedulerSettings,
) -> None:
    stop = stop_signal()
    clock = SystemClock()
    endpoint = await load(kubeconfig)
    client = Client(HttpTransport(endpoint), "holdfast-scheduler")
    part = Scheduler(client, clock, profiles, seed=settings.seed, check=settings.check_invariants)
    # What keeps reservations true lives where they are scheduled, on the same informers.
    beside = ControllerGroup(
        client, clock, part.recorder, kinds=BESIDE_KUBERNETES, informers=part.sources.informers
    )
    identity = f"{socket.gethostname()}_{os.getpid()}"
    election = LeaderElection(client, clock=clock, identity=identity, name=LEASE)

    async def work() -> None:
        await part.start()
        await beside.start()
        print(f"scheduling for {endpoint.url} as {', '.join(profiles)}", flush=True)
        await part.stopped()

    elects = settings.leader_elect
    page = await HealthPage.start(health_port, part, lambda: election.is_leader or not elects)
    if elects:
        # Whoever waits for a lease wants to know what keeps it.
        logging.getLogger(LeaderElection.__module__).setLevel(logging.INFO)
        print(f"waiting for the lease kube-system/{LEASE} as {identity}", flush=True)
    working = asyncio.create_task(election.run(work) if elects else work())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Finish what is being bound while the lease is still ours.
        await beside.stop()
        await part.stop()
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
        await page.close()
        await client.close()
    _raise_why(working)
    print("stopped", flush=True)


def _raise_why(working: asyncio.Task[None]) -> None:
    """Raise what ended the work; being told to stop is no failure."""
    if working.cancelled() or (failure := working.exception()) is None:
        return
    if isinstance(failure, HoldfastError):
        raise failure
    raise HoldfastError(f"the scheduler failed: {type(failure).__name__}: {failure}") from failure
