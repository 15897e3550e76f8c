"""Run the scheduler, the controllers or the descheduler of one process, with its pages."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from holdfast.cli.health import HealthChecks, HealthServer, ProcessState
from holdfast.client.leader import LeaderElection
from holdfast.processes.elected import ElectedProcess


class _ReadyProcess(Protocol):
    @property
    def ready(self) -> bool:
        """Whether the informers are synced."""


@dataclass(slots=True, kw_only=True)
class ElectedState(ProcessState):
    """The state of the controllers or of the descheduler."""

    process: _ReadyProcess

    def alive_checks(self) -> HealthChecks:
        """Return the checks of /healthz and /livez."""
        return {**ProcessState.alive_checks(self), self.command: self.working}

    def ready_checks(self) -> HealthChecks:
        """Return the checks of /readyz."""
        return {**ProcessState.ready_checks(self), "informer-sync": self.informer_sync}

    def working(self) -> str:
        """Return why the leading process does not work, or ""."""
        if self.leads() and self.process.ready and not self.stopping():
            return self.failure()
        return ""

    def failure(self) -> str:
        """Return why a part of the process does not run, or ""."""
        raise NotImplementedError

    def informer_sync(self) -> str:
        """Return why the informers are not synced, or ""."""
        return "" if self.process.ready or not self.leads() else "informers are not synced yet"


async def run_with_pages(
    process: ElectedProcess, state: ProcessState, health_port: int, stop: asyncio.Event
) -> None:
    """Run a process until ``stop`` is set; raises the error that ends it before that."""
    page = await HealthServer.start(health_port, state)
    if process.leader_elect:
        # A replica that waits for the lease should log the current holder.
        logging.getLogger(LeaderElection.__module__).setLevel(logging.INFO)
        print(f"waiting for the lease {process.lease} as {process.identity}", flush=True)
    try:
        await process.run(stop)
    finally:
        await page.close()
        await process.close()
    print("stopped", flush=True)
