"""Read the body of a request from a connection, within a size, a time and the memory for bodies."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.web_protocol import RequestPayloadError

from holdfast.apiserver.wire.body import BODY_LIMIT, too_large
from holdfast.apiserver.wire.in_flight import RequestInFlight
from holdfast.errors import BadRequest, TimedOut


async def read_body(
    incoming: web.BaseRequest, in_flight: RequestInFlight, seconds: float, limit: int = BODY_LIMIT
) -> bytes:
    """Return the body; raises TooLarge, TimedOut, TooManyRequests or BadRequest."""
    if not incoming.can_read_body:
        return b""
    size = incoming.content_length
    if size is not None and size > limit:
        raise too_large(limit)
    compressed = "content-encoding" in incoming.headers
    in_flight.reserve_body(limit if size is None or compressed else size)
    await _continue(incoming)
    try:
        if incoming.content.is_eof():
            return await incoming.read()
        async with asyncio.timeout(seconds):
            return await incoming.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(limit) from error
    except RequestPayloadError as error:
        raise BadRequest(f"the body cannot be read: {error}") from error
    except TimeoutError as error:
        raise TimedOut(
            "Timeout: request did not complete within requested timeout - context deadline exceeded"
        ) from error


async def _continue(incoming: web.BaseRequest) -> None:
    """Send 100 Continue to a client that waits for it before sending its body."""
    expected = incoming.headers.get("expect", "")
    if not expected or incoming.version < HttpVersion11:
        return
    if expected.lower() != "100-continue":
        raise BadRequest(f'the expectation "{expected}" is not supported')
    writer: Any = incoming.writer
    await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    writer.output_size = 0  # the response has not begun
