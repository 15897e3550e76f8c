"""Open a connection through an HTTP proxy with CONNECT."""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.errors import BadConfiguration

MAX_RESPONSE_BYTES = 1 << 14


async def open_tunnel(proxy: str, host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the host through the proxy."""
    proxy_url = urlsplit(proxy)
    if proxy_url.scheme != "http" or not proxy_url.hostname:
        raise BadConfiguration(
            f"proxy-url {proxy}: only http:// proxies are supported; TLS to the API server works "
            "through such a proxy"
        )
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        proxy_url.hostname, proxy_url.port or 80, type=socket.SOCK_STREAM
    )
    family, kind, protocol, _, address = found[0]
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setblocking(False)
        await loop.sock_connect(connection, address)
        await loop.sock_sendall(connection, _connect_request(proxy_url, host, port))
        await _read_connect_response(loop, connection, proxy)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_request(proxy_url: SplitResult, host: str, port: int) -> bytes:
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    connect_request = f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n"
    if proxy_url.username is not None:
        credentials = f"{unquote(proxy_url.username)}:{unquote(proxy_url.password or '')}"
        connect_request += (
            f"proxy-authorization: Basic {b64encode(credentials.encode()).decode()}\r\n"
        )
    return f"{connect_request}\r\n".encode()


async def _read_connect_response(
    loop: asyncio.AbstractEventLoop, connection: socket.socket, proxy: str
) -> None:
    """Read the proxy's response; the host sends no bytes before the first request."""
    response = b""
    while b"\r\n\r\n" not in response:
        more = await loop.sock_recv(connection, 4096)
        response += more
        if not more or len(response) > MAX_RESPONSE_BYTES:
            raise ConnectionError(f"the proxy {proxy} closed the connection")
    line = response.split(b"\r\n", 1)[0]
    if line[9:10] != b"2":
        raise ConnectionError(f"the proxy {proxy} responded {line.decode(errors='replace')}")
