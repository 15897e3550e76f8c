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

from holdfast.certificates import KeyPair, make_authority, make_server_certificate
from holdfast.classic_dra.admission_review import answer_review
from holdfast.clock import Clock
from holdfast.errors import BadConfiguration, BadRequest, Refused
from holdfast.health_checks import page
from holdfast.metric_types import CounterMetric, Histogram, MetricCollector, exponential_buckets
from holdfast.private_files import replace_file, write_private
from holdfast.repeated_log import Repeats

PATH = "/pods"
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
SERVICE = "holdfast-webhook.kube-system.svc"
RELOAD_SECONDS = 10.0
STOP_SECONDS = 5.0
MAX_BODY_BYTES = 8 * 1024 * 1024
"""More than an API server sends: a pod of 1.5 MiB and its old version."""
_LETTERS = string.ascii_lowercase + string.digits
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where the webhook listens, and what it writes into pods."""

    host: str
    port: int
    certificates: Path
    """Directory with ``tls.crt`` and ``tls.key``."""
    scheduler_name: str = ""


def make_certificates(directory: Path, hosts: list[str], now: float) -> None:
    """Write the key and certificate of a new authority, whose own key is kept nowhere."""
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
        self._tls = _CertificateFiles(settings.certificates)
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
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        pages = [web.get(f"/{name}", self._page) for name in ("healthz", "livez", "readyz")]
        app.add_routes(
            [web.post(PATH, self._review), web.get("/metrics", self._show_metrics), *pages]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        self.url = ""

    async def start(self) -> None:
        """Listen; raises Refused if the port is taken, BadConfiguration for a certificate."""
        await self._runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=self._tls.context).start()
        except OSError as error:
            await self._runner.cleanup()
            raise Refused(
                f"cannot listen on {host}:{port} ({error.strerror}): choose another port with "
                "--port"
            ) from error
        self.url = f"https://{host}:{self._runner.addresses[0][1]}"

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then answer the reviews that have arrived."""
        reloading = asyncio.create_task(self._reload_certificates())
        try:
            await stop.wait()
        finally:
            self._stopping = True
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
            await self._runner.cleanup()

    async def _reload_certificates(self) -> None:
        while True:
            await self._clock.sleep(RELOAD_SECONDS)
            try:
                if self._tls.reload():
                    log.info("the certificate in %s was replaced", self._settings.certificates)
            except BadConfiguration as error:
                line = f"{error}; the previous certificate stays in use"
                self._repeats.log(log, logging.WARNING, line)

    async def _review(self, request: web.Request) -> web.Response:
        started = self._clock.monotonic()
        body = await request.read()
        try:
            result, answer = answer_review(body, _random_name, self._settings.scheduler_name)
        except BadRequest as error:
            self._reviews.add("malformed")
            return web.Response(status=400, text=f"{error}\n")
        self._reviews.add(result)
        self._seconds.observe(self._clock.monotonic() - started)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        body = generate_latest(self._metrics)
        return web.Response(body=body, content_type="text/plain", charset="utf-8")

    async def _page(self, request: web.Request) -> web.Response:
        name = request.path.strip("/")
        checks = {"ping": lambda: ""}
        if name == "readyz":
            checks["shutdown"] = lambda: "process is shutting down" if self._stopping else ""
        status, text = page(name, checks, verbose="verbose" in request.query)
        return web.Response(status=status, text=text)


class _CertificateFiles:
    """The TLS settings of a certificate that may be replaced while it is used."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read = self._contents()
        self.context = self._load()

    def reload(self) -> bool:
        """Use the files if they have changed; raises BadConfiguration and keeps the old ones."""
        found = self._contents()
        if found == self._read:
            return False
        self._load()  # a new context: a wrong pair must not end up in the one in use
        self._load(self.context)
        self._read = found
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
        try:
            context.load_cert_chain(self._directory / CERTIFICATE, self._directory / KEY)
        except (OSError, ValueError) as error:
            raise self._wrong(error) from error
        return context

    def _wrong(self, error: Exception) -> BadConfiguration:
        return BadConfiguration(
            f"{CERTIFICATE} and {KEY} in {self._directory} cannot be used ({error}): choose "
            "another directory with --cert-dir, or write them with --make-certificates"
        )


def _random_name(entry: str) -> str:
    """Return a name for a shadow: the pod has no name yet if it is to be generated."""
    return f"{entry}-{''.join(secrets.choice(_LETTERS) for _ in range(10))}"
