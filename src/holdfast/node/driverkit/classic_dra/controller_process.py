"""The process of a classic driver's controller; only the leader of several replicas works."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path

from holdfast.api.classic_dra.names import KEP_GROUP
from holdfast.api.scheme import NAMESPACES
from holdfast.client.classic_group import find_classic_group
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.events import EventRecorder
from holdfast.client.http import HttpTransport
from holdfast.client.informer_set import InformerSet
from holdfast.client.kubeconfig import load
from holdfast.client.leader import LeaderElection, LeaseTimes
from holdfast.client.transport import LeaseGuardedTransport
from holdfast.node.driverkit.classic_dra.bookings import Booking
from holdfast.node.driverkit.classic_dra.controller import RECHECK_SECONDS, DriverController
from holdfast.node.driverkit.classic_dra.fit_handlers import FitHandlers
from holdfast.node.driverkit.classic_dra.handlers import ClassicHandlers
from holdfast.node.driverkit.classic_dra.inventory_publisher import InventoryPublisher
from holdfast.node.driverkit.classic_dra.inventory_store import InventoryStore
from holdfast.node.driverkit.driver import Driver
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.errors import (
    AlreadyExists,
    BadConfiguration,
    Forbidden,
    HoldfastError,
    NotFound,
)
from holdfast.runtime.tasks import wait_for_first

EVENT_SECONDS = 2.0
"""How long events are still written after the stop."""
LEASE = LeaseTimes(15.0, 10.0, 5.0)

log = logging.getLogger(__name__)


class ControllerProcess:
    """Builds and runs the controller of one driver; without leader election."""

    def __init__(
        self, driver: Driver, client: Client, clock: Clock, *, group: str = KEP_GROUP
    ) -> None:
        if not driver.classic:
            raise BadConfiguration(
                f"driver {driver.name} has no controller: its claims are allocated by the "
                "scheduler. A driver of classic DRA has a function for @driver.fits"
            )
        self._driver = driver
        self._client = client
        self._clock = clock
        self._recorder = EventRecorder(client, clock, component=driver.name)
        self._informers = InformerSet(client, clock=clock)
        self._fit_handlers: FitHandlers | None = None
        self.controller = DriverController(
            driver.name,
            self._handlers(),
            client,
            clock,
            recorder=self._recorder,
            informers=self._informers,
            group=group,
        )
        if (handlers := self._fit_handlers) is not None:
            handlers.store.on_change = self.controller.recheck_waiting
            self.controller.claims.informer.add_handler(
                lambda _kind, old, new: handlers.claim_changed(old, new)
            )

    def _handlers(self) -> ClassicHandlers:
        """Return the author's own handlers, or those derived from ``fits``."""
        driver, client, clock = self._driver, self._client, self._clock
        if driver.classic.factory is not None:
            own: ClassicHandlers = driver.classic.factory(client, clock)
            return own
        store = InventoryStore(driver.name, driver.namespace, client, clock, self._informers)
        functions = driver.classic.fit_functions()
        self._fit_handlers = FitHandlers(functions, client, clock, store)
        return self._fit_handlers

    async def run(self) -> None:
        """Work until cancelled; raises the error of a part that fails."""
        await ensure_namespace(self._client, self._driver.namespace)
        self._recorder.start()
        parts = [self.controller.run()]
        if self._fit_handlers is not None:
            parts.append(self._keep_dropping_lost(self._fit_handlers))
        if self._driver.classic.has_network_inventory:
            parts.append(self._publish_network())
        try:
            await wait_for_first(*parts)
        finally:
            await self._recorder.stop(EVENT_SECONDS)

    async def _keep_dropping_lost(self, handlers: FitHandlers) -> None:
        """Free, periodically, the devices of claims that were deleted without their finalizers."""
        await self.controller.synced.wait()
        while True:
            try:
                if await handlers.drop_lost(self._is_alive):
                    self.controller.recheck_waiting()
                await handlers.store.unprotect()
            except HoldfastError as error:
                log.warning(
                    "%s: the devices of deleted claims cannot be freed: %s",
                    self._driver.name,
                    error,
                )
            await self._clock.sleep(RECHECK_SECONDS)

    async def _is_alive(self, booking: Booking) -> bool:
        if self.controller.works_on(booking.uid):
            return True  # its devices are unknown until the author's function has returned
        claims = self.controller.claims
        claim = claims.get(f"{booking.claim.namespace}/{booking.claim.name}")
        if claim is None or claim.uid != booking.uid:
            try:
                claim = await self._client.get(
                    claims.informer.resource, booking.claim.name, booking.claim.namespace
                )
            except NotFound:
                return False
        return claim.uid == booking.uid

    async def _publish_network(self) -> None:
        publisher = InventoryPublisher(
            self._client, self._clock, self._driver.name, self._driver.namespace, ""
        )
        publishing = asyncio.create_task(publisher.run())
        try:
            while True:
                try:
                    publisher.publish_devices(await self._driver.classic.network_devices())
                except Exception as error:
                    # The author's code: the last inventory stays published.
                    log.error("the inventory of %s cannot be read: %s", self._driver.name, error)
                await self._clock.sleep(self._driver.refresh_seconds)
        finally:
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)


async def ensure_namespace(client: Client, name: str) -> None:
    """Create the namespace of a driver, unless there is one or an admin must do it."""
    with suppress(AlreadyExists, Forbidden):
        try:
            await client.get(NAMESPACES, name)
        except NotFound:
            await client.create(NAMESPACES, {"metadata": {"name": name}})


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
