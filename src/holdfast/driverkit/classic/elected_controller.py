"""The controller of a classic driver as a process: of several replicas one works."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

from holdfast.client.classic_group import find_classic_group
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.client.leader import LeaderElection, LeaseTimes
from holdfast.client.transport import LeaseGuardedTransport
from holdfast.clock import Clock, SystemClock
from holdfast.driverkit.classic.controller_process import ControllerProcess, ensure_namespace
from holdfast.driverkit.driver import Driver
from holdfast.errors import BadConfiguration

LEASE = LeaseTimes(15.0, 10.0, 5.0)


async def run_controller(driver: Driver, kubeconfig: Path | None, stop: asyncio.Event) -> None:
    """Run the controller while this process holds the driver's lease, until ``stop`` is set."""
    endpoint = await load(kubeconfig)
    # The lease has its own connections: other requests must not delay its renewal.
    lease_client = Client(HttpTransport(endpoint), f"holdfast-driver/{driver.name}")
    try:
        await ensure_namespace(lease_client, driver.namespace)
        group = await expect_classic_group(lease_client)
        await _elected(driver, endpoint, lease_client, group, stop)
    finally:
        await lease_client.close()


async def expect_classic_group(client: Client) -> str:
    """Return the group in which classic DRA is served; raises BadConfiguration."""
    group = await find_classic_group(client)
    if not group:
        raise BadConfiguration(
            "the API server does not serve classic DRA: apply deploy/crds, or turn on its "
            "feature gate DynamicResourceAllocation"
        )
    return group


async def _elected(
    driver: Driver, endpoint: Endpoint, lease_client: Client, group: str, stop: asyncio.Event
) -> None:
    clock: Clock = SystemClock()
    election = LeaderElection(
        lease_client,
        clock=clock,
        identity=f"{socket.gethostname()}_{os.getpid()}",
        name=driver.name,
        namespace=driver.namespace,
        times=LEASE,
    )
    transport = LeaseGuardedTransport(HttpTransport(endpoint), election.check_leadership)
    client = Client(transport, f"holdfast-driver/{driver.name}")
    process = ControllerProcess(driver, client, clock, group=group)

    async def lead() -> None:
        working = asyncio.create_task(process.run())
        announcing = asyncio.create_task(_announce(driver, process))
        try:
            await working
        finally:
            announcing.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    running = asyncio.create_task(election.run(lead))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)
        await client.close()


async def _announce(driver: Driver, process: ControllerProcess) -> None:
    await process.controller.synced.wait()
    print(f"{driver.name} allocates claims", flush=True)
