"""The HTTPS server of a node, for the API server only.

It listens on loopback and accepts a client certificate of the cluster's authority: that of the API
server, or of a member of system:masters.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from holdfast.api.node_names import (
    API_SERVER_USER,
    ERROR_HEADER,
    MESSAGE_BYTES,
    PING_SECONDS,
)
from holdfast.node.agent.kubelet_server import channels, port_forward
from holdfast.node.agent.kubelet_server.container_logs import LogOptions, read_log
from holdfast.node.agent.kubelet_server.node_containers import ContainerName, NodeContainers
from holdfast.node.agent.runtime import ExecProcess
from holdfast.runtime.certificates import make_authority, make_server_certificate
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadRequest, HoldfastError
from holdfast.runtime.private_files import write_private

HOST = "127.0.0.1"
_MASTERS = "system:masters"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


class KubeletServer:
    """Serves logs, exec, attach and port-forward of one node."""

    def __init__(self, containers: NodeContainers, clock: Clock) -> None:
        self._containers = containers
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, directory: Path, client_authority: Path) -> str:
        """Listen on a free port, which is then ``port``; return the certificate to trust.

        A new authority signs the server's certificate, and its key is not kept: the API server
        trusts the server only because of the Node object.
        """
        now = self._clock.now()
        authority = make_authority("holdfast-node", now)
        pair = make_server_certificate(authority, (HOST,), now)
        certificate, key = directory / "kubelet.crt", directory / "kubelet.key"
        write_private(certificate, pair.certificate)
        write_private(key, pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(client_authority)
        app = web.Application(middlewares=[_check_client, _errors_as_text])
        pod = "/{namespace}/{pod}"
        app.add_routes(
            [
                web.get("/healthz", _healthz),
                web.get(f"/containerLogs{pod}/{{container}}", self._logs),
                web.get(f"/exec{pod}/{{container}}", self._exec),
                web.get(f"/attach{pod}/{{container}}", self._attach),
                web.get(f"/portForward{pod}", self._port_forward),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]
        return authority.certificate.decode()

    async def stop(self) -> None:
        """Close the connections and stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        options = LogOptions.parse(request.query, self._clock.now())
        previous = request.query.get("previous") == "true"
        log_file = self._containers.log_file(_container(request), previous=previous)
        response = web.StreamResponse(headers={"content-type": "text/plain; charset=utf-8"})
        await response.prepare(request)
        with suppress(ConnectionError):
            async for piece in read_log(log_file, options, self._clock):
                await response.write(piece)
            await response.write_eof()
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        _check_upgrade(request, *channels.PROTOCOLS)
        command = request.query.getall("command", [])
        if not command:
            raise BadRequest("you must specify at least 1 command for the container")
        stdin, tty = _flag(request, "stdin"), _flag(request, "tty")
        return await self._serve_process(
            request, self._containers.exec(_container(request), command, stdin=stdin, tty=tty)
        )

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        _check_upgrade(request, *channels.PROTOCOLS)
        return await self._serve_process(
            request, self._containers.attach(_container(request), stdin=_flag(request, "stdin"))
        )

    async def _serve_process(
        self, request: web.Request, starting: Awaitable[ExecProcess]
    ) -> web.StreamResponse:
        socket = _socket(*channels.PROTOCOLS)
        await socket.prepare(request)
        start = asyncio.ensure_future(starting)
        try:
            process = await asyncio.shield(start)
        except asyncio.CancelledError:  # the client disconnected before the command was started
            start.add_done_callback(_kill_started)
            raise
        except HoldfastError as error:  # kubectl shows no error of a refused upgrade
            await channels.send_error(socket, error)
        else:
            await channels.serve_channels(socket, process, stdin=_flag(request, "stdin"))
        return socket

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        _check_upgrade(request, port_forward.PROTOCOL)
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        socket = _socket(port_forward.PROTOCOL)
        await socket.prepare(request)

        def address_of(port: int) -> tuple[str, int]:
            return self._containers.forwarded_address(namespace, pod, port)

        try:
            await port_forward.PortForwarder(socket, address_of).serve()
        except HoldfastError as error:
            log.info("a port-forward of pod %s/%s ended: %s", namespace, pod, error)
        return socket


@web.middleware
async def _check_client(request: web.Request, handler: _Handler) -> web.StreamResponse:
    peer: dict[str, Any] | None = request.get_extra_info("peercert")
    subject = [pair for part in (peer or {}).get("subject", ()) for pair in part]
    if ("commonName", API_SERVER_USER) not in subject and (
        "organizationName",
        _MASTERS,
    ) not in subject:
        return web.Response(status=403, text="only the API server may use this port\n")
    return await handler(request)


@web.middleware
async def _errors_as_text(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except HoldfastError as error:
        headers = {ERROR_HEADER: quote(str(error))}
        return web.Response(status=error.code, text=str(error), headers=headers)


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _check_upgrade(request: web.Request, *protocols: str) -> None:
    """Raise BadRequest for a request that is not a WebSocket's, before anything is started."""
    ready = _socket(*protocols).can_prepare(request)
    if not ready.ok:
        raise BadRequest("Upgrade request required")
    if ready.protocol is None:
        raise BadRequest(f"the WebSocket needs one of the subprotocols {', '.join(protocols)}")


def _socket(*protocols: str) -> web.WebSocketResponse:
    return web.WebSocketResponse(
        protocols=protocols, compress=False, max_msg_size=MESSAGE_BYTES, heartbeat=PING_SECONDS
    )


def _kill_started(start: asyncio.Future[ExecProcess]) -> None:
    if not start.cancelled() and start.exception() is None:
        start.result().kill()


def _container(request: web.Request) -> ContainerName:
    part = request.match_info
    return ContainerName(part["namespace"], part["pod"], part["container"])


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name) == "true"
