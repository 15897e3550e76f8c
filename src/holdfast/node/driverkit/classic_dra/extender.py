"""The extender of a classic driver: tells an autoscaler what claims would get on new nodes.

HTTP POST of JSON in the format of scheduler extenders: Go types without tags, so keys are
capitalised in answers and read in any case.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from holdfast.api.classic_dra.claims import ClassicEntry, classic_entries
from holdfast.api.classic_dra.types import ClassicClaim, classic_resources
from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.meta import ObjectMeta
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.informer_set import InformerSet
from holdfast.client.kubeconfig import load
from holdfast.node.driverkit.classic_dra.controller_process import expect_classic_group
from holdfast.node.driverkit.classic_dra.fit_handlers import FitHandlers
from holdfast.node.driverkit.classic_dra.fitting import ClaimParameters, FreeDevice
from holdfast.node.driverkit.classic_dra.inventory_store import InventoryStore
from holdfast.node.driverkit.classic_dra.simulation import RequestedClaim, Session
from holdfast.node.driverkit.driver import Driver
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.errors import BadConfiguration, BadRequest, HoldfastError, Refused
from holdfast.runtime.health_checks import page

SESSION_HEADER = "session"
MOST_SESSIONS = 8
IDLE_SECONDS = 600.0
_MOST_BYTES = 256 << 20
"""Requests contain full nodes: 5,000 of them take some tens of megabytes."""
log = logging.getLogger(__name__)
T = TypeVar("T")


class _NoSession(HoldfastError):
    """The session of a request is unknown; the caller starts again."""


class Sessions:
    """The newest simulations; one that is idle for ten minutes ends."""

    def __init__(self, start: Callable[[], Session], clock: Clock) -> None:
        self._start = start
        self._clock = clock
        self._sessions: OrderedDict[str, tuple[Session, float]] = OrderedDict()

    def start(self) -> str:
        """Start a session with the devices that are free now and return its id."""
        name = secrets.token_hex(16)
        self._sessions[name] = (self._start(), self._clock.monotonic())
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return name

    def get(self, name: str) -> Session:
        """Return a session; raises an error if it has ended."""
        session, used = self._sessions.get(name, (None, 0.0))
        if session is None or used + IDLE_SECONDS <= self._clock.monotonic():
            self._sessions.pop(name, None)
            raise _NoSession(f"session {name!r} has expired or does not exist: start a new one")
        self._sessions[name] = (session, self._clock.monotonic())
        return session


class Extender:
    """Answers the verbs of an autoscaler for one driver."""

    def __init__(
        self,
        sessions: Sessions,
        claims_of: Callable[[Pod], Awaitable[list[RequestedClaim]]],
        is_ready: Callable[[str], bool],
    ) -> None:
        self._sessions = sessions
        self._claims_of = claims_of
        self._is_ready = is_ready

    def application(self) -> web.Application:
        """Return the routes; the extender is ready as soon as it serves, because it syncs first."""
        app = web.Application(client_max_size=_MOST_BYTES)
        verbs = {
            "start": self._on_start,
            "filter": self._on_filter,
            "nodeselected": self._on_node_selected,
            "nodeready": self._on_node_ready,
        }
        app.add_routes([web.post(f"/{verb}", _json(answer)) for verb, answer in verbs.items()])
        app.add_routes([web.get(f"/{name}", _health) for name in ("healthz", "livez", "readyz")])
        return app

    async def _on_start(self, request: web.Request, body: JsonObject) -> web.Response:
        name = self._sessions.start()
        return web.json_response({"Session": name}, headers={SESSION_HEADER: name})

    async def _on_filter(self, request: web.Request, body: JsonObject) -> web.Response:
        session = self._session(request)
        pod = _object(body, "pod", Pod)
        listed = _field(body, "nodes")
        raw_nodes = _field(listed, "items") if isinstance(listed, dict) else None
        if not isinstance(raw_nodes, list):
            raise BadRequest("Nodes.items: full nodes are required, names are not enough")
        nodes = [_object({"node": raw}, "node", Node) for raw in raw_nodes]
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        result: JsonObject = {
            "Nodes": None,
            "NodeNames": None,
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": unresolvable,
            "Error": "",
        }
        try:
            claims = await self._claims_of(pod)
            for node in nodes:
                refusal = session.refusal(pod, claims, node)
                if refusal is not None:
                    (unresolvable if refusal.everywhere else failed)[node.name] = refusal.reason
        except Exception as error:
            return web.json_response(result | {"Error": _shown(error)})
        passed = [
            raw
            for node, raw in zip(nodes, raw_nodes, strict=True)
            if node.name not in failed and node.name not in unresolvable
        ]
        return web.json_response(result | {"Nodes": {"items": passed}})

    async def _on_node_selected(self, request: web.Request, body: JsonObject) -> web.Response:
        session = self._session(request)
        pod, node = _object(body, "pod", Pod), _object(body, "node", Node)
        try:
            session.select(pod, await self._claims_of(pod), node)
        except Exception as error:
            return web.json_response({"Error": _shown(error)})
        return web.json_response({"Error": ""})

    async def _on_node_ready(self, request: web.Request, body: JsonObject) -> web.Response:
        self._session(request)
        name = _field(body, "nodename")
        if not isinstance(name, str) or not name:
            raise BadRequest("NodeName: the name of a node is required")
        return web.json_response({"Ready": self._is_ready(name), "Error": ""})

    def _session(self, request: web.Request) -> Session:
        name = request.headers.get(SESSION_HEADER, "")
        if not name:
            raise BadRequest(f"header {SESSION_HEADER}: the id of a session is required")
        return self._sessions.get(name)


def _json(
    answer: Callable[[web.Request, JsonObject], Awaitable[web.Response]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Read the body and answer errors as text: 400, or 410 for a session that has ended."""

    async def handle(request: web.Request) -> web.Response:
        try:
            body = msgspec.json.decode(await request.read() or b"{}")
            if not isinstance(body, dict):
                raise BadRequest("the body must be a JSON object")
            return await answer(request, body)
        except _NoSession as error:
            return web.Response(status=410, text=f"{error}\n")
        except (BadRequest, msgspec.DecodeError, RecursionError) as error:
            return web.Response(status=400, text=f"{error}\n")

    return handle


