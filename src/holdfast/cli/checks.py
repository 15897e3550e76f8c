"""/healthz, /livez, /readyz: named checks, in upstream's words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

Check = Callable[[], str]
"""Says what is wrong, "" for nothing."""


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
        async def page(_request: web.Request) -> web.Response:
            wrong = self._checks[check]()
            text = f"internal server error: {wrong}\n" if wrong else "ok"
            return web.Response(status=500 if wrong else 200, text=text)

        return page

    async def _all(self, request: web.Request) -> web.Response:
        left_out = set(request.query.getall("exclude", ()))
        failed, lines = False, []
        for name, check in self._checks.items():
            if name in left_out:
                lines.append(f"[+]{name} excluded: ok")
            elif wrong := check():
                failed = True
                lines.append(f"[-]{name} failed: {wrong}")
            else:
                lines.append(f"[+]{name} ok")
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines.append(f"{self._name} check {'failed' if failed else 'passed'}\n")
        return web.Response(status=500 if failed else 200, text="\n".join(lines))
