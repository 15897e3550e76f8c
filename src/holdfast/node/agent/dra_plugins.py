"""The DRA drivers that are registered on a node, and the slices of those that are gone.

A driver may have several endpoints: while it is replaced, the old and the new one exist.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Callable

import grpc

from holdfast.api.scheme import RESOURCE_SLICES
from holdfast.api.validation.device_names import check_driver
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client
from holdfast.node.agent.dra_calls import CALL_SECONDS, CLASSIC, DriverEndpoint
from holdfast.node.agent.plugin_registry import PluginInfo, RegistrationRefused
from holdfast.node.kubelet_api import CLASSIC_PLUGIN, DRA_V1, DRA_V1BETA1
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, NotFound

log = logging.getLogger(__name__)

_CLASSIC_VERSION = re.compile(r"v?1(\.\d+)*")
GONE_SECONDS = 30.0
"""How long a driver may be away, for a restart, before its slices are deleted."""
_RETRY = Backoff(1.0, 300.0, jitter=0.2)


class NotRegistered(HoldfastError):
    """No endpoint of a driver is registered."""


class DraPlugins:
    """Handles plugins of the types ``DRAPlugin`` and ``ResourcePlugin``.

    ``usable_changed`` is called whenever the endpoints of a driver of structured DRA change, with
    whether one of them is connected.
    """

    def __init__(
        self, usable_changed: Callable[[str, bool], None], *, call_seconds: float = CALL_SECONDS
    ) -> None:
        self._usable_changed = usable_changed
        self._call_seconds = call_seconds
        self._drivers: dict[tuple[str, bool], list[DriverEndpoint]] = {}
        self._tasks: dict[DriverEndpoint, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether a driver is being called."""
        return any(each.calls for endpoints in self._drivers.values() for each in endpoints)

    def endpoint(self, driver: str, *, classic: bool = False) -> DriverEndpoint:
        """Return the newest connected endpoint of a driver, else the newest one."""
        endpoints = self._drivers.get((driver, classic))
        if not endpoints:
            raise NotRegistered(f"DRA driver {driver} is not registered")
        return next((each for each in reversed(endpoints) if each.connected), endpoints[-1])

    def register(self, plugin: PluginInfo) -> None:
        """Connect to a driver; raise RegistrationRefused."""
        if causes := list(check_driver(plugin.name, "name")):
            raise RegistrationRefused(f"the name of the driver: {causes[0].message}")
        services = chosen_services(plugin)
        known = self._drivers.get((plugin.name, False), ())
        if any(each.path == plugin.endpoint for each in known) and services != (CLASSIC,):
            raise RegistrationRefused(
                f"endpoint {plugin.endpoint} is already registered for DRA driver {plugin.name}"
            )
        for service in services:
            self._add(DriverEndpoint(plugin.name, plugin.endpoint, service, self._call_seconds))

    def _add(self, endpoint: DriverEndpoint) -> None:
        key = endpoint.driver, endpoint.classic
        self._drivers[key] = [*self._drivers.get(key, ()), endpoint]
        self._tasks[endpoint] = asyncio.create_task(
            self._follow(endpoint), name=f"driver {endpoint.driver}"
        )
        self._tell(endpoint)

    def deregister(self, plugin: PluginInfo) -> None:
        """Stop using an endpoint; running calls are not cut off."""
        for service in chosen_services(plugin):
            endpoints = self._drivers.get((plugin.name, service == CLASSIC), ())
            # A restarted classic driver may have registered the same path again: remove the first.
            if endpoint := next((each for each in endpoints if each.path == plugin.endpoint), None):
                self._remove(endpoint)

    def _remove(self, endpoint: DriverEndpoint) -> None:
        endpoints = self._drivers[endpoint.driver, endpoint.classic]
        endpoints.remove(endpoint)
        if not endpoints:
            del self._drivers[endpoint.driver, endpoint.classic]
        self._tasks.pop(endpoint).cancel()
        closing = asyncio.create_task(endpoint.channel.close(self._call_seconds))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self._tell(endpoint)

    async def close(self) -> None:
        """Close all channels; running calls fail."""
        tasks = list(self._tasks.values())
        for task in (*tasks, *self._closing):
            task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)
        channels = [each.channel for each in self._tasks]
        self._drivers.clear()
        self._tasks.clear()
        await asyncio.gather(*(channel.close() for channel in channels))

    async def _follow(self, endpoint: DriverEndpoint) -> None:
        """Keep an endpoint connected and record whether it is."""
        while True:
            state = endpoint.channel.get_state(try_to_connect=True)
            connected = state is grpc.ChannelConnectivity.READY
            if connected != endpoint.connected:
                endpoint.connected = connected
                word = "connected" if connected else "disconnected"
                log.info("driver %s at %s %s", endpoint.driver, endpoint.path, word)
                self._tell(endpoint)
            await endpoint.channel.wait_for_state_change(state)

    def _tell(self, changed: DriverEndpoint) -> None:
        if not changed.classic:
            endpoints = self._drivers.get((changed.driver, False), ())
            self._usable_changed(changed.driver, any(each.connected for each in endpoints))


def chosen_services(plugin: PluginInfo) -> tuple[str, ...]:
    """Return the first service in the plugin's order that the agent supports, and the classic one.

    Classic drivers name versions of registration rather than services: any 1.x.
    """
    versions = plugin.versions
    if not versions:
        raise RegistrationRefused(f"DRA driver {plugin.name} lists no supported versions")
    structured = [v for v in versions if v in (DRA_V1, DRA_V1BETA1)][:1]
    if plugin.type == CLASSIC_PLUGIN:
        structured = []
    classic = [CLASSIC] if any(_CLASSIC_VERSION.fullmatch(v) for v in versions) else []
    if structured or classic:
        return (*structured, *classic)
    raise RegistrationRefused(
        f"none of the versions of DRA driver {plugin.name} ({', '.join(versions)}) is supported: "
        f"{DRA_V1}, {DRA_V1BETA1}, or 1.x of a classic driver"
    )


class DriverSlices:
    """Deletes slices of one node: all at the start, later those of drivers absent for 30 s."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._rng = random.Random(node)
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def delete_all(self) -> None:
        """Delete the slices of all drivers: none has registered yet, and some may never do."""
        await self._delete("")

    def usable_changed(self, driver: str, usable: bool) -> None:
        """Start or stop the countdown of a driver."""
        if usable:
            if task := self._pending.pop(driver, None):
                task.cancel()
        elif driver not in self._pending:
            task = asyncio.create_task(self._after_delay(driver), name=f"slices of {driver}")
            self._pending[driver] = task

    async def close(self) -> None:
        """Forget all countdowns."""
        tasks = list(self._pending.values())
        self._pending.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _after_delay(self, driver: str) -> None:
        await self._clock.sleep(GONE_SECONDS)
        await self._delete(driver)
        del self._pending[driver]

    async def _delete(self, driver: str) -> None:
        """Retry the deletion until it succeeds."""
        selector = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        failures = 0
        while True:
            try:
                await self._client.delete_collection(RESOURCE_SLICES, field_selector=selector)
            except NotFound:
                return  # the server has no ResourceSlices at all
            except HoldfastError as error:
                failures += 1
                log.warning("cannot delete ResourceSlices (%s): %s", selector, error)
                await self._clock.sleep(_RETRY.delay(failures, self._rng))
            else:
                log.info("deleted ResourceSlices (%s)", selector)
                return
