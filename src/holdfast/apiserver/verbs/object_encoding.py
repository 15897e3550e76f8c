"""Encode objects for the store, for dry runs and for responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.rendering import render_object
from holdfast.apiserver.wire.responses import encoded_response, warning_header, with_headers
from holdfast.client.transport import Response
from holdfast.store import StoredObject

_encode = msgspec.json.Encoder().encode


def with_type_first(obj: Mapping[str, Any], descriptor: KindDescriptor) -> JsonObject:
    """Copy an object with kind, apiVersion and metadata first, as stored bytes must be."""
    head = {
        "kind": descriptor.resource.kind,
        "apiVersion": descriptor.storage_api_version,
        "metadata": obj["metadata"],
    }
    return head | {k: v for k, v in obj.items() if k not in head}


def encode_dry_run(obj: JsonObject, previous: StoredObject | None) -> bytes:
    """Encode the object that a dry run would have stored, with its current resourceVersion."""
    if previous is None:
        obj["metadata"].pop("resourceVersion", None)
    else:
        obj["metadata"]["resourceVersion"] = str(previous.revision)
    return _encode(obj)


def object_response(op: Operation, value: bytes, status: int = 200) -> Response:
    """Return a response with one object in the response format, and the warnings."""
    response = encoded_response(render_object(op, value), status, op.response_format)
    if op.warnings:
        return with_headers(response, {"warning": warning_header(op.warnings)})
    return response
