"""The cluster that requests are sent to: it runs in this process with a virtual clock."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from yarl import URL

from fuzz.fuzzer import Probe
from fuzz.kinds import AGGREGATED, Kind, Schemas, read_discovery
from holdfast.client.client import Client
from holdfast.client.transport import Request, Response, Stream, Transport
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import HoldfastError
from holdfast.scheduling.engine.invariants import invariant_violations
from holdfast.server.access.credentials import ensure_credentials
from holdfast.server.api_server import ApiServer
from holdfast.server.https_server import serve_https
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store.store import Store
from holdfast.server.user import ADMIN
from holdfast.server.wire.https_listener import HttpsServer
from holdfast.server.wire.responses import StreamResponse
from holdfast.testing import builders as build
from holdfast.testing import device_builders as devices
from holdfast.testing import storage_builders as storage
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from holdfast.testing.harness import Harness
from holdfast.testing.loop_writer import LoopWriter
from tls_client import client_context

_WATCH_TURNS = 12
HANG_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Sender(Protocol):
    """Sends requests."""

    async def send(self, probe: Probe) -> Answer: ...


class _UnexpectedErrors(logging.Handler):
    """Collects log records with a traceback: unexpected errors of a component or the server.

    Errors of our own classes, such as for an object that a controller cannot use, are expected.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._of_server: list[str] = []
        self.of_components: list[str] = []
        self.refused = 0

    def take(self, beginning: str) -> str:
        """Return the traceback of a record that begins with a text."""
        found = next((text for text in self._of_server if text.startswith(beginning)), "")
        if found:
            self._of_server.remove(found)
        return found

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        if isinstance(error, HoldfastError):
            self.refused += 1
        elif record.name == "holdfast.server.api_server":
            self._of_server.append(self.format(record))
        else:
            self.of_components.append(self.format(record))


class _RecordingTransport:
    """A transport that remembers the latest requests of the components."""

    def __init__(self, inner: Transport, last: deque[str]) -> None:
        self._inner = inner
        self._last = last

    async def send(self, request: Request) -> Response:
        self._last.append(f"{request.method} {request.path}")
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class Target(Harness):
    """A cluster with two nodes and a few objects for references."""

    def __init__(self, directory: Path, seed: int = 0) -> None:
        self._last: deque[str] = deque(maxlen=5_000)
        wrap = lambda transport, _clock: _RecordingTransport(transport, self._last)  # noqa: E731
        super().__init__(directory / "store", seed=seed, wrap=wrap)
        self.root = directory
        self.logged = _UnexpectedErrors()

    async def __aenter__(self) -> Target:
        logging.getLogger("holdfast").addHandler(self.logged)
        await super().__aenter__()
        await self.create(*_first_objects())
        return self

    async def __aexit__(self, *end: Any) -> None:
        logging.getLogger("holdfast").removeHandler(self.logged)
        await super().__aexit__(*end)

    def busy_with(self) -> str:
        """Return the most frequent recent requests of components."""
        return f"{Counter(self._last).most_common(8)}"

    def _check(self) -> None:
        """Check the invariants, except those that clients may break.

        Clients may bind pods, change nodes and allocate devices. The scheduler also checks each
        of its own placements.
        """
        broken = [
            words for words in invariant_violations(self.world, ours=()) if words[:3] != "I3:"
        ]
        assert not broken, "; ".join(broken)

    async def _start_server(self) -> None:
        self.store = Store.open(self._directory, self.clock, writer=LoopWriter)
        self.server = ApiServer.create(self.store, self.clock, rng=random.Random(self._seed))
        await self.server.start(copy_bootstrap_objects)
        self.client = Client(InProcessTransport(self.server), "test")

    async def restart_server(self, while_down: Callable[[], None] = lambda: None) -> None:
        """Close the store and open it again, while no component runs."""
        await self._stop_server()
        while_down()
        await self._start_server()

    async def send(self, probe: Probe) -> Answer:
        """Send a request in process; of a watch, return the events that are available at once."""
        headers = {"accept": "application/json"} | probe.headers
        request = Request(probe.method, probe.path, probe.query, headers, probe.body)
        answer = await self.server.handle(request, ADMIN)
        if isinstance(answer, StreamResponse):
            return Answer(answer.status, dict(answer.headers), await _first_events(answer))
        return Answer(answer.status, dict(answer.headers), answer.body)

    async def get(self, path: str, accept: str = "application/json", **query: str) -> Answer:
        return await self.send(Probe("GET", path, query, {"accept": accept}))

    async def read_kinds(self) -> tuple[list[Kind], Schemas]:
        """Return the served kinds and their schemas."""
        documents = [(await self.get(path, AGGREGATED)).body for path in ("/api", "/apis")]
        kinds = read_discovery(*documents)
        return kinds, await _schemas(self, kinds)


