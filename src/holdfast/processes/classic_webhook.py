"""The process of ``holdfast webhook``: an HTTPS server that answers AdmissionReviews."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import string
from dataclasses import dataclass
from pathlib import Path

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from holdfast.runtime.certificates import KeyPair, make_authority, make_server_certificate
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import (
    BadConfiguration,
    BadRequest,
    HoldfastError,
    NotFound,
    Refused,
    Unauthorized,
)
from holdfast.runtime.health_checks import page
from holdfast.runtime.metric_types import (
    CounterMetric,
    Histogram,
    MetricCollector,
    exponential_buckets,
)
from holdfast.runtime.private_files import replace_file, write_private
from holdfast.runtime.repeated_log import Repeats
from holdfast.runtime.settings import ServerLimits
from holdfast.server.user import User
from holdfast.server.wire.connections import IncomingConnection
from holdfast.server.wire.http_connection import HttpConnection, read_body
from holdfast.server.wire.https_listener import HttpsServer, listen
from holdfast.server.wire.in_flight import InFlightLimits, too_many
from holdfast.server.wire.responses import error_response
from holdfast.state.classic_dra.admission_review import answer_review

PATH, PAGES = "/pods", ("healthz", "livez", "readyz")
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
SERVICE = "holdfast-webhook.kube-system.svc"
RELOAD_SECONDS = 10.0
MAX_BODY_BYTES = 8 * 1024 * 1024
"""More than an API server sends: a pod of 1.5 MiB and its old version."""
LIMITS = ServerLimits(
    body_seconds=10.0,
    connections=1024,
    unauthenticated_connections=512,
    other_requests=200,
    user_requests=50,
    other_body_bytes=64 * 1024 * 1024,
    user_body_bytes=4 * MAX_BODY_BYTES,
)
"""Limits for all callers and for each remote address; an API server waits 5 s for an answer."""
_LETTERS = string.ascii_lowercase + string.digits
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The address of the webhook, and the values it writes into pods."""

    host: str
    port: int
    certificates: Path
    """Directory with ``tls.crt`` and ``tls.key``."""
    scheduler_name: str = ""
    client_authority: Path | None = None
    """File of the CAs that sign the certificates of callers; None: callers need no certificate."""


def make_certificates(directory: Path, hosts: list[str], now: float) -> None:
    """Write a key and a certificate of a new CA; the CA's key is not stored."""
    authority = make_authority("holdfast-webhook", now)
    server: KeyPair = make_server_certificate(authority, hosts, now)
    try:
        write_private(directory / KEY, server.key)
        replace_file(directory / CERTIFICATE, server.certificate, 0o644)
        replace_file(directory / AUTHORITY, authority.certificate, 0o644)
    except OSError as error:
        raise BadConfiguration(f"cannot write into {directory}: {error}") from error


