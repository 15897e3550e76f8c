"""Types of the calls in generated stubs: ``await stub.Method(request, timeout=45)``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

Request_contra = TypeVar("Request_contra", contravariant=True)
Response_co = TypeVar("Response_co", covariant=True)


class UnaryCall(Protocol[Request_contra, Response_co]):
    """One request, one response."""

    async def __call__(
        self,
        request: Request_contra,
        *,
        timeout: float | None = None,
        wait_for_ready: bool | None = None,
    ) -> Response_co:
        """Send the request and return the response; raises ``grpc.aio.AioRpcError``."""


class ResponseStream(Protocol[Response_co]):
    """Responses as they come, until the server ends or the call is cancelled."""

    def __aiter__(self) -> AsyncIterator[Response_co]: ...

    def cancel(self) -> bool:
        """End the call; the iteration raises CancelledError."""


class StreamCall(Protocol[Request_contra, Response_co]):
    """One request, any number of responses."""

    def __call__(
        self,
        request: Request_contra,
        *,
        timeout: float | None = None,
        wait_for_ready: bool | None = None,
    ) -> ResponseStream[Response_co]:
        """Send the request and return the stream; iterating raises ``grpc.aio.AioRpcError``."""
