"""Run the process of ``holdfast scheduler`` or ``holdfast controllers`` with its pages."""

from __future__ import annotations

import asyncio
import logging

from holdfast.cli.health import HealthServer, ProcessState
from holdfast.client.leader import LeaderElection
from holdfast.elected_process import ElectedProcess


async def run_with_pages(
    process: ElectedProcess, state: ProcessState, health_port: int, stop: asyncio.Event
) -> None:
    """Run a process until ``stop`` is set; raises the error that ends it before that."""
    page = await HealthServer.start(health_port, state)
    if process.leader_elect:
        # A replica that waits for the lease should log which holder it waits for.
        logging.getLogger(LeaderElection.__module__).setLevel(logging.INFO)
        print(f"waiting for the lease {process.lease} as {process.identity}", flush=True)
    try:
        await process.run(stop)
    finally:
        await page.close()
        await process.close()
    print("stopped", flush=True)
