"""/healthz, /livez, /readyz: named checks, in upstream's words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from holdfast.health_checks import Check, page, single


class Checks:
    """One page of named checks; each can be asked by itself, or left out."""

    def __init__(self, name: str, checks: Mapping[str, Check]) -> None:
        self._name = name
        self._checks = {"ping": lambda: "", **checks}

    def routes(self) -> list[web.RouteDef]:
        """The page, and one for each check."""
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
