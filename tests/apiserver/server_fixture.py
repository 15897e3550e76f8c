"""An API server on a free port with a temporary data directory, for tests.

``start_server(directory)`` yields a ``RunningServer``; most tests use the fixture ``api``.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
from collections.abc import Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from holdfast.client.client import Client
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.runtime.settings import ServerLimits
from holdfast.server.access.credentials import (
    Credentials,
    ensure_credentials,
    write_kubeconfig,
)
from holdfast.server.api_server import ApiServer
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.https_server import serve_https
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.kinds import BUILT_IN
from holdfast.server.store import Retention, Store
from holdfast.server.store.database import WriteFault
from holdfast.server.user import ADMIN, User
from holdfast.server.wire.https_listener import HttpsServer
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from kubectl_program import QUICK, find_kubectl
from tls_client import client_context


@dataclass
class Answer:
    """A response over HTTPS."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class RunningServer:
    """A server, its HTTPS listener, and an HTTPS session as admin."""

    directory: Path
    store: Store
    server: ApiServer
    https_server: HttpsServer
    credentials: Credentials
    session: aiohttp.ClientSession

    @cached_property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, written when it is first needed: few tests run kubectl."""
        path = self.directory / "kubeconfig"
        write_kubeconfig(self.credentials, path, self.https_server.url)
        return path

    @property
    def url(self) -> str:
        return self.https_server.url

    def client(self, user: User = ADMIN) -> Client:
        """Return a typed client with the in-process transport."""
        return Client(InProcessTransport(self.server, user))

    async def call(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None,
        session: aiohttp.ClientSession | None = None, **query: str,
    ) -> Answer:  # fmt: skip
        """Send a request over HTTPS; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        sent = {"content-type": "application/json"} if data is not None else {}
        sending = io.BytesIO(data) if data and len(data) > 1_000_000 else data
        async with (session or self.session).request(
            method, self.url + path, data=sending, params=query, headers=sent | (headers or {})
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def create(self, path: str, body: Any, **query: str) -> Any:
        """Create an object, which must succeed, and return it."""
        answer = await self.call("POST", path, body, **query)
        assert answer.status == 201, answer.body
        return answer.json

    @asynccontextmanager
    async def watch(self, path: str, *, headers: dict[str, str] | None = None, **query: str):
        """Watch a collection over HTTPS; yields a OpenWatch."""
        async with self.session.get(
            self.url + path, params={"watch": "true", **query}, headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:  # fmt: skip
            yield OpenWatch(response)

    async def kubectl(self, *args: str, stdin: str = "") -> Output:
        """Run kubectl as admin."""
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            find_kubectl(), "--kubeconfig", str(self.kubeconfig), *args,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **QUICK, "HOME": str(home)},
        )  # fmt: skip
        out, err = await process.communicate(stdin.encode())
        return Output(process.returncode or 0, out.decode(), err.decode())


@dataclass
class Output:
    """The output of a command."""

    code: int
    out: str
    err: str


class OpenWatch:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self, timeout: float = 60.0) -> Any:
        """Return the next event; None at the end of the stream."""
        line = await asyncio.wait_for(self.response.content.readline(), timeout)
        return msgspec.json.decode(line) if line else None

    async def take(self, count: int) -> list[Any]:
        return [await self.next() for _ in range(count)]


@asynccontextmanager
async def start_server(
    directory: Path, *, clock: Clock | None = None, retention: Retention | None = None,
    limits: ServerLimits | None = None, fault: WriteFault | None = None,
    kinds: Iterable[KindDescriptor] = BUILT_IN, feature_gates: FeatureGates | None = None,
):  # fmt: skip
    """Run a server on a free port until the block ends; the directory can be used again."""
    clock = clock or SystemClock()
    kept = retention or Retention()
    store = Store.open(directory / "store", clock, retention=kept, fault=fault)
    # Certificates are validated with the system clock, not with the clock of the server.
    credentials = ensure_credentials(directory / "pki", SystemClock().now())
    server = ApiServer.create(
        store, clock, rng=random.Random(1), kinds=kinds, feature_gates=feature_gates
    )
    await server.start(copy_bootstrap_objects)
    https_server = await serve_https(server, "127.0.0.1", 0, credentials, limits)
    connector = aiohttp.TCPConnector(ssl=client_context(credentials), limit=0)
    session = aiohttp.ClientSession(connector=connector)
    try:
        yield RunningServer(directory, store, server, https_server, credentials, session)
    finally:
        await session.close()
        await server.stop()
        await https_server.close()
        await store.close()
