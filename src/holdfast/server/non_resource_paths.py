"""Paths that are not resources: health, version, discovery, OpenAPI, metrics."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from holdfast.client.transport import Request, Response
from holdfast.runtime.errors import NotAllowed, NotFound
from holdfast.runtime.health_checks import HealthCheck, page, single
from holdfast.server.crd_registration import CrdRegistration
from holdfast.server.discovery import Discovery
from holdfast.server.kinds import BUILT_IN_CRDS
from holdfast.server.metrics import RequestMetrics
from holdfast.server.operation import ServerContext
from holdfast.server.schema import openapi
from holdfast.server.wire.request_info import RequestInfo
from holdfast.server.wire.responses import json_response, text_response

_HEALTH = ("healthz", "livez", "readyz")
_WITHHELD = "reason withheld"
"""Health needs no authorization, so the reason of a failure is only logged."""
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2+holdfast",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


class NonResourcePaths:
    """Responds to non-resource paths."""

    def __init__(
        self, context: ServerContext, crds: CrdRegistration, metrics: RequestMetrics
    ) -> None:
        self._context = context
        self._crds = crds
        self._metrics = metrics
        self._discovery = Discovery(context.registry)

    def respond(self, request_info: RequestInfo, request: Request) -> Response:
        """Respond to a path that is not a resource."""
        if request_info.verb not in ("get", "head"):
            raise NotAllowed("the server does not allow this method on the requested resource")
        path = request_info.path.rstrip("/") or "/"
        root = path.split("/")[1]
        if root in ("api", "apis"):
            return self._discovery.respond(path, request.headers)
        if path.startswith("/openapi"):
            return self._openapi(path, request.headers)
        if root in _HEALTH:
            return self._health(path, request.query)
        if path == "/version":
            return json_response(VERSION)
        if path == "/metrics":
            return self._metrics.response()
        if path == "/":
            return json_response({"paths": self._listed()})
        return text_response("404 page not found\n", 404)

    def _health(self, path: str, query: Mapping[str, str]) -> Response:
        """Return a page of named checks, or one check; only readiness depends on the store."""
        name, *chosen = path[1:].split("/", 1)
        checks: dict[str, HealthCheck] = {"ping": lambda: ""}
        if name == "readyz":
            checks["store"] = lambda: _WITHHELD if self._context.store.read_only_reason else ""
        if not chosen:
            status, text = page(
                name, checks, verbose="verbose" in query, excluded=(query.get("exclude", ""),)
            )
        elif chosen[0] in checks:
            status, text = single(checks[chosen[0]])
        else:
            raise NotFound("the server could not find the requested resource")
        return text_response(text, status)

    def _listed(self) -> list[str]:
        groups = self._context.registry.groups()
        apis = [f"/apis/{group}" for group in groups if group]
        apis += [f"/apis/{g}/{v}" for g, versions in groups.items() if g for v in versions]
        fixed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2",
                 "/openapi/v3", "/readyz", "/version"]  # fmt: skip
        return sorted(fixed + apis)

    def _openapi(self, path: str, headers: Mapping[str, str]) -> Response:
        resources = [descriptor.resource for descriptor in self._context.registry]
        crds = [*self._crds.served_crds(), *BUILT_IN_CRDS]
        if path == openapi.V2_PATH:
            return openapi.v2_response(headers)
        if path == "/openapi/v3":
            return Response(
                200, {"content-type": "application/json"}, openapi.index(resources, crds)
            )
        parts = path.removeprefix("/openapi/v3/").split("/")
        group, version = _group_version(parts)
        if not any((r.group, r.version) == (group, version) for r in resources):
            raise NotFound("the server could not find the requested resource")
        tag = f'"{openapi.fingerprint(group, version, crds)}"'
        if headers.get("if-none-match") == tag:
            return Response(304, {"etag": tag}, b"")
        body = openapi.document(group, version, resources, crds)
        response_headers = {"content-type": "application/json", "etag": tag, "vary": "Accept",
                "cache-control": "public"}  # fmt: skip
        if "gzip" in headers.get("accept-encoding", ""):
            return Response(200, response_headers | {"content-encoding": "gzip"}, body)
        return Response(200, response_headers, gzip.decompress(body))


def _group_version(parts: list[str]) -> tuple[str, str]:
    if len(parts) == 2 and parts[0] == "api":
        return "", parts[1]
    if len(parts) == 3 and parts[0] == "apis":
        return parts[1], parts[2]
    raise NotFound("the server could not find the requested resource")
