"""An HTTP server that acts as a scheduler extender, with responses that a test sets.

async with FakeExtender() as extender:
    extender.answers["filter"] = allow("n1")
    async with Harness(path, extenders=[extender.config(filter_verb="filter")]) as cluster:
        extender.join(cluster)
        ...
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from holdfast.api.decode import JsonObject
from holdfast.scheduling.framework.extender import ExtenderConfig
from holdfast.testing.harness import Harness

ExtenderAnswer = Callable[[JsonObject], Any]
"""Converts a request body to the response body; may be async, and may return a Response."""


class FakeExtender:
    """Responds to each verb with ``answers[verb]``, and stores the requests in ``asked``."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, ExtenderAnswer] = {}
        self.asked: list[tuple[str, JsonObject]] = []
        self.url = ""
        self._tls = tls
        self._open = asyncio.Event()
        self._open.set()
        self._holding = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/prefix/{verb}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'https' if self._tls else 'http'}://{host}:{port}/prefix"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.set()
        assert self._runner is not None
        await self._runner.cleanup()

    def config(self, **fields: Any) -> ExtenderConfig:
        """Return a configuration for this extender; by default it has a node cache."""
        return ExtenderConfig(**{"url_prefix": self.url, "node_cache_capable": True, **fields})

    def join(self, cluster: Harness) -> None:
        """Make the cluster's virtual clock wait for requests in flight."""
        extenders = cluster.components.scheduler.extenders
        cluster.clock.busy.append(lambda: extenders.requests_in_flight > self._holding)

    def hold(self) -> None:
        """Delay all responses until ``release``."""
        self._open.clear()

    def release(self) -> None:
        """Send the delayed responses, and delay no more."""
        self._open.set()

    def questions(self, verb: str) -> list[JsonObject]:
        """Return the request bodies of a verb, in order."""
        return [body for asked, body in self.asked if asked == verb]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb, body = request.match_info["verb"], msgspec.json.decode(await request.read())
        self.asked.append((verb, body))
        self._holding += 1
        try:
            await self._open.wait()
        finally:
            self._holding -= 1
        answer = self.answers[verb](body)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        data = msgspec.json.encode(answer)
        return web.Response(body=data, content_type="application/json")


def allow(*names: str) -> ExtenderAnswer:
    """Filter: allow these nodes, and give no reason for the others."""
    return lambda body: {"NodeNames": [name for name in body["NodeNames"] if name in names]}


def refuse(why: str, *names: str, unresolvable: bool = False) -> ExtenderAnswer:
    """Filter: reject these nodes for a reason."""

    def answer(body: JsonObject) -> JsonObject:
        asked: list[str] = body["NodeNames"]
        field = "FailedAndUnresolvableNodes" if unresolvable else "FailedNodes"
        return {
            "NodeNames": [name for name in asked if name not in names],
            field: {name: why for name in asked if name in names},
        }

    return answer


def give(**points: int) -> ExtenderAnswer:
    """Prioritize: scores by node."""
    return lambda body: [{"Host": name, "Score": points.get(name, 0)} for name in body["NodeNames"]]


def fail(status: int) -> ExtenderAnswer:
    """Any verb: respond with an HTTP status and no body."""
    return lambda _body: web.Response(status=status)
