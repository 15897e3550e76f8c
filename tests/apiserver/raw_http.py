"""A client that sends raw bytes to a server that may close the connection at any time."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tls_client import client_context

GUARD_SECONDS = 30.0
"""Timeout of every read; longer than any test needs."""


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str):
        self.reader, self.writer, self.host = reader, writer, host

    async def send(self, text: str | bytes) -> None:
        """Send bytes, or text with HOST replaced and CRLF line ends; U+DCFF is sent as byte FF."""
        if isinstance(text, str):
            text = text.replace("HOST", self.host).replace("\n", "\r\n")
            text = text.encode(errors="surrogateescape")
        self.writer.write(text)
        await self.writer.drain()

    async def head(self) -> str:
        """Read the header of a response; empty if the connection is closed before."""
        async with asyncio.timeout(GUARD_SECONDS):
            try:
                return (await self.reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
                return ""

    async def status(self) -> int:
        """Read the status of a response; 0 if the connection is closed before."""
        head = await self.head()
        return int(head.split()[1]) if head else 0

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        async with asyncio.timeout(GUARD_SECONDS):
            try:
                return await self.reader.read()
            except (ConnectionError, ssl.SSLError):
                return b""


@asynccontextmanager
async def connect(api, *, tls: bool = True, admin: bool = False):
    """Open a connection to a test server; without a client certificate unless ``admin``."""
    where = urlsplit(api.url)
    context = client_context(api.credentials, certificate=admin) if tls else None
    reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=context)
    try:
        yield RawClient(reader, writer, where.netloc)
    finally:
        writer.transport.abort()


async def ask(api, text, **options):
    """Send one request on a new connection and return the status."""
    async with connect(api, **options) as client:
        await client.send(text)
        return await client.status()
