"""The OpenAPI v2 document, without schemas.

kubectl validates the items of a ``kind: List`` with it and skips kinds that are not in it; the
server validates each item anyway. Without the document kubectl rejects every List.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.apiserver.wire.responses import json_response
from holdfast.client.transport import Response

PATH = "/openapi/v2"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE, _VERSION = "Kubernetes", "v1.36"


def response(headers: Mapping[str, str]) -> Response:
    """Return the document in gnostic's protobuf format, which kubectl requests, or as JSON."""
    accepted = headers.get("accept", "")
    if "proto-openapi.spec.v2" not in accepted:
        info = {"title": _TITLE, "version": _VERSION}
        return json_response({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})
    info_message = _field(1, _TITLE.encode()) + _field(2, _VERSION.encode())
    document = _field(1, b"2.0") + _field(2, info_message)
    return Response(200, {"content-type": _PROTOBUF, "cache-control": "no-cache"}, document)


def _field(number: int, value: bytes) -> bytes:
    """Encode a string or message field shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(value))) + value
