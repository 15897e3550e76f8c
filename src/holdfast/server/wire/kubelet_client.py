"""Connect to the HTTPS servers of nodes, for logs, exec, attach and port-forward."""
# ruff: noqa: PLC0415 - most servers never connect to a node

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

from holdfast.api.node_names import ERROR_HEADER, MESSAGE_BYTES
from holdfast.runtime.errors import HoldfastError, Unavailable, from_status

if TYPE_CHECKING:
    import aiohttp

_CONNECT_SECONDS = 10.0
Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class KubeletEndpoint:
    """The address of a node's HTTPS server.

    ``certificate`` must have signed the certificate of the server; "" accepts any, as
    kube-apiserver does.
    """

    node: str
    host: str
    port: int
    certificate: str = ""

    def url(self, path: Sequence[str], query: Query) -> str:
        """Return the URL of a path, given by its parts."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        parts = "/".join(quote(part, safe="") for part in path)
        return f"https://{host}:{self.port}/{parts}?{urlencode(list(query))}"


class KubeletClient:
    """Connects to nodes with the client certificate of the API server.

    ``credentials`` returns its certificate and key; it is called for the first connection.
    """

    def __init__(self, credentials: Callable[[], tuple[Path, Path]]) -> None:
        self._credentials = cache(credentials)
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, endpoint: KubeletEndpoint, path: Sequence[str], query: Query
    ) -> aiohttp.ClientResponse:
        """Send a GET; raise the node's error. The caller closes the response."""
        session = self._opened_session()
        try:
            response = await session.get(
                endpoint.url(path, query), ssl=self._context(endpoint.certificate)
            )
        except OSError as error:
            raise _unreachable(endpoint, error) from error
        if response.status == 200:
            return response
        async with response:
            raise _error(response.status, await response.text(errors="replace"))

    async def open_web_socket(
        self, endpoint: KubeletEndpoint, path: Sequence[str], query: Query, protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket with one of the subprotocols; raise the node's error."""
        import aiohttp

        session = self._opened_session()
        try:
            return await session.ws_connect(
                endpoint.url(path, query),
                protocols=protocols,
                ssl=self._context(endpoint.certificate),
                max_msg_size=MESSAGE_BYTES,
                compress=0,
            )
        except aiohttp.WSServerHandshakeError as refused:
            # aiohttp keeps the headers of a refused upgrade, not its text.
            text = refused.headers.get(ERROR_HEADER, "") if refused.headers else ""
            raise _error(refused.status, unquote(text)) from refused
        except OSError as error:
            raise _unreachable(endpoint, error) from error

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened_session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS)
            # Every exec has a separate connection, which is not kept for the next.
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self._session

    def _context(self, certificate: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._credentials())
        if not certificate:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            context.load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError) as wrong:
            raise Unavailable(f"the certificate that the node reports is wrong: {wrong}") from wrong
        return context


async def pieces(response: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """Yield the body of a response as it comes."""
    async for piece in response.content.iter_any():
        yield [piece]


def _unreachable(endpoint: KubeletEndpoint, error: OSError) -> Unavailable:
    return Unavailable(
        f'the agent of node "{endpoint.node}" at {endpoint.host}:{endpoint.port} cannot be '
        f"reached: {error}"
    )


def _error(status: int, text: str) -> HoldfastError:
    body: dict[str, Any] = {"message": text.strip()} if text.strip() else {}
    return from_status(status, body)
