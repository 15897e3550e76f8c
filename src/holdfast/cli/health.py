"""HTTP pages of a process on loopback: health checks, metrics, configuration."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar

from aiohttp import web

from holdfast.api.timestamps import rfc3339
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Refused
from holdfast.runtime.health_checks import HealthCheck, page, single

EMULATED_VERSION = "v1.36"
HealthChecks = Mapping[str, HealthCheck]


@dataclass(slots=True, kw_only=True)
class ProcessState:
    """The state that the pages show. A replica that is not the leader is healthy and ready.

    Subclasses add the checks and pages of their process.
    """

    command: ClassVar[str]
    """The command of the process, as in ``holdfast COMMAND``."""
    clock: Clock
    leads: Callable[[], bool]
    metrics: Callable[[], bytes]
    """Renders /metrics."""
    lease: Callable[[], str] = lambda: ""
    """Returns why the lease cannot be renewed, or ""."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    started: float = 0.0
    stopping: Callable[[], bool] = lambda: False

    def alive_checks(self) -> HealthChecks:
        """Return the checks of /healthz and /livez."""
        return {"leaderElection": self.lease}

    def ready_checks(self) -> HealthChecks:
        """Return the checks of /readyz."""
        return {**self.alive_checks(), "shutdown": self.shutdown}

    def shutdown(self) -> str:
        """Return a message while the process is shutting down, else ""."""
        return "process is shutting down" if self.stopping() else ""

    def pages(self) -> list[web.RouteDef]:
        """Return the pages in addition to the health checks."""
        return [
            web.get("/metrics", self._metrics),
            web.get("/configz", self._configz),
            web.get("/flagz", self._flagz),
            web.get("/statusz", self._statusz),
        ]

    async def _metrics(self, _request: web.Request) -> web.Response:
        return plain_text(self.metrics())

    async def _configz(self, _request: web.Request) -> web.Response:
        return web.json_response(self.configuration)

    async def _flagz(self, _request: web.Request) -> web.Response:
        lines = [f"{name}={value}" for name, value in sorted(self.flags.items())]
        return plain_text("\n".join([f"holdfast {self.command} flagz", "", *lines, ""]).encode())

    async def _statusz(self, _request: web.Request) -> web.Response:
        up = int(self.clock.now() - self.started)
        lines = [
            f"holdfast {self.command} statusz", "",
            f"Started: {rfc3339(self.started)}",
            f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {version('holdfast-scheduler')}",
            f"Emulation version: {EMULATED_VERSION}",
            f"Leading: {'yes' if self.leads() else 'no'}", "",
        ]  # fmt: skip
        return plain_text("\n".join(lines).encode())


class HealthServer:
    """The HTTP server of the pages, on loopback."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    @classmethod
    async def start(cls, port: int, subject: ProcessState) -> HealthServer:
        """Start listening; raise Refused if the port is in use."""
        subject.started = subject.started or subject.clock.now()
        app = web.Application()
        app.add_routes(_routes(subject))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        except OSError as busy:
            await runner.cleanup()
            raise Refused(
                f"cannot serve health checks on 127.0.0.1:{port} ({busy.strerror}): choose another "
                "port with --health-port"
            ) from busy
        return cls(runner)

    async def close(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()


def _routes(subject: ProcessState) -> list[web.RouteDef]:
    alive = subject.alive_checks()
    return [
        *HealthCheckRoutes("healthz", alive).routes(),
        *HealthCheckRoutes("livez", alive).routes(),
        *HealthCheckRoutes("readyz", subject.ready_checks()).routes(),
        *subject.pages(),
    ]


def plain_text(body: bytes) -> web.Response:
    """Return a page of plain text."""
    return web.Response(body=body, content_type="text/plain", charset="utf-8")


class HealthCheckRoutes:
    """/healthz, /livez or /readyz: named checks with upstream's names.

    Each check also has its own page, and ``?exclude=`` leaves it out.
    """

    def __init__(self, name: str, checks: HealthChecks) -> None:
        self._name = name
        self._checks = {"ping": lambda: "", **checks}

    def routes(self) -> list[web.RouteDef]:
        """Return the route of the page and one route for each check."""
        one = [web.get(f"/{self._name}/{check}", self._one(check)) for check in self._checks]
        return [web.get(f"/{self._name}", self._all), *one]

    def _one(self, check: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def show(_request: web.Request) -> web.Response:
            status, text = single(self._checks[check])
            return web.Response(status=status, text=text)

        return show

    async def _all(self, request: web.Request) -> web.Response:
        status, text = page(
            self._name, self._checks, verbose="verbose" in request.query,
            excluded=request.query.getall("exclude", ()),
        )  # fmt: skip
        return web.Response(status=status, text=text)
