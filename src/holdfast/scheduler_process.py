"""A scheduler in a process of its own, on any API server: transports, election, controllers."""

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
from holdfast.controllers.reservation import settings_of
from holdfast.errors import HoldfastError
from holdfast.scheduler.scheduler import Scheduler
from holdfast.settings import SchedulerSettings

DEFAULT_BURST = 100
NAME = "holdfast-scheduler"


def scheduler_for(
    client: Client, clock: Clock, configuration: Configuration, settings: SchedulerSettings
) -> Scheduler:
    """Make the scheduler that a configuration asks for."""
    return Scheduler(
        client,
        clock,
        configuration.profiles,
        extenders=configuration.extenders,
        backoff=configuration.backoff,
        seed=settings.seed,
        check=settings.check_invariants,
    )


class SchedulerProcess:
    """A scheduler, what looks after its reservations, and the lease it may need to work.

    ``started`` is called once the scheduler decides and the controllers run.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        configuration: Configuration,
        settings: SchedulerSettings,
        clock: Clock,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        terms = configuration.leader_election
        wanted = settings.leader_elect
        self.leader_elect = terms.leader_elect if wanted is None else wanted
        self.lease = f"{terms.resource_namespace}/{terms.resource_name}"
        self.stopping = False
        self._started = started
        # The lease has a way of its own: nothing else may keep it from being renewed.
        self._lease_client = Client(HttpTransport(endpoint), NAME)
        self._election = _election(self._lease_client, clock, terms)
        transport = _transport(endpoint, configuration.client_connection, clock)
        if self.leader_elect:
            transport = LeaseGuardedTransport(transport, self._election.check_leadership)
        self._client = Client(transport, NAME)
        self.scheduler = scheduler_for(self._client, clock, configuration, settings)
        # What keeps reservations true lives where they are scheduled, on the same informers.
        self._beside = ControllerManager(
            self._client, clock, self.scheduler.recorder, kinds=BESIDE_KUBERNETES,
            informers=self.scheduler.informers.informer_set,
            reservations=settings_of(configuration.profiles.values()),
        )  # fmt: skip

    @property
    def identity(self) -> str:
        """Under which name it holds the lease."""
        return self._election.identity

    def leads(self) -> bool:
        """Tell whether it may work."""
        return self._election.is_leader or not self.leader_elect

    def lease_problem(self) -> str:
        """Say what is wrong with the lease it holds, "" for nothing."""
        if self.leader_elect and self._election.is_leader:
            try:
                self._election.check_leadership()
            except HoldfastError as lost:
                return str(lost)
        return ""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; raises what ends the work before that."""
        work = self._election.run(self._work) if self.leader_elect else self._work()
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(stop.wait())
        told = False
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            told = not working.done()
        finally:
            await self._end(working, stopping)
        _raise_why(working, told)

    async def close(self) -> None:
        """Hang up."""
        await self._client.close()
        await self._lease_client.close()

    async def _work(self) -> None:
        await self.scheduler.start()
        await self._beside.start()
        self._started()
        await _first_end(self.scheduler.wait(), self._beside.failure())

    async def _end(self, *tasks: asyncio.Task[Any]) -> None:
        """Finish what is being bound while the lease is still ours."""
        self.stopping = True
        await self._beside.stop()
        await self.scheduler.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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


def _election(client: Client, clock: Clock, terms: LeaderElectionConfiguration) -> LeaderElection:
    return LeaderElection(
        client, clock=clock, identity=f"{socket.gethostname()}_{os.getpid()}",
        name=terms.resource_name, namespace=terms.resource_namespace,
        times=LeaseTimes(terms.lease_duration, terms.renew_deadline, terms.retry_period),
    )  # fmt: skip


def _raise_why(working: asyncio.Task[None], told: bool) -> None:
    """Raise what ended the work; being told to stop, while starting too, is no failure."""
    if working.cancelled() or (failure := working.exception()) is None:
        return
    if isinstance(failure, HoldfastError):
        if told:
            return
        raise failure
    raise HoldfastError(f"the scheduler failed: {type(failure).__name__}: {failure}") from failure
