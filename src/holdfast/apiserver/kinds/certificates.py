"""The kind of ``certificates.k8s.io``: requests for certificates."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Served, Subresource, selectable
from holdfast.apiserver.kinds.printers import access
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.unbuilt import Unbuilt

_SIGNING_REQUESTS = row(
    "certificates.k8s.io",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
    short=("csr",),
    parts=("approval", "status"),
)
_APPROVAL = Subresource(verbs=("get", "patch", "update"), unbuilt="signing certificates")

KINDS = (
    Served(
        _SIGNING_REQUESTS,
        subresources={"approval": _APPROVAL},
        printer=access.SIGNING_REQUEST,
        selectable=selectable("spec.signerName"),
        unbuilt=Unbuilt(
            "CertificateSigningRequests are stored but cannot be approved, and none is signed"
        ),
    ),
)
