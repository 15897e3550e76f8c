"""``holdfast apiserver`` and ``holdfast scheduler``: one part in a process of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from holdfast.cli import collector
from holdfast.cli.configured import configured
from holdfast.cli.foreground import warn_if_open
from holdfast.cli.health import HealthPage
from holdfast.cli.signals import stop_signal
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.fence import FencedTransport
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.leader import LeaderElection, Terms
from holdfast.client.throttle import ThrottledTransport
from holdfast.client.transport import Transport
from holdfast.clock import Clock, SystemClock
from holdfast.cluster import READY, EmbeddedServer
from holdfast.configuration.document import ClientConnection
from holdfast.configuration.document import LeaderElection as ElectionTerms
from holdfast.configuration.reading import Configuration
from holdfast.controllers.group import BESIDE_KUBERNETES, ControllerGroup
from holdfast.controllers.reservation_args import settings_of
from holdfast.errors import HoldfastError
from holdfast.scheduler.scheduler import Scheduler
from holdfast.settings import SchedulerSettings, ServerSettings

DEFAULT_BURST = 100
NAME = "holdfast-scheduler"


def serve(directory: Path, kubeconfig: Path, settings: ServerSettings, *, announce: bool) -> None:
    """Serve the API; ``announce`` is for a parent process that waits for the word."""
    if not announce:
        warn_if_open(settings.host)
    asyncio.run(_serve(directory, kubeconfig, settings, announce))


def schedule(kubeconfig: Path | None, health_port: int, settings: SchedulerSettings) -> None:
    """Schedule for the cluster of a kubeconfig, or else of the configuration."""
    configuration = configured(settings.config)
    named = configuration.client_connection.kubeconfig
    where = kubeconfig or (Path(named) if named else None)
    asyncio.run(_schedule(where, configuration, health_port, settings))


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
    configuration: Configuration,
    health_port: int,
    settings: SchedulerSettings,
) -> None:
    stop = stop_signal()
    clock = SystemClock()
    endpoint = await load(kubeconfig)
    terms = configuration.leader_election
    elects = terms.leader_elect if settings.leader_elect is None else settings.leader_elect
    # The lease has a way of its own: nothing else may keep it from being renewed.
    lease_client = Client(HttpTransport(endpoint), NAME)
    election = _election(lease_client, clock, terms)
    transport = _transport(endpoint, configuration.client_connection, clock)
    if elects:
        transport = FencedTransport(transport, election.confirm)
    client = Client(transport, NAME)
    part = Scheduler(
        client, clock, configuration.profiles,
        extenders=configuration.extenders, backoff=configuration.backoff,
        seed=settings.seed, check=settings.check_invariants,
    )  # fmt: skip
    # What keeps reservations true lives where they are scheduled, on the same informers.
    beside = ControllerGroup(
        client, clock, part.recorder, kinds=BESIDE_KUBERNETES, informers=part.sources.informers,
        reservations=settings_of(configuration.profiles.values()),
    )  # fmt: skip

    async def work() -> None:
        await part.start()
        await beside.start()
        collector.settle()
        names = ", ".join(configuration.profiles)
        print(f"scheduling for {endpoint.url} as {names}", flush=True)
        await _first_end(part.stopped(), beside.failure())

    page = await HealthPage.start(health_port, part, lambda: election.is_leader or not elects)
    if elects:
        # Whoever waits for a lease wants to know what keeps it.
        logging.getLogger(LeaderElection.__module__).setLevel(logging.INFO)
        lease = f"{terms.resource_namespace}/{terms.resource_name}"
        print(f"waiting for the lease {lease} as {election.identity}", flush=True)
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
        await lease_client.close()
    _raise_why(working)
    print("stopped", flush=True)


async def _first_end(*parts: Coroutine[Any, Any, None]) -> None:
    """Wait until one of several parts ends; raises what it ended with."""
    tasks = {asyncio.create_task(part) for part in parts}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _transport(endpoint: Endpoint, connection: ClientConnection, clock: Clock) -> Transport:
    """Hold requests back only if the user says so: the server has its own way of saying no."""
    transport = HttpTransport(endpoint)
    if connection.qps <= 0:
        return transport
    burst = connection.burst or DEFAULT_BURST
    return ThrottledTransport(transport, clock, qps=connection.qps, burst=burst)


def _election(client: Client, clock: Clock, terms: ElectionTerms) -> LeaderElection:
    return LeaderElection(
        client, clock=clock, identity=f"{socket.gethostname()}_{os.getpid()}",
        name=terms.resource_name, namespace=terms.resource_namespace,
        terms=Terms(terms.lease_duration, terms.renew_deadline, terms.retry_period),
    )  # fmt: skip


def _raise_why(working: asyncio.Task[None]) -> None:
    """Raise what ended the work; being told to stop is no failure."""
    if working.cancelled() or (failure := working.exception()) is None:
        return
    if isinstance(failure, HoldfastError):
        raise failure
    raise HoldfastError(f"the scheduler failed: {type(failure).__name__}: {failure}") from failure
