"""Forward TCP ports of a pod over a WebSocket that carries SPDY frames.

The client opens two streams for a connection, of types ``error`` and ``data`` and with the same
request id. Failures to forward are reported on the error stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from holdfast.node.agent.kubelet_server.spdy_frames import (
    Frame,
    FrameReader,
    FrameType,
    FrameWriter,
)
from holdfast.runtime.errors import HoldfastError

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
MAX_CONNECTIONS = 256
"""Connections of one client at a time."""
_BLOCK = 32 * 1024
_END = b""
AddressOf = Callable[[int], tuple[str, int]]
"""Returns the address of a port of the pod; raises HoldfastError if it cannot be forwarded."""


@dataclass(slots=True)
class _Forwarding:
    """One forwarded connection."""

    error_stream: int = 0
    data_stream: int = 0
    port: str = ""
    received: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(64))
    """Data of the client in order; an empty item marks the end."""
    task: asyncio.Task[None] | None = None


class PortForwarder:
    """The streams of one client."""

    def __init__(self, socket: web.WebSocketResponse, address_of: AddressOf) -> None:
        self._socket = socket
        self._address_of = address_of
        self._reader, self._writer = FrameReader(), FrameWriter()
        self._by_request: dict[str, _Forwarding] = {}
        self._by_stream: dict[int, _Forwarding] = {}

    async def serve(self) -> None:
        """Forward until the client disconnects."""
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    for frame in self._reader.feed(message.data):
                        await self._handle(frame)
        finally:
            tasks = [f.task for f in self._by_request.values() if f.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._socket.close()

    async def _handle(self, frame: Frame) -> None:
        if frame.type is FrameType.SYN_STREAM:
            await self._open(frame)
        elif frame.type is FrameType.PING:
            await self._socket.send_bytes(self._writer.pong(frame.stream))
        elif (forwarding := self._by_stream.get(frame.stream)) is None:
            return
        elif frame.type is FrameType.RST_STREAM and forwarding.task is not None:
            forwarding.task.cancel()
        elif frame.type is FrameType.DATA and frame.stream == forwarding.data_stream:
            if frame.data:
                await forwarding.received.put(frame.data)
            if frame.last:
                await forwarding.received.put(_END)

    async def _open(self, frame: Frame) -> None:
        """Accept a stream; start forwarding when both streams of a request are there."""
        kind, request = frame.headers.get("streamtype"), frame.headers.get("requestid", "")
        known = self._by_request.get(request)
        too_many = known is None and len(self._by_request) >= MAX_CONNECTIONS
        if kind not in ("error", "data") or not request or too_many:
            await self._socket.send_bytes(self._writer.reset(frame.stream))
            return
        forwarding = known or self._by_request.setdefault(request, _Forwarding())
        if kind == "error":
            forwarding.error_stream = frame.stream
        else:
            forwarding.data_stream = frame.stream
        forwarding.port = frame.headers.get("port", "")
        self._by_stream[frame.stream] = forwarding
        await self._socket.send_bytes(self._writer.reply(frame.stream))
        if forwarding.error_stream and forwarding.data_stream and forwarding.task is None:
            forwarding.task = asyncio.create_task(self._forward(request, forwarding))

    async def _forward(self, request: str, forwarding: _Forwarding) -> None:
        problem = b""
        try:
            address = self._address_of(int(forwarding.port))
            reader, writer = await asyncio.open_connection(*address)
        except (OSError, ValueError, HoldfastError) as error:
            problem = f"error forwarding port {forwarding.port}: {error}".encode()
        else:
            try:
                await self._copy(forwarding, reader, writer)
            except OSError as error:
                problem = f"error forwarding port {forwarding.port}: {error}".encode()
            finally:
                writer.close()
        finally:
            del self._by_request[request]
            for stream in (forwarding.error_stream, forwarding.data_stream):
                self._by_stream.pop(stream, None)
            while not forwarding.received.empty():  # lets the client's next frames be read
                forwarding.received.get_nowait()
        for stream, last_data in (
            (forwarding.data_stream, b""),
            (forwarding.error_stream, problem),
        ):
            await self._socket.send_bytes(self._writer.data(stream, last_data, last=True))

    async def _copy(
        self, forwarding: _Forwarding, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Copy both directions until the pod has closed its side."""
        sending = asyncio.create_task(_send_received(forwarding, writer))
        try:
            while data := await reader.read(_BLOCK):
                await self._socket.send_bytes(self._writer.data(forwarding.data_stream, data))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def _send_received(forwarding: _Forwarding, writer: asyncio.StreamWriter) -> None:
    while data := await forwarding.received.get():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
