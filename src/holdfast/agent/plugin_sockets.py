"""Channels to the plugins of a node: gRPC on Unix sockets."""

from __future__ import annotations

from urllib.parse import quote

import grpc
import grpc.aio

LONGEST_PATH = 107
"""Bytes of the path of a Unix socket on Linux."""

_OPTIONS = (
    # Go servers expect a host name; the default is the path of the socket.
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    # A channel of its own for each registration: a restarted plugin does not inherit a back-off.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
)


def open_channel(path: str) -> grpc.aio.Channel:
    """Return a channel to a socket; it connects when it is used."""
    return grpc.aio.insecure_channel(f"unix:{quote(path)}", options=_OPTIONS)


def failure_text(error: grpc.RpcError) -> str:
    """Return the code and the details of a failed call.

    Details of the plugin itself may be of any length and are cut.
    """
    code = error.code().name if isinstance(error, grpc.aio.AioRpcError) else type(error).__name__
    details = (error.details() or "") if isinstance(error, grpc.aio.AioRpcError) else str(error)
    return f"{code}: {shortened(details)}" if details else code


def shortened(text: str, limit: int = 500) -> str:
    """Return a text of a plugin, cut so that it fits into an event.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
