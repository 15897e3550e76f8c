"""The kind of ``certificates.k8s.io``: CertificateSigningRequest."""

from __future__ import annotations

from holdfast.server.descriptor import (
    KindDescriptor,
    Subresource,
    selectable_fields,
    untyped_resource,
)
from holdfast.server.kinds.printers import access
from holdfast.server.unimplemented_features import UnimplementedFeatures

_SIGNING_REQUESTS = untyped_resource(
    "certificates.k8s.io",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
    short=("csr",),
    parts=("approval", "status"),
)
_APPROVAL = Subresource(verbs=("get", "patch", "update"), unimplemented="signing certificates")

KINDS = (
    KindDescriptor(
        _SIGNING_REQUESTS,
        subresources={"approval": _APPROVAL},
        printer=access.SIGNING_REQUEST,
        selectable_fields=selectable_fields("spec.signerName"),
        unimplemented=UnimplementedFeatures(
            "CertificateSigningRequests are stored but cannot be approved, and none is signed"
        ),
    ),
)
