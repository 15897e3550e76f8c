"""A process that works while it holds a Lease: base of ``scheduler`` and ``controllers``."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.leader import LeaderElection, LeaseTimes
from holdfast.client.transport import LeaseGuardedTransport, ThrottledTransport, Transport
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.metric_types import CallbackMetric, MetricCollector
from holdfast.runtime.settings import ElectionSettings, RequestLimits

DEFAULT_BURST = 100


class ElectedProcess:
    """Runs ``work`` while this process is the leader, or always without leader election.

    Subclasses implement ``work`` and ``stop_work``, and send their requests with ``client``.
    """

    name = ""
    """The user agent of the process."""
    subject = ""
    """The subject of messages about a failure."""

    def __init__(
        self, endpoint: Endpoint, election: ElectionSettings, limits: RequestLimits, clock: Clock
    ) -> None:
        self.leader_elect = election.leader_elect
        self.lease = f"{election.namespace}/{election.name}"
        self.stopping = False
        # The lease has its own transport: other requests must not delay its renewal.
        self._lease_client = Client(HttpTransport(endpoint), self.name)
        self._election = _election(self._lease_client, clock, election)
        transport = _transport(endpoint, limits, clock)
        if self.leader_elect:
            transport = LeaseGuardedTransport(transport, self._election.check_leadership)
        self.client = Client(transport, self.name)
        self.leader_metrics = MetricCollector(
            CallbackMetric(
                "leader_election_master_status",
                "1 if this process holds the lease of this name, else 0.",
                ("name",),
                lambda: {election.name: float(self.leads())} if self.leader_elect else {},
            )
        )

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
        work = self._election.run(self.work) if self.leader_elect else self.work()
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(stop.wait())
        stopped = False
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopped = not working.done()
        finally:
            await self._end(working, stopping)
        self._raise_failure(working, stopped)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        await self._lease_client.close()

    async def work(self) -> None:
        """Work until a part fails; raises its error."""
        raise NotImplementedError

    async def stop_work(self) -> None:
        """Stop every part that ``work`` has started."""
        raise NotImplementedError

    async def _end(self, *tasks: asyncio.Task[Any]) -> None:
        """Stop all parts while this process still holds the lease."""
        self.stopping = True
        await self.stop_work()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _raise_failure(self, working: asyncio.Task[None], stopped: bool) -> None:
        """Raise the error that ended the run; errors of Holdfast after ``stop`` are ignored."""
        if working.cancelled() or (failure := working.exception()) is None:
            return
        if isinstance(failure, HoldfastError):
            if stopped:
                return
            raise failure
        raise HoldfastError(
            f"{self.subject} failed: {type(failure).__name__}: {failure}"
        ) from failure


def _transport(endpoint: Endpoint, limits: RequestLimits, clock: Clock) -> Transport:
    """Return the transport, throttled only if a QPS is set."""
    transport = HttpTransport(endpoint)
    if limits.qps <= 0:
        return transport
    burst = limits.burst or DEFAULT_BURST
    return ThrottledTransport(transport, clock, qps=limits.qps, burst=burst)


def _election(client: Client, clock: Clock, settings: ElectionSettings) -> LeaderElection:
    return LeaderElection(
        client,
        clock=clock,
        identity=f"{socket.gethostname()}_{os.getpid()}",
        name=settings.name,
        namespace=settings.namespace,
        times=LeaseTimes(
            settings.lease_duration_seconds,
            settings.renew_deadline_seconds,
            settings.retry_period_seconds,
        ),
    )
