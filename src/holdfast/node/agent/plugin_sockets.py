"""Channels to the plugins of a node: gRPC on Unix sockets."""

from __future__ import annotations

import asyncio
from typing import TypeVar
from urllib.parse import quote

import grpc
import grpc.aio

from holdfast.node.kubelet_api.calls import UnaryCall
from holdfast.runtime.errors import HoldfastError

Request = TypeVar("Request")
Response = TypeVar("Response")

_OPTIONS = (
    # Go servers expect a host name; the default is the path of the socket.
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    # A separate channel for each registration: a restarted plugin does not inherit a back-off.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
)


def open_channel(path: str) -> grpc.aio.Channel:
    """Return a channel to a socket; it connects when it is used."""
    return grpc.aio.insecure_channel(f"unix:{quote(path)}", options=_OPTIONS)


class CallFailed(HoldfastError):
    """A plugin failed, or did not answer; in the latter case the outcome is unknown."""

    def __init__(self, message: str, *, not_found: bool = False) -> None:
        super().__init__(message)
        self.not_found = not_found


async def call(
    method: UnaryCall[Request, Response], request: Request, seconds: float, *, wait: bool = False
) -> Response:
    """Call a plugin; raise CallFailed unless it returns a readable response.

    ``wait``: for a plugin that does not listen yet.
    """
    try:
        answer: Response | None = await method(request, timeout=seconds, wait_for_ready=wait)
    except grpc.aio.AioRpcError as error:
        gone = error.code() is grpc.StatusCode.NOT_FOUND
        raise CallFailed(failure_text(error), not_found=gone) from error
    except grpc.aio.BaseError:  # the channel was closed before the call
        raise CallFailed("the plugin was deregistered") from None
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        # grpc cancels the calls of a channel that is closed, not this task.
        raise CallFailed("the plugin was deregistered") from None
    if answer is None:  # what grpc returns for bytes that it cannot read
        raise CallFailed("the answer cannot be read")
    return answer


def failure_text(error: grpc.aio.AioRpcError) -> str:
    """Return the code and the details of a failed call, cut to fit into an event."""
    details = error.details()
    return f"{error.code().name}: {shortened(details)}" if details else str(error.code().name)


def shortened(text: str, limit: int = 500) -> str:
    """Return a text of a plugin, cut so that it fits into an event.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
