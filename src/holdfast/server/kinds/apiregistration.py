"""The kind of ``apiregistration.k8s.io``: APIService."""

from __future__ import annotations

from holdfast.server.descriptor import KindDescriptor, untyped_resource
from holdfast.server.kinds.printers import access
from holdfast.server.unimplemented_features import UnimplementedFeatures

API_SERVICES = untyped_resource(
    "apiregistration.k8s.io",
    "apiservices",
    "APIService",
    namespaced=False,
    categories=("api-extensions",),
    parts=("status",),
)
KINDS = (
    KindDescriptor(
        API_SERVICES,
        printer=access.API_SERVICE,
        unimplemented=UnimplementedFeatures(
            "APIServices are stored, but no request is forwarded to another API server"
        ),
    ),
)
