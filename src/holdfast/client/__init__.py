"""Talk to an API server: the client library that every component uses.

Lives here: the ``Transport`` protocol and its HTTP implementation, the typed ``Client``, informers,
the work queue, the event recorder, leader election and kubeconfig loading. May not live here: the
meaning of particular kinds. Components use a ``Client``, whatever its transport; the in-process
transport is part of ``server``.

``__all__`` is the stable part (docs/public-api.md)::

    client = Client(HttpTransport(await load_kubeconfig()), "my-tool")
    pods = await client.list(scheme.PODS)
"""

from typing import TYPE_CHECKING

from holdfast.runtime.deferred_imports import deferred

if TYPE_CHECKING:
    from holdfast.client.client import Client, PatchType
    from holdfast.client.endpoint import Endpoint
    from holdfast.client.http import HttpTransport
    from holdfast.client.informer import Informer
    from holdfast.client.kubeconfig import load as load_kubeconfig
    from holdfast.client.transport import Request, Response, Stream, Transport

__all__ = [
    "Client",
    "Endpoint",
    "HttpTransport",
    "Informer",
    "PatchType",
    "Request",
    "Response",
    "Stream",
    "Transport",
    "load_kubeconfig",
]

__getattr__ = deferred(
    __name__,
    {
        "Client": "client",
        "PatchType": "client",
        "Endpoint": "endpoint",
        "HttpTransport": "http",
        "Informer": "informer",
        "Request": "transport",
        "Response": "transport",
        "Stream": "transport",
        "Transport": "transport",
        "load_kubeconfig": "kubeconfig:load",
    },
)
