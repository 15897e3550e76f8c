"""A server as Kubernetes 1.37 is: DeviceTaintRules are GA, on, and served as v1 only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from holdfast.client.transport import Request, Response, Stream, Transport

V1, V1BETA2 = b'"resource.k8s.io/v1"', b'"resource.k8s.io/v1beta2"'
RULES = "/apis/resource.k8s.io/{}/devicetaintrules"
MISSING = Response(
    404, {"content-type": "application/json"},
    b'{"kind":"Status","status":"Failure","reason":"NotFound","code":404,'
    b'"message":"the server could not find the requested resource"}',
)  # fmt: skip


@dataclass(slots=True)
class Kubernetes137:
    """Answers as v1.37 before a server that serves DeviceTaintRules as v1beta2."""

    inner: Transport

    async def send(self, request: Request) -> Response:
        """Send a request for rules of v1 as one of v1beta2, and back."""
        if request.path == "/version":
            return Response(200, {}, b'{"major": "1", "minor": "37+"}')
        if request.path.startswith(RULES.format("v1beta2")):
            return MISSING
        if not request.path.startswith(RULES.format("v1")):
            return await self.inner.send(request)
        response = await self.inner.send(_older(request))
        return Response(response.status, response.headers, response.body.replace(V1BETA2, V1))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Watch rules of v1; those of v1beta2 are not there."""
        if request.path.startswith(RULES.format("v1beta2")):
            yield _Missing()
        elif request.path.startswith(RULES.format("v1")):
            async with self.inner.stream(_older(request)) as inner:
                yield _Newer(inner)
        else:
            async with self.inner.stream(request) as inner:
                yield inner

    async def close(self) -> None:
        """Close the inner transport."""
        await self.inner.close()


class _Newer:
    def __init__(self, inner: Stream) -> None:
        self._inner, self.status, self.headers = inner, inner.status, inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for line in self._inner:
            yield line.replace(V1BETA2, V1)


class _Missing:
    status, headers = MISSING.status, MISSING.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield MISSING.body


def _older(request: Request) -> Request:
    return msgspec.structs.replace(
        request,
        path=request.path.replace("/v1/", "/v1beta2/"),
        body=request.body.replace(V1, V1BETA2),
    )
