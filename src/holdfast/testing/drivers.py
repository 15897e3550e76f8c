"""Run a driver on a separate node, with a real API server, real sockets and a kubelet's calls.

``DriverNode`` calls the driver directly, so a test decides when each function is called.
``FaultyDriver`` makes its functions fail, block or end as if the process was killed::

    faulty = FaultyDriver(driver)
    async with DriverNode(faulty) as node:
        claim = await node.allocate("gpu-0")
        faulty.inject("prepare", Fail("broken"))
        assert "broken" in (await node.prepare(claim)).error
        assert node.edits(await node.prepare(claim)).environment == {"GPU": "gpu-0"}
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import grpc.aio

from holdfast.api.devices import Device, ResourceClaim, ResourceSlice
from holdfast.api.scheme import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.client.client import Client
from holdfast.driver import Claim, Driver, DriverError
from holdfast.node.cdi.registry import CdiRegistry
from holdfast.node.cdi.spec import ContainerEdits
from holdfast.node.driverkit.claims import Prepared
from holdfast.node.driverkit.process import DriverProcess, DriverSettings
from holdfast.node.kubelet_api import (
    DRA_V1,
    DRA_V1BETA1,
    PLUGINS_DIRECTORY,
    REGISTRY_DIRECTORY,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    plugin_registration_pb2,
    plugin_registration_pb2_grpc,
)
from holdfast.runtime.clock import SystemClock
from holdfast.server.api_server import ApiServer
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store.store import Store
from holdfast.server.user import own_user
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from holdfast.testing.builders import a_node, a_pod
from holdfast.testing.classic_dra.allocation_record import AllocationRecord

CALL_SECONDS = 45.0
"""The time limit of a kubelet for one call."""
_STUBS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    DRA_V1: (dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub),
    DRA_V1BETA1: (dra_v1beta1_pb2, dra_v1beta1_pb2_grpc.DRAPluginStub),
}


class Killed(BaseException):
    """Ends a call of a driver's function as the end of its process would."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Let the function fail instead of being called."""

    message: str = "injected error"


@dataclass(frozen=True, slots=True)
class Kill:
    """Call the function, then end the process: it writes and returns nothing more."""

    done: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process has ended; then ``DriverNode.restart``."""


@dataclass(frozen=True, slots=True)
class Block:
    """Call the function when ``release`` is set; ``entered`` is set when it waits."""

    release: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)


class FaultyDriver(Driver):
    """A driver whose next calls have faults; it counts calls.

    The functions are ``prepare`` and ``unprepare``; a classic driver also has ``allocate``,
    ``allocate_on_node``, ``release``, and ``allocate`` and ``deallocate`` of its own handlers.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__(
            driver.name, namespace=driver.namespace, refresh_seconds=driver.refresh_seconds
        )
        self._driver = driver
        self._faults: defaultdict[str, list[Fail | Kill | Block]] = defaultdict(list)
        self.calls: list[tuple[str, str]] = []
        """(function, uid of the claim) of each call of the author's functions."""
        self.allocations = AllocationRecord(self._call)
        """Results and arguments of the functions of a classic driver."""
        self.classic = driver.classic.wrapped(self.allocations.wrap)

    def inject(self, function: str, *faults: Fail | Kill | Block) -> None:
        """Give the next calls of a function these faults, one each."""
        self._faults[function] += faults

    def check(self) -> None:
        """Check the driver."""
        self._driver.check()

    async def pools(self, node: str) -> Any:
        """Return the driver's inventory."""
        return await self._driver.pools(node)

    async def call_prepare(self, claim: Claim) -> Prepared:
        """Call the driver's ``prepare`` with the next fault."""
        prepared: Prepared = await self._call(
            "prepare", claim.uid, self._driver.call_prepare(claim)
        )
        return prepared

    async def call_unprepare(self, claim: Claim) -> None:
        """Call the driver's ``unprepare`` with the next fault."""
        await self._call("unprepare", claim.uid, self._driver.call_unprepare(claim))

    async def _call(self, name: str, uid: str, call: Coroutine[Any, Any, Any]) -> Any:
        fault = self._faults[name].pop(0) if self._faults[name] else None
        if isinstance(fault, Fail):
            call.close()
            raise DriverError(fault.message)
        if isinstance(fault, Block):
            fault.entered.set()
            await fault.release.wait()
        self.calls.append((name, uid))
        result = await call
        if isinstance(fault, Kill):
            fault.done.set()
            if name in ("prepare", "unprepare"):
                raise Killed
            await asyncio.Event().wait()  # until the test ends the controller
        return result


