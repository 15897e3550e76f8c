"""Serve HTTPS with limits on every client: connections, headers, bodies, requests in flight.

asyncio's own server has no limit on connections, and without free file descriptors it logs a
traceback for each failed accept, a hundred at a time: 168 MB in one attack. So connections are
accepted here, within the limit of open files (decision 0009).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from holdfast.runtime.repeated_log import Repeats
from holdfast.runtime.settings import ServerLimits
from holdfast.server.user import User
from holdfast.server.wire.body import BODY_LIMIT
from holdfast.server.wire.connections import LOOPBACK, Connections, IncomingConnection
from holdfast.server.wire.http_connection import HttpConnection

_SHUTDOWN_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_BATCH = 16  # connections accepted before other tasks run
_BACKLOG = 1024
_CHECK_SECONDS = 1.0  # between two checks for overdue connections
_RETRY_SECONDS = 0.5
_TLS_SHUTDOWN_SECONDS = 2.0  # how long to wait for the peer to end TLS
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logging.getLogger(__name__)

HttpHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
UserOf = Callable[[asyncio.BaseTransport, IncomingConnection], User | None]
"""The user of a new connection, by its client certificate or its address; None: not known yet."""


class _TlsProtocol(sslproto.SSLProtocol):
    """asyncio's TLS protocol with a small buffer instead of 256 KiB per connection."""

    max_size = 32 * 1024


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def max_connections(limits: ServerLimits) -> int:
    """Return how many connections may be open; some file descriptors are reserved."""
    available = raise_descriptor_limit()
    if available == resource.RLIM_INFINITY:
        return limits.connections
    return max(8, min(limits.connections, available - limits.reserved_descriptors))


async def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind a socket to every address of a host, all with the same port (0: any free port).

    Addresses that this machine does not have are skipped, unless there is no other.
    """
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    unavailable: OSError | None = None
    for family, address in dict.fromkeys((entry[0], entry[4]) for entry in addresses):
        where = (address[0], port, *address[2:])
        try:
            bound = socket.create_server(where, family=family, backlog=_BACKLOG)
        except OSError as failure:
            if failure.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                unavailable = failure
                continue
            _close_all(sockets)
            raise
        bound.setblocking(False)
        sockets.append(bound)
        port = bound.getsockname()[1]
    if unavailable and not sockets:
        raise unavailable
    return sockets


def _close_all(sockets: list[socket.socket]) -> None:
    for bound in sockets:
        bound.close()


class Listener:
    """Accepts connections on bound sockets, and closes overdue ones, until closed."""

    def __init__(
        self,
        sockets: list[socket.socket],
        context: ssl.SSLContext,
        connections: Connections,
        limits: ServerLimits,
        make_protocol: Callable[[IncomingConnection], asyncio.Protocol],
    ) -> None:
        self._sockets = sockets
        self._context = context
        self._connections = connections
        self._limits = limits
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._repeats = Repeats()
        self._closed = False
        for bound in sockets:
            self._resume(bound)
        self._check_seconds = min(_CHECK_SECONDS, limits.header_seconds / 4)
        self._check = self._loop.call_later(self._check_seconds, self._close_overdue)

    @property
    def port(self) -> int:
        """The port of the listener."""
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop accepting; open connections stay open."""
        self._closed = True
        self._check.cancel()
        for bound in self._sockets:
            self._loop.remove_reader(bound)
        _close_all(self._sockets)

    def _resume(self, bound: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(bound, self._accept, bound)

    def _accept(self, bound: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                accepted, peer = bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                self._accept_failed(bound, failure)
                return
            accepted.setblocking(False)
            self._open(accepted, str(peer[0]))

    def _accept_failed(self, bound: socket.socket, failure: OSError) -> None:
        """Close one connection if there are no free descriptors, and retry after a pause."""
        if failure.errno in _EXHAUSTED:
            self._connections.close_one()
        self._warn(f"cannot accept connections: {failure.strerror}")
        self._loop.remove_reader(bound)
        self._loop.call_later(_RETRY_SECONDS, self._resume, bound)

    def _open(self, accepted: socket.socket, address: str) -> None:
        connection = self._connections.add(_network(address), self._loop.time())
        if connection is None:
            self._warn(
                f"all {self._connections.max_connections} connections are in use; "
                "rejecting new ones"
            )
            accepted.close()
            return
        task = self._loop.create_task(self._handshake(accepted, connection))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, accepted: socket.socket, connection: IncomingConnection) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        tls = _TlsProtocol(
            self._loop, self._make_protocol(connection), self._context, done, server_side=True,
            ssl_handshake_timeout=self._limits.handshake_seconds,  # type: ignore[arg-type]
            ssl_shutdown_timeout=_TLS_SHUTDOWN_SECONDS,
        )  # fmt: skip
        transport: asyncio.BaseTransport | None = None
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: tls, accepted)
            connection.abort = transport.abort
            if connection.closed:
                transport.abort()
            await done
        except OSError as failure:
            _log.debug("TLS handshake with %s failed: %s", connection.address, failure)
        if transport is None or transport.is_closing():
            self._connections.remove(connection)

    def _close_overdue(self) -> None:
        self._connections.close_overdue(self._loop.time())
        self._check = self._loop.call_later(self._check_seconds, self._close_overdue)

    def _warn(self, line: str) -> None:
        self._repeats.log(_log, logging.WARNING, line)


def _network(address: str) -> str:
    """Return the addresses that one client may use: an IPv4 address, or an IPv6 /64.

    >>> _network("127.0.0.1"), _network("2001:db8::1") == _network("2001:db8::2")
    ('127.0.0.1', True)
    """
    if ":" not in address or address in LOOPBACK:
        return address
    return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8].hex()


@dataclass(slots=True)
class HttpsServer:
    """A listening server, reachable at ``url``."""

    url: str
    connections: Connections
    _listener: Listener
    _server: web.Server

    async def close(self) -> None:
        """Stop listening and wait for running requests."""
        self._listener.close()
        await asyncio.sleep(0)  # start handling the requests that have arrived
        self.connections.close_idle_unauthenticated()
        self._server.pre_shutdown()
        await self._server.shutdown(_SHUTDOWN_SECONDS)
        try:
            await asyncio.wait_for(self.connections.empty.wait(), _CLOSE_SECONDS)
        except TimeoutError:
            for connection in self.connections:
                self.connections.close(connection)
            await asyncio.sleep(0)


async def listen(
    handle: HttpHandler,
    host: str,
    port: int,
    context: ssl.SSLContext,
    limits: ServerLimits,
    *,
    user_of: UserOf,
    body_limit: int = BODY_LIMIT,
) -> HttpsServer:
    """Listen on an address (port 0: any free port) and serve until closed; raises OSError."""

    def make_request(
        message: Any, payload: Any, protocol: RequestHandler, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(
            message, payload, protocol, writer, task, loop, client_max_size=body_limit
        )

    server = web.Server(handle, request_factory=make_request, handler_cancellation=True)
    connections = Connections(limits, max_connections(limits))

    def make_protocol(connection: IncomingConnection) -> HttpConnection:
        def find_user(transport: asyncio.BaseTransport) -> User | None:
            return user_of(transport, connection)

        return HttpConnection(server, connection, connections, limits, find_user)

    sockets = await bind_sockets(host, port)
    listener = Listener(sockets, context, connections, limits, make_protocol)
    url_host = f"[{host}]" if ":" in host else host
    return HttpsServer(f"https://{url_host}:{listener.port}", connections, listener, server)
