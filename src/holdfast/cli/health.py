"""The small page a scheduler process shows to probes and to Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from holdfast.errors import Refused
from holdfast.scheduler.reservation_view import node_reservations
from holdfast.scheduler.scheduler import Scheduler


class HealthPage:
    """/healthz, /livez, /readyz, /metrics and /nodeReservations/NODE on loopback."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner

    @classmethod
    async def start(cls, port: int, scheduler: Scheduler, leads: Callable[[], bool]) -> HealthPage:
        """Listen; a busy port is a clear refusal. Who does not lead is ready to take over."""

        async def live(_request: web.Request) -> web.Response:
            return web.Response(text="ok")

        async def ready(_request: web.Request) -> web.Response:
            if not leads():
                return web.Response(text="ok")
            if not scheduler.synced.is_set():
                return web.Response(status=503, text="waiting for the first read of the cluster")
            if not scheduler.healthy:
                return web.Response(status=503, text="a scheduling loop has stopped")
            return web.Response(text="ok")

        async def metrics(_request: web.Request) -> web.Response:
            return web.Response(body=scheduler.metrics_page(), content_type="text/plain")

        async def reservations(request: web.Request) -> web.Response:
            found = node_reservations(scheduler.world, request.match_info["node"])
            if found is None:
                return web.Response(status=404, text="there is no such node")
            return web.json_response(found)

        app = web.Application()
        app.add_routes([
            web.get("/healthz", live), web.get("/livez", live), web.get("/readyz", ready),
            web.get("/metrics", metrics), web.get("/nodeReservations/{node}", reservations),
        ])  # fmt: skip
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        except OSError as busy:
            await runner.cleanup()
            raise Refused(
                f"cannot show health on 127.0.0.1:{port} ({busy.strerror}): use --health-port"
            ) from busy
        return cls(runner)

    async def close(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()
