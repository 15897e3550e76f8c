"""The scheduler of ``holdfast scheduler``: transports, leader election and controllers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.leader import LeaderElection, LeaseTimes
from holdfast.client.transport import LeaseGuardedTransport, ThrottledTransport, Transport
from holdfast.clock import Clock
from holdfast.configuration.document import ClientConnection, LeaderElectionConfiguration
from holdfast.configuration.reading import Configuration
from holdfast.controllers.controller_manager import BESIDE_KUBERNETES, ControllerManager
from holdfast.controllers.profile_settings import controller_settings
from holdfast.errors import HoldfastError
from holdfast.scheduler.scheduler import Scheduler
from holdfast.settings import SchedulerSettings

DEFAULT_BURST = 100
NAME = "holdfast-scheduler"


def scheduler_for(
    client: Client, clock: Clock, configuration: Configuration, settings: SchedulerSettings
) -> Scheduler:
    """Return the scheduler of a configuration."""
    return Scheduler(
        client,
        clock,
        configuration.profiles,
        extenders=configuration.extenders,
        backoff=configuration.backoff,
        seed=settings.seed,
        check_invariants=settings.check_invariants,
    )


class SchedulerProcess:
    """A scheduler with the reservation controllers, and the leader election if it needs one.

    ``started`` is called when the scheduler and the controllers run.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        configuration: Configuration,
        settings: SchedulerSettings,
        clock: Clock,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        election = configuration.leader_election
        self.leader_elect = (
            election.leader_elect if settings.leader_elect is None else settings.leader_elect
        )
        self.lease = f"{election.resource_namespace}/{election.resource_name}"
        self.stopping = False
        self._started = started
        # The lease has its own transport: other requests must not delay its renewal.
        self._lease_client = Client(HttpTransport(endpoint), NAME)
        self._election = _election(self._lease_client, clock, election)
        transport = _transport(endpoint, configuration.client_connection, clock)
        if self.leader_elect:
            transport = LeaseGuardedTransport(transport, self._election.check_leadership)
        self._client = Client(transport, NAME)
        self.scheduler = scheduler_for(self._client, clock, configuration, settings)
        # The reservation controllers share the scheduler's informers.
        self._controllers = ControllerManager(
            self._client, clock, self.scheduler.recorder, kinds=BESIDE_KUBERNETES,
            informers=self.scheduler.informers.informer_set,
            settings=controller_settings(configuration.profiles.values()),
        )  # fmt: skip

    @property
    def identity(self) -> str:
        """The holder identity in the lease."""
        return self._election.identity

    def leads(self) -> bool:
        """Tell whether this process is the leader, or needs no leader election."""
        return self._election.is_leader or not self.leader_elect

    def lease_problem(self) -> str:
        """Return what is wrong with the lease that this process holds, "" for nothing."""
        if self.leader_elect and self._election.is_leader:
            try:
                self._election.check_leadership()
            except HoldfastError as lost:
                return str(lost)
        return ""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; raises the error that ends the run before that."""
        work = self._election.run(self._work) if self.leader_elect else self._work()
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(stop.wait())
        stopped = False
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopped = not working.done()
        finally:
            await self._end(working, stopping)
        _raise_failure(working, stopped)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
        await self._lease_client.close()

    async def _work(self) -> None:
        await self.scheduler.start()
        await self._controllers.start()
        self._started()
        await _wait_for_first(self.scheduler.wait(), self._controllers.failure())

    async def _end(self, *tasks: asyncio.Task[Any]) -> None:
        """Stop controllers and scheduler while this process still holds the lease."""
        self.stopping = True
        await self._controllers.stop()
        await self.scheduler.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_first(*parts: Coroutine[Any, Any, None]) -> None:
    """Wait until the first of several coroutines ends; raises its error."""
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
    """Return the transport, throttled only if the configuration sets a QPS."""
    transport = HttpTransport(endpoint)
    if connection.qps <= 0:
        return transport
    burst = connection.burst or DEFAULT_BURST
    return ThrottledTransport(transport, clock, qps=connection.qps, burst=burst)


def _election(client: Client, clock: Clock, terms: LeaderElectionConfiguration) -> LeaderElection:
    return LeaderElection(
        client, clock=clock, identity=f"{socket.gethostname()}_{os.getpid()}",
        name=terms.resource_name, namespace=terms.resource_namespace,
        times=LeaseTimes(terms.lease_duration, terms.renew_deadline, terms.retry_period),
    )  # fmt: skip


def _raise_failure(working: asyncio.Task[None], stopped: bool) -> None:
    """Raise the error that ended the run; errors of Holdfast after ``stop`` are ignored."""
    if working.cancelled() or (failure := working.exception()) is None:
        return
    if isinstance(failure, HoldfastError):
        if stopped:
            return
        raise failure
    raise HoldfastError(f"the scheduler failed: {type(failure).__name__}: {failure}") from failure
