"""The kind of ``apiregistration.k8s.io``: other API servers."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.kinds.printers import access
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.unbuilt import Unbuilt

API_SERVICES = row(
    "apiregistration.k8s.io",
    "apiservices",
    "APIService",
    namespaced=False,
    categories=("api-extensions",),
    parts=("status",),
)
KINDS = (
    Served(
        API_SERVICES,
        printer=access.API_SERVICE,
        unbuilt=Unbuilt(
            "APIServices are stored, but no request is forwarded to another API server"
        ),
    ),
)
