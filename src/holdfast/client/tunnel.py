"""A way through an HTTP proxy: after CONNECT the connection is as good as a direct one."""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.errors import BadConfiguration

LONGEST_ANSWER = 1 << 14


async def dig(proxy: str, host: str, port: int) -> socket.socket:
    """Connect to a proxy and have it connect to the host; the socket then leads there."""
    where = urlsplit(proxy)
    if where.scheme != "http" or not where.hostname:
        raise BadConfiguration(
            f"proxy-url {proxy}: only http:// proxies are understood; the API server itself is "
            "still spoken to in TLS through such a one"
        )
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(where.hostname, where.port or 80, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = found[0]
    way = socket.socket(family, kind, protocol)
    try:
        way.setblocking(False)
        await loop.sock_connect(way, address)
        await loop.sock_sendall(way, _wish(where, host, port))
        await _granted(loop, way, proxy)
    except BaseException:
        way.close()
        raise
    return way


def _wish(where: SplitResult, host: str, port: int) -> bytes:
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    wish = f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n"
    if where.username is not None:
        known = f"{unquote(where.username)}:{unquote(where.password or '')}"
        wish += f"proxy-authorization: Basic {b64encode(known.encode()).decode()}\r\n"
    return f"{wish}\r\n".encode()


async def _granted(loop: asyncio.AbstractEventLoop, way: socket.socket, proxy: str) -> None:
    """Read the proxy's answer. Behind it the host says nothing until it is spoken to."""
    said = b""
    while b"\r\n\r\n" not in said:
        more = await loop.sock_recv(way, 4096)
        said += more
        if not more or len(said) > LONGEST_ANSWER:
            raise ConnectionError(f"the proxy {proxy} hung up")
    line = said.split(b"\r\n", 1)[0]
    if line[9:10] != b"2":
        raise ConnectionError(f"the proxy {proxy} said {line.decode(errors='replace')}")
