"""HTTP pages of a scheduler process on loopback: health checks, metrics, configuration."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from aiohttp import web

from holdfast.api.scheme import PODS
from holdfast.api.timestamps import rfc3339
from holdfast.clock import Clock
from holdfast.errors import Refused
from holdfast.health_checks import HealthCheck, page, single
from holdfast.scheduler.dump import node_reservations
from holdfast.scheduler.object_metrics import resources_page
from holdfast.scheduler.scheduler import Scheduler

EMULATED_VERSION = "v1.36"


@dataclass(slots=True)
class SchedulerState:
    """The state that the pages show. A replica that is not the leader is healthy and ready."""

    scheduler: Scheduler
    clock: Clock
    leads: Callable[[], bool]
    lease: Callable[[], str] = lambda: ""
    """Returns why the lease cannot be renewed, or ""."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    started: float = 0.0
    stopping: Callable[[], bool] = lambda: False

    def scheduling(self) -> str:
        """Return why scheduling or watching the cluster fails, or ""."""
        scheduler = self.scheduler
        if self.leads() and scheduler.synced.is_set() and not self.stopping():
            return scheduler.failure_reason
        return ""

    def informer_sync(self) -> str:
        """Return why the informers are not synced, or ""."""
        if not self.leads() or self.scheduler.synced.is_set():
            return ""
        return "informers are not synced yet"

    def handler_sync(self) -> str:
        """Return why the event handlers are not synced, or ""."""
        return "handlers are not fully synchronized" if self.informer_sync() else ""

    def shutdown(self) -> str:
        """Return a message while the process is shutting down, else ""."""
        return "process is shutting down" if self.stopping() else ""


class HealthServer:
    """The HTTP server of the pages, on loopback."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    @classmethod
    async def start(cls, port: int, subject: SchedulerState) -> HealthServer:
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


def _routes(subject: SchedulerState) -> list[web.RouteDef]:
    alive = {"leaderElection": subject.lease, "scheduling": subject.scheduling}
    ready = {
        **alive, "shutdown": subject.shutdown, "informer-sync": subject.informer_sync,
        "sched-handler-sync": subject.handler_sync,
    }  # fmt: skip
    pages = _Pages(subject)
    return [
        *HealthCheckRoutes("healthz", alive).routes(), *HealthCheckRoutes("livez", alive).routes(),
        *HealthCheckRoutes("readyz", ready).routes(),
        web.get("/metrics", pages.metrics), web.get("/metrics/resources", pages.resources),
        web.get("/configz", pages.configz), web.get("/flagz", pages.flagz),
        web.get("/statusz", pages.statusz),
        web.get("/nodeReservations/{node}", pages.reservations),
    ]  # fmt: skip


class _Pages:
    def __init__(self, subject: SchedulerState) -> None:
        self._subject = subject

    async def metrics(self, _request: web.Request) -> web.Response:
        return _plain(self._subject.scheduler.metrics_page())

    async def resources(self, _request: web.Request) -> web.Response:
        """Only the leader exports these: otherwise each pod would be counted once per replica."""
        pods = self._subject.scheduler.informers.informer_set.get(PODS).cache
        return _plain(resources_page(pods.values() if self._subject.leads() else ()))

    async def configz(self, _request: web.Request) -> web.Response:
        return web.json_response(self._subject.configuration)

    async def flagz(self, _request: web.Request) -> web.Response:
        lines = [f"{name}={value}" for name, value in sorted(self._subject.flags.items())]
        return _plain("\n".join(["holdfast scheduler flagz", "", *lines, ""]).encode())

    async def statusz(self, _request: web.Request) -> web.Response:
        subject = self._subject
        up = int(subject.clock.now() - subject.started)
        lines = [
            "holdfast scheduler statusz", "",
            f"Started: {rfc3339(subject.started)}",
            f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {version('holdfast')}",
            f"Emulation version: {EMULATED_VERSION}",
            f"Leading: {'yes' if subject.leads() else 'no'}", "",
        ]  # fmt: skip
        return _plain("\n".join(lines).encode())

    async def reservations(self, request: web.Request) -> web.Response:
        found = node_reservations(self._subject.scheduler.world, request.match_info["node"])
        if found is None:
            return web.Response(status=404, text="there is no such node")
        return web.json_response(found)


def _plain(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="text/plain", charset="utf-8")


class HealthCheckRoutes:
    """/healthz, /livez or /readyz: named checks with upstream's names.

    Each check has a page of its own, and ``?exclude=`` leaves it out.
    """

    def __init__(self, name: str, checks: Mapping[str, HealthCheck]) -> None:
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
