"""Serve HTTPS with limits on every client: connections, headers, bodies, requests in flight."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from holdfast.apiserver.user import User
from holdfast.apiserver.wire.body import BODY_LIMIT
from holdfast.apiserver.wire.connections import Connections, IncomingConnection
from holdfast.apiserver.wire.http_connection import HttpConnection
from holdfast.apiserver.wire.listener import Listener, bind_sockets, max_connections
from holdfast.settings import ServerLimits

_SHUTDOWN_SECONDS = 5.0
_CLOSE_SECONDS = 1.0

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
UserOf = Callable[[asyncio.BaseTransport, IncomingConnection], User | None]
"""The user of a new connection, by its client certificate or its address; None: not known yet."""


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
    handle: Handle,
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
