"""Turn decided objects into stored bytes, and stored bytes into what a client asked to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.rendering import render_object
from holdfast.apiserver.wire.responses import encoded_response, with_headers
from holdfast.apiserver.wire.warning_header import warning_header
from holdfast.client.transport import Response
from holdfast.store import StoredObject

_encode = msgspec.json.Encoder().encode


def with_type_first(obj: Mapping[str, Any], descriptor: KindDescriptor) -> JsonObject:
    """Copy an object with kind, apiVersion and metadata first: stored bytes rely on it."""
    head = {
        "kind": descriptor.resource.kind,
        "apiVersion": descriptor.storage_api_version,
        "metadata": obj["metadata"],
    }
    return head | {k: v for k, v in obj.items() if k not in head}


def encode_dry_run(obj: JsonObject, previous: StoredObject | None) -> bytes:
    """Write an object that a dry run would have stored, at the version it has now."""
    if previous is None:
        obj["metadata"].pop("resourceVersion", None)
    else:
        obj["metadata"]["resourceVersion"] = str(previous.revision)
    return _encode(obj)


def object_response(op: Operation, value: bytes, status: int = 200) -> Response:
    """Answer with one object in the form the client asked for, warnings attached."""
    response = encoded_response(render_object(op, value), status, op.response_format)
    if op.warnings:
        return with_headers(response, {"warning": warning_header(op.warnings)})
    return response