class DriverNode:
    """A node with one driver and an API server; methods make the calls of a kubelet."""

    def __init__(self, driver: Driver, node: str = "node-1") -> None:
        self.driver = driver
        self.name = node
        # Sockets have short paths, so the directory of a test is often too long.
        self._temporary = tempfile.TemporaryDirectory(prefix="driver-")
        self.directory = Path(self._temporary.name)
        self.cdi_dir = self.directory / "cdi"
        self.settings = DriverSettings(
            node_name=node,
            registry_dir=self.directory / REGISTRY_DIRECTORY,
            plugins_dir=self.directory / PLUGINS_DIRECTORY,
            cdi_dir=self.cdi_dir,
        )
        self.info = plugin_registration_pb2.PluginInfo()
        """The response of the driver to its registration."""
        self._numbers = itertools.count()
        self._channel: grpc.aio.Channel
        self.process: DriverProcess
        self.client: Client

    async def __aenter__(self) -> Self:
        clock = SystemClock()
        self._store = Store.open(self.directory / "store", clock)
        self._server = ApiServer.create(self._store, clock)
        await self._server.start(copy_bootstrap_objects)
        self.client = Client(InProcessTransport(self._server), "test")
        node = own_user(f"system:node:{self.name}")
        self._node_client = Client(InProcessTransport(self._server, node), self.driver.name)
        try:
            await self.client.create(NODES, a_node(self.name))
            await self.start()
        except BaseException:
            await self._stop_server()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        await self._stop_server()

    async def start(self) -> None:
        """Start the driver, register it and wait until its slices are published."""
        self.process = DriverProcess(self.driver, self.settings, self._node_client, SystemClock())
        await self.process.start()
        await self._register()
        await self.process.wait_until_published()

    async def stop(self) -> None:
        """Stop the driver."""
        await self._channel.close()
        await self.process.stop()

    async def restart(self) -> None:
        """Stop the driver and start it again; after ``Kill`` this is a restart after a crash."""
        await self.stop()
        await self.start()

    async def slices(self) -> list[ResourceSlice]:
        """Return the slices of the driver, in the order of allocation."""
        listing = await self.client.list(
            RESOURCE_SLICES, fields=f"spec.driver={self.driver.name},spec.nodeName={self.name}"
        )
        return sorted(listing.items, key=lambda one: one.name)

    async def devices(self) -> dict[str, tuple[str, Device]]:
        """Return (pool, device) of the published devices, by name."""
        return {d.name: (s.spec.pool.name, d) for s in await self.slices() for d in s.spec.devices}

    async def allocate(self, *names: str, config: Any = None) -> ResourceClaim:
        """Create a claim with allocated devices, one for each of its requests (``r0``, ``r1``)."""
        requests = [
            {"name": f"r{i}", "exactly": {"deviceClassName": "any"}} for i in range(len(names))
        ]
        claim = await self.create_claim(requests)
        known = await self.devices()
        results = [self._result(f"r{i}", name, *known[name]) for i, name in enumerate(names)]
        allocation: dict[str, Any] = {"results": results}
        if config is not None:
            opaque = {"driver": self.driver.name, "parameters": config}
            allocation["config"] = [{"source": "FromClaim", "requests": [], "opaque": opaque}]
        await self._use(claim)
        status = {"status": {"allocation": {"devices": allocation}}}
        return await self.client.patch(
            RESOURCE_CLAIMS, claim.name, status, claim.namespace, subresource="status"
        )

    async def _use(self, claim: ResourceClaim) -> None:
        """Create a pod on the node that uses a claim: a node may read only such claims."""
        used = {"name": "claim", "resourceClaimName": claim.name}
        await self.client.create(PODS, a_pod(claim.name, node=self.name, claims=[used]), "default")

    async def create_claim(self, requests: Any = None) -> ResourceClaim:
        """Create a claim that is not allocated."""
        default = [{"name": "r0", "exactly": {"deviceClassName": "any"}}]
        raw = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"claim-{next(self._numbers)}", "namespace": "default"},
            "spec": {"devices": {"requests": requests or default}},
        }
        return await self.client.create(RESOURCE_CLAIMS, raw, "default")

    async def prepare(self, claim: ResourceClaim, version: str = DRA_V1) -> Any:
        """Prepare one claim and return the driver's response for it."""
        return (await self.prepare_all(claim, version=version))[claim.uid]

    async def prepare_all(self, *claims: ResourceClaim, version: str = DRA_V1) -> dict[str, Any]:
        """Prepare claims in one call and return the responses by uid."""
        return await self._call("NodePrepareResources", version, claims)

    async def unprepare(self, claim: ResourceClaim, version: str = DRA_V1) -> Any:
        """Unprepare one claim and return the driver's response for it."""
        return (await self._call("NodeUnprepareResources", version, (claim,)))[claim.uid]

    def edits(self, answer: Any, *requests: str) -> ContainerEdits:
        """Return the edits of a container that uses these requests, or all, of a prepared claim."""
        names = [
            name
            for device in answer.devices
            if not requests or set(requests) & set(device.request_names)
            for name in device.cdi_device_ids
        ]
        return CdiRegistry([self.cdi_dir]).resolve(names)

    async def _call(
        self, method: str, version: str, claims: tuple[ResourceClaim, ...]
    ) -> dict[str, Any]:
        messages, stub = _STUBS[version]
        listed = [messages.Claim(namespace=c.namespace, name=c.name, uid=c.uid) for c in claims]
        request = getattr(messages, f"{method}Request")(claims=listed)
        answer = await getattr(stub(self._channel), method)(request, timeout=CALL_SECONDS)
        return dict(answer.claims)

    async def _register(self) -> None:
        [socket] = self.settings.registry_dir.glob("*.sock")
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            stub = plugin_registration_pb2_grpc.RegistrationStub(channel)
            request = plugin_registration_pb2.InfoRequest()
            self.info = await stub.GetInfo(request, timeout=CALL_SECONDS)
            status = plugin_registration_pb2.RegistrationStatus(plugin_registered=True)
            await stub.NotifyRegistrationStatus(status, timeout=CALL_SECONDS)
        self._channel = grpc.aio.insecure_channel(f"unix:{self.info.endpoint}")

    async def _stop_server(self) -> None:
        await self._server.stop()
        await self._store.close()
        self._temporary.cleanup()

    def _result(self, request: str, name: str, pool: str, device: Device) -> dict[str, Any]:
        result: dict[str, Any] = {
            "request": request,
            "driver": self.driver.name,
            "pool": pool,
            "device": name,
        }
        if device.allow_multiple_allocations:
            result["shareID"] = str(uuid4())
            result["consumedCapacity"] = {
                key: (capacity.request_policy or {}).get("default", capacity.value)
                for key, capacity in device.capacity.items()
            }
        return result
