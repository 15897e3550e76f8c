"""One HTTP extender: a question goes out, an answer comes back or it has failed."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast.client.endpoint import Endpoint, Timeouts
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request, Response
from holdfast.clock import Clock
from holdfast.errors import BadConfiguration, Unavailable
from holdfast.framework.extender import ExtenderConfig, ExtenderFailed, ExtenderTLS

T = TypeVar("T")
NEVER = 3600.0
"""The clock tells when an answer is too late; the connection itself need not."""
_HEADERS = {"content-type": "application/json", "accept": "application/json"}


class HttpExtender:
    """Asks one extender; whatever goes wrong is ExtenderFailed."""

    def __init__(self, config: ExtenderConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._url = config.url_prefix.rstrip("/")
        self._transport = HttpTransport(_endpoint(config), timeouts=Timeouts(NEVER, NEVER))
        self._timeout = config.http_timeout

    async def ask(
        self,
        verb: str,
        question: Any,
        read: Callable[[Any], T],
        permit: Callable[[], None] | None = None,
    ) -> T:
        """POST a question and read the answer; ``permit`` is asked when it is about to leave."""
        body = msgspec.json.encode(question)
        request = Request("POST", f"/{verb}", {}, _HEADERS, body, permit)
        try:
            answer = await self._in_time(request, verb)
        except Unavailable as failure:
            raise ExtenderFailed(f'Post "{self._url}/{verb}": {failure}') from failure
        if answer.status != 200:
            raise ExtenderFailed(
                f"failed {verb} with extender at URL {self._url}/{verb}, code {answer.status}"
            )
        try:
            return read(msgspec.json.decode(answer.body))
        except (msgspec.DecodeError, AttributeError, LookupError, TypeError, ValueError) as odd:
            raise ExtenderFailed(
                f"the answer of {self._url}/{verb} cannot be read: {odd or repr(odd)}"
            ) from odd

    async def close(self) -> None:
        """Hang up."""
        await self._transport.close()

    async def _in_time(self, request: Request, verb: str) -> Response:
        answer = asyncio.create_task(self._transport.send(request))
        timer = asyncio.create_task(self._clock.sleep(self._timeout))
        try:
            await asyncio.wait({answer, timer}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise ExtenderFailed(
                f'Post "{self._url}/{verb}": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)"
            )
        finally:
            timer.cancel()
            answer.cancel()


def _endpoint(config: ExtenderConfig) -> Endpoint:
    tls = config.tls_config or ExtenderTLS()
    url = config.url_prefix
    if not url.startswith("https:"):
        return Endpoint(url)
    return Endpoint(url, server_name=tls.server_name, ssl_context=_tls(config, tls))


def _tls(config: ExtenderConfig, tls: ExtenderTLS) -> ssl.SSLContext:
    """Make the TLS context; asked for HTTPS without an authority we believe anybody."""
    trusted = bool(tls.ca_file or tls.ca_data)
    if trusted and tls.insecure:
        raise BadConfiguration(
            f"extenders: {config.url_prefix}: specifying a root certificates file with the "
            "insecure flag is not allowed"
        )
    try:
        context = ssl.create_default_context(
            cafile=tls.ca_file if tls.ca_file and not tls.ca_data else None,
            cadata=tls.ca_data.decode() or None,
        )
        _identify(context, tls)
    except (OSError, ssl.SSLError, UnicodeDecodeError) as wrong:
        raise BadConfiguration(
            f"extenders: {config.url_prefix}: tlsConfig: the certificates cannot be used: {wrong}"
        ) from wrong
    # As for API servers: Go accepts certificates that Python 3.13's strict mode does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.insecure or (config.enable_https and not trusted):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _identify(context: ssl.SSLContext, tls: ExtenderTLS) -> None:
    """Show who we are; Python reads certificates from files only."""
    cert, key = (
        data or (Path(file).read_bytes() if file else b"")
        for data, file in ((tls.cert_data, tls.cert_file), (tls.key_data, tls.key_file))
    )
    if not cert:
        return
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cert + b"\n" + key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