async def _schemas(target: Target, kinds: list[Kind]) -> Schemas:
    schemas = Schemas()
    for version in dict.fromkeys((kind.group, kind.version) for kind in kinds):
        if version not in _documents:
            where = f"apis/{version[0]}/{version[1]}" if version[0] else f"api/{version[1]}"
            body = (await target.get(f"/openapi/v3/{where}")).body
            _documents[version] = msgspec.json.decode(body)
        schemas.add(_documents[version])
    return schemas


_documents: dict[tuple[str, str], Any] = {}
"""Cached between clusters, because built-in kinds do not change."""


async def _first_events(answer: StreamResponse) -> bytes:
    """Read a stream until no more data is available, then close it."""
    lines: list[bytes] = []

    async def read() -> None:
        async for batch in answer.batches:
            lines.extend(batch)

    reading = asyncio.create_task(read())
    for _ in range(_WATCH_TURNS):
        await asyncio.sleep(0)
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    await answer.close()
    return b"".join(lines)


class HttpsTarget:
    """The same server over HTTPS."""

    def __init__(
        self, front: HttpsServer, session: aiohttp.ClientSession, context: ssl.SSLContext
    ) -> None:
        self._front = front
        self._session = session
        self.context = context

    @classmethod
    async def open(cls, target: Target) -> HttpsTarget:
        credentials = ensure_credentials(target.root / "pki", SystemClock().now())
        front = await serve_https(target.server, "127.0.0.1", 0, credentials)
        context = client_context(credentials)
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        timeout = aiohttp.ClientTimeout(total=HANG_SECONDS)
        session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=True, max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )  # fmt: skip
        return cls(front, session, context)

    @property
    def url(self) -> str:
        return self._front.url

    async def send(self, probe: Probe) -> Answer:
        path = quote(probe.path, safe="/")
        query = urlencode(probe.query)
        url = URL(f"{self.url}{path}{'?' + query if query else ''}", encoded=True)
        async with self._session.request(
            probe.method, url, data=probe.body or None, headers=probe.headers,
            skip_auto_headers=("content-type",),
        ) as response:  # fmt: skip
            body = await _until_quiet(response) if probe.watches else await response.read()
            return Answer(response.status, dict(response.headers), body)

    async def close(self) -> None:
        await self._session.close()
        await self._front.close()


async def _until_quiet(response: aiohttp.ClientResponse) -> bytes:
    """Return the first events of a watch, which ends only when the virtual clock advances."""
    try:
        return await asyncio.wait_for(response.content.readany(), 0.02)
    except TimeoutError:
        return b""


def _first_objects() -> list[dict[str, Any]]:
    return [
        build.a_namespace("one"), build.a_namespace("two"),
        build.a_node("n1", labels={"zone": "a"}), build.a_node("n2", labels={"zone": "b"}),
        build.a_priority_class("high", 1000), storage.a_storage_class("wait"),
        devices.a_device_class("gpu"), devices.a_slice("n1-gpu", node="n1", devices=2),
    ]  # fmt: skip