class WebhookProcess:
    """Serves reviews at ``/pods``, health pages and metrics, all on one port."""

    def __init__(self, settings: WebhookSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._tls = _CertificateFiles(settings.certificates, settings.client_authority)
        self._stopping = False
        self._repeats = Repeats(now=clock.monotonic)
        self._reviews = CounterMetric(
            "holdfast_webhook_reviews_total", "Reviews of pods by result.", ("result",)
        )
        self._seconds = Histogram(
            "holdfast_webhook_review_duration_seconds",
            "Time to answer a review, in seconds.",
            exponential_buckets(0.0001, 4, 8),
        )
        self._metrics = CollectorRegistry(auto_describe=False)
        self._metrics.register(MetricCollector(self._reviews, self._seconds))
        self._in_flight = InFlightLimits(LIMITS)
        self._server: HttpsServer | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen; raises Refused if the port is taken, BadConfiguration for a certificate."""
        host, port = self._settings.host, self._settings.port
        try:
            self._server = await listen(
                self._answer, host, port, self._tls.context, LIMITS,
                user_of=_caller, body_limit=MAX_BODY_BYTES,
            )  # fmt: skip
        except OSError as error:
            raise Refused(
                f"cannot listen on {host}:{port} ({error.strerror}): choose another port with "
                "--port"
            ) from error
        self.url = self._server.url

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then answer the reviews that have arrived."""
        reloading = asyncio.create_task(self._reload_certificates())
        try:
            await stop.wait()
        finally:
            self._stopping = True
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
            if self._server is not None:
                await self._server.close()

    async def _reload_certificates(self) -> None:
        while True:
            await self._clock.sleep(RELOAD_SECONDS)
            try:
                if self._tls.reload():
                    log.info("the certificate in %s was replaced", self._settings.certificates)
            except BadConfiguration as error:
                line = f"{error}; the previous certificate stays in use"
                self._repeats.log(log, logging.WARNING, line)

    async def _answer(self, incoming: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; health pages and metrics do not count against the limits."""
        connection = incoming.protocol
        assert isinstance(connection, HttpConnection)
        with connection.handling(incoming):
            try:
                return await self._route(incoming, connection)
            except HoldfastError as error:
                refusal = error_response(error)
                response = web.Response(
                    status=refusal.status, headers=dict(refusal.headers), body=refusal.body
                )
                if not incoming.content.is_eof():
                    response.force_close()  # the rest of the body is not read
                return response

    async def _route(
        self, incoming: web.BaseRequest, connection: HttpConnection
    ) -> web.StreamResponse:
        name, reads = incoming.path.strip("/"), incoming.method in ("GET", "HEAD")
        if incoming.path == PATH and incoming.method == "POST":
            return await self._review(incoming, connection)
        if name in PAGES and reads:
            return self._page(name, verbose="verbose" in incoming.rel_url.query)
        if name == "metrics" and reads:
            return _text(200, generate_latest(self._metrics))
        raise NotFound(f"there is no {incoming.method} {incoming.path}")

    async def _review(
        self, incoming: web.BaseRequest, connection: HttpConnection
    ) -> web.StreamResponse:
        started = self._clock.monotonic()
        if self._settings.client_authority is not None and not _has_certificate(incoming):
            raise Unauthorized(
                "a client certificate of the authority in --client-ca-file is needed"
            )
        if connection.over_limit:
            raise too_many()
        in_flight = self._in_flight.acquire(connection.user)
        try:
            body = await read_body(incoming, in_flight, LIMITS.body_seconds, MAX_BODY_BYTES)
            result, answer = answer_review(body, _random_name, self._settings.scheduler_name)
        except BadRequest as error:
            self._reviews.add("malformed")
            line = f"a review cannot be read: {str(error)[:200]!r}"
            self._repeats.log(log, logging.WARNING, line, same="malformed")
            raise
        finally:
            in_flight.release()
        self._reviews.add(result)
        self._seconds.observe(self._clock.monotonic() - started)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _page(self, name: str, *, verbose: bool) -> web.Response:
        checks = {"ping": lambda: ""}
        if name == "readyz":
            checks["shutdown"] = lambda: "process is shutting down" if self._stopping else ""
        status, text = page(name, checks, verbose=verbose)
        return _text(status, text.encode())


class _CertificateFiles:
    """The TLS settings of a certificate that may be replaced while it is used."""

    def __init__(self, directory: Path, client_authority: Path | None) -> None:
        self._directory = directory
        self._client_authority = client_authority
        self._read = self._contents()
        self.context = self._load()

    def reload(self) -> bool:
        """Use the files if they have changed; raises BadConfiguration and keeps the old ones."""
        contents = self._contents()
        if contents == self._read:
            return False
        self._load()  # a new context: a wrong pair must not change the one in use
        self._load(self.context)
        self._read = contents
        return True

    def _contents(self) -> tuple[bytes, bytes]:
        try:
            certificate = (self._directory / CERTIFICATE).read_bytes()
            return certificate, (self._directory / KEY).read_bytes()
        except OSError as error:
            raise self._wrong(error) from error

    def _load(self, context: ssl.SSLContext | None = None) -> ssl.SSLContext:
        if context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.options |= ssl.OP_NO_RENEGOTIATION
            self._trust_clients(context)
        try:
            context.load_cert_chain(self._directory / CERTIFICATE, self._directory / KEY)
        except (OSError, ValueError) as error:
            raise self._wrong(error) from error
        return context

    def _trust_clients(self, context: ssl.SSLContext) -> None:
        """Verify client certificates; a kubelet's probe has none."""
        if self._client_authority is None:
            return
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(self._client_authority)
        except (OSError, ValueError) as error:
            raise BadConfiguration(
                f"{self._client_authority} has no certificates ({error}): give --client-ca-file a "
                "file of PEM certificates"
            ) from error

    def _wrong(self, error: Exception) -> BadConfiguration:
        return BadConfiguration(
            f"{CERTIFICATE} and {KEY} in {self._directory} cannot be used ({error}): choose "
            "another directory with --cert-dir, or write them with --make-certificates"
        )


def _caller(_transport: asyncio.BaseTransport, connection: IncomingConnection) -> User:
    """Return the user that a connection counts for: limits are by remote address."""
    return User(f"address:{connection.address}")


def _has_certificate(incoming: web.BaseRequest) -> bool:
    transport = incoming.transport
    return transport is not None and bool(transport.get_extra_info("peercert"))


def _text(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="text/plain", charset="utf-8")


def _random_name(entry: str) -> str:
    """Return a random name for a shadow: a pod with generateName has no name yet."""
    return f"{entry}-{''.join(secrets.choice(_LETTERS) for _ in range(10))}"