def _shown(error: Exception) -> str:
    """Return an error for the answer; errors of the author's functions are also logged."""
    if isinstance(error, HoldfastError):
        return str(error)
    log.exception("an autoscaler's question cannot be answered")
    return f"{type(error).__name__}: {error}"


async def _health(request: web.Request) -> web.Response:
    status, text = page(request.path.strip("/"), {"ping": lambda: ""})
    return web.Response(status=status, text=text)


def _field(body: Mapping[str, Any], name: str) -> Any:
    """Return a field in any spelling, as Go reads it; None if it is absent."""
    return next((value for key, value in body.items() if key.lower() == name), None)


def _object(body: Mapping[str, Any], name: str, kind: type[T]) -> T:
    raw = _field(body, name)
    if not isinstance(raw, dict):
        raise BadRequest(f"{name.capitalize()}: an object is required")
    try:
        return convert_object(raw, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{name.capitalize()}: {error}") from error


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
        """Return the claims of a pod for this driver; those not created yet, as they will be.

        Raises HoldfastError if classes or parameters are missing or wrong.
        """
        try:
            entries = classic_entries(pod)
        except InvalidEntries as error:
            raise HoldfastError(f"pod {pod.name}: {error}") from error
        claims = []
        for claim in {entry.claim_name: self._claim(pod, entry) for entry in entries}.values():
            name = claim.spec.resource_class_name
            resource_class = self._classes.get(name)
            if resource_class is None:
                raise HoldfastError(f"claim {claim.name}: there is no ResourceClass {name}")
            if resource_class.driver_name != self._driver.name:
                continue
            request = ClaimParameters()
            if not claim.is_allocated:
                of_class = await self._handlers.class_parameters(resource_class)
                of_claim = await self._handlers.claim_parameters(claim, resource_class, of_class)
                request = ClaimParameters(of_claim, of_class)
            claims.append(RequestedClaim(claim, resource_class, request))
        return claims

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
