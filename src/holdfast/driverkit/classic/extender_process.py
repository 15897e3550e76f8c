"""The extender of a classic driver with all its parts, as a process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from holdfast.api.classic import ClassicClaim, classic_resources
from holdfast.api.classic_claim_sources import InvalidEntries
from holdfast.api.classic_claims import ClassicEntry, classic_entries
from holdfast.api.meta import ObjectMeta
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.informer_set import InformerSet
from holdfast.client.kubeconfig import load
from holdfast.clock import Clock, SystemClock
from holdfast.driverkit.classic.elected_controller import expect_classic_group
from holdfast.driverkit.classic.extender import Extender, Sessions
from holdfast.driverkit.classic.fit_handlers import FitHandlers
from holdfast.driverkit.classic.fitting import ClaimRequest, FreeDevice
from holdfast.driverkit.classic.inventory_store import InventoryStore
from holdfast.driverkit.classic.simulation import RequestedClaim, Session
from holdfast.driverkit.driver import Driver
from holdfast.errors import BadConfiguration, HoldfastError, Refused


class ExtenderProcess:
    """Follows claims, classes and inventories, and answers by the author's ``fits``."""

    def __init__(self, driver: Driver, client: Client, clock: Clock, *, group: str) -> None:
        if driver.classic.factory is not None or not driver.classic:
            raise BadConfiguration(f"driver {driver.name} has no extender: that needs @driver.fits")
        resources = classic_resources(group)
        self.informers = InformerSet(client, clock=clock)
        self._driver = driver
        self._classes = self.informers.get(resources.classes).cache
        claims = self.informers.get(resources.claims)
        self._claims = claims.cache
        store = InventoryStore(driver.name, driver.namespace, client, clock, self.informers)
        self._bookings = store.bookings
        self._functions = driver.classic.fit_functions()
        self._handlers = FitHandlers(self._functions, client, clock, store)
        claims.add_handler(lambda _kind, old, new: self._handlers.claim_changed(old, new))
        self.extender = Extender(Sessions(self._session, clock), self.claims_of, self.is_ready)

    async def claims_of(self, pod: Pod) -> list[RequestedClaim]:
        """Return the claims of a pod for this driver; one that is not created yet, as it will be.

        Raises HoldfastError if classes or parameters are missing or wrong.
        """
        try:
            entries = classic_entries(pod)
        except InvalidEntries as error:
            raise HoldfastError(f"pod {pod.name}: {error}") from error
        found = []
        for claim in {entry.claim_name: self._claim(pod, entry) for entry in entries}.values():
            name = claim.spec.resource_class_name
            resource_class = self._classes.get(name)
            if resource_class is None:
                raise HoldfastError(f"claim {claim.name}: there is no ResourceClass {name}")
            if resource_class.driver_name != self._driver.name:
                continue
            request = ClaimRequest()
            if not claim.is_allocated:
                of_class = await self._handlers.class_parameters(resource_class)
                of_claim = await self._handlers.claim_parameters(claim, resource_class, of_class)
                request = ClaimRequest(of_claim, of_class)
            found.append(RequestedClaim(claim, resource_class, request))
        return found

    def is_ready(self, node: str) -> bool:
        """Return whether the inventory of a new node is published."""
        inventory = self._bookings.inventory("" if self._functions.network else node)
        return inventory is not None and inventory.spec.ready

    def _claim(self, pod: Pod, entry: ClassicEntry) -> ClassicClaim:
        key = f"{pod.namespace}/{entry.claim_name}"
        stored = self._claims.get(key)
        if stored is not None:
            return stored
        if entry.template is None:
            raise HoldfastError(f"there is no claim {entry.claim_name}")
        meta = ObjectMeta(name=entry.claim_name, namespace=pod.namespace)
        return ClassicClaim(metadata=meta, spec=entry.template.spec)

    def _session(self) -> Session:
        free = {pool: self._bookings.free(pool) or () for pool in self._bookings.pools()}
        return Session(self._functions.fits, free, self._new_node, network=self._functions.network)

    def _new_node(self, node: Node) -> Sequence[FreeDevice] | None:
        return self._driver.classic.devices_of_new_node(node)


async def run_extender(
    driver: Driver, kubeconfig: Path | None, address: str, port: int, stop: asyncio.Event
) -> None:
    """Serve the extender until ``stop`` is set."""
    client = Client(HttpTransport(await load(kubeconfig)), f"holdfast-driver/{driver.name}")
    try:
        group = await expect_classic_group(client)
        process = ExtenderProcess(driver, client, SystemClock(), group=group)
        async with process.informers:
            runner = web.AppRunner(process.extender.application(), access_log=None)
            await runner.setup()
            try:
                await _listen(runner, address, port)
                print(f"{driver.name} answers autoscalers at {_url(runner)}", flush=True)
                await stop.wait()
            finally:
                await runner.cleanup()
    finally:
        await client.close()


async def _listen(runner: web.AppRunner, address: str, port: int) -> None:
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as error:
        raise Refused(
            f"cannot listen on {address}:{port} ({error.strerror}): choose another with "
            "--extender-port"
        ) from error


def _url(runner: web.AppRunner) -> str:
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"
