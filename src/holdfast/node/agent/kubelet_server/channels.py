"""Exec and attach over a WebSocket: ``v5.channel.k8s.io``, one byte of channel, then data."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from holdfast.node.agent.runtime import ExecProcess
from holdfast.runtime.errors import HoldfastError, status_of

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class Channel(IntEnum):
    """Channels by their numbers on the wire."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4


_CLOSE = 255
"""The first byte of a message of v5 that closes the channel in its second byte."""


async def serve_channels(
    socket: web.WebSocketResponse, process: ExecProcess, *, stdin: bool
) -> None:
    """Connect a client with a process until the process ends or the client disconnects."""
    reading = asyncio.create_task(_read(socket, process, stdin=stdin))
    running = asyncio.create_task(_run(socket, process))
    try:
        await asyncio.wait({reading, running}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (reading, running):
            task.cancel()
        try:  # the server cancels this when the connection is lost, perhaps in these lines
            await asyncio.gather(reading, running, return_exceptions=True)
        finally:
            process.kill()
        await socket.close()


async def send_error(socket: web.WebSocketResponse, error: HoldfastError) -> None:
    """Report on the error channel why nothing was started."""
    await _send(socket, Channel.ERROR, msgspec.json.encode(status_of(error)))
    await socket.close()


async def _run(socket: web.WebSocketResponse, process: ExecProcess) -> None:
    await asyncio.gather(
        _copy(socket, process, Channel.STDOUT), _copy(socket, process, Channel.STDERR)
    )
    await _send(socket, Channel.ERROR, msgspec.json.encode(_exit_status(await process.wait())))


async def _copy(socket: web.WebSocketResponse, process: ExecProcess, channel: Channel) -> None:
    while data := await process.read(channel):
        await _send(socket, channel, data)


async def _read(socket: web.WebSocketResponse, process: ExecProcess, *, stdin: bool) -> None:
    async for message in socket:
        data = message.data
        if message.type is not WSMsgType.BINARY or not data:
            continue
        channel, payload = data[0], data[1:]
        if channel == Channel.STDIN and stdin:
            await process.write(payload)
        elif channel == _CLOSE and payload[:1] == bytes([Channel.STDIN]):
            process.close_stdin()
        elif channel == Channel.RESIZE:
            _resize(process, payload)


def _resize(process: ExecProcess, payload: bytes) -> None:
    try:
        size = msgspec.json.decode(payload, type=dict[str, int])
        columns, rows = size["Width"], size["Height"]
    except (msgspec.MsgspecError, KeyError):
        return  # a wrong size changes nothing
    if 0 < columns < 1 << 16 and 0 < rows < 1 << 16:
        process.resize(rows, columns)


async def _send(socket: web.WebSocketResponse, channel: Channel, data: bytes) -> None:
    await socket.send_bytes(bytes([channel]) + data)


def _exit_status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
