"""Render objects and lists in the response format: as they are, as Table, or metadata only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.client.transport import Response
from holdfast.server.operation import Operation
from holdfast.server.tables import table
from holdfast.server.verbs.conversion import to_requested_version
from holdfast.server.wire.responses import encoded_response, warning_header, with_headers

_BYTES_AT_ONCE = 64 * 1024
"""About two milliseconds of conversion."""
_encode = msgspec.json.Encoder().encode


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode_metadata = msgspec.json.Decoder(_MetadataOnly)


def partial_metadata(value: bytes, version: str) -> bytes:
    """Return the PartialObjectMetadata of an object.

    >>> partial_metadata(b'{"kind":"Pod","metadata":{"name":"a"},"spec":{}}', "v1")
    b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}'
    """
    head = f'{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/{version}","metadata":'
    return head.encode() + bytes(_decode_metadata.decode(value).metadata) + b"}"


def as_table(
    op: Operation,
    values: Iterable[bytes],
    *,
    metadata: Mapping[str, Any] | None = None,
    with_columns: bool = True,
) -> bytes:
    """Return objects as one Table."""
    objects = [msgspec.json.decode(to_requested_version(op.descriptor, value)) for value in values]
    if metadata is None and len(objects) == 1:
        object_metadata = objects[0].get("metadata")
        known = object_metadata if isinstance(object_metadata, dict) else {}
        metadata = {"resourceVersion": known.get("resourceVersion", "")}
    shown = table(
        op.descriptor.printer,
        objects,
        include_object=op.request.query.get("includeObject") or "Metadata",
        with_columns=with_columns,
        now=op.context.clock.now(),
        metadata=metadata,
    )
    shown["apiVersion"] = f"meta.k8s.io/{op.response_format.version}"
    return _encode(shown)


def render_object(op: Operation, value: bytes) -> bytes:
    """Return an object in the response format."""
    if op.response_format.is_table:
        return as_table(op, [value])
    if op.response_format.is_metadata:
        return partial_metadata(value, op.response_format.version)
    if op.descriptor.is_alias and op.request_info.verb not in ("get", "list", "watch"):
        return value
    return to_requested_version(op.descriptor, value)


def object_response(op: Operation, value: bytes, status: int = 200) -> Response:
    """Return a response with one object in the response format, and the warnings."""
    response = encoded_response(render_object(op, value), status, op.response_format)
    if op.warnings:
        return with_headers(response, {"warning": warning_header(op.warnings)})
    return response


async def render_list(op: Operation, values: list[bytes], metadata: Mapping[str, Any]) -> bytes:
    """Return a list in the response format; a plain list joins the stored bytes.

    Other requests are handled while a long list is converted.
    """
    if op.response_format.is_table:
        return as_table(op, values, metadata=metadata)
    resource = op.descriptor.resource
    kind, api_version = op.descriptor.list_kind, resource.api_version
    if op.response_format.is_metadata:
        kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{op.response_format.version}"
        values = [partial_metadata(value, op.response_format.version) for value in values]
    elif op.descriptor.storage_api_version != api_version:
        values = await _convert_all(op, values)
    head = f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":'
    return b"".join((head.encode(), _encode(metadata), b',"items":[', b",".join(values), b"]}\n"))


async def _convert_all(op: Operation, values: Iterable[bytes]) -> list[bytes]:
    converted: list[bytes] = []
    size = 0
    for value in values:
        converted.append(to_requested_version(op.descriptor, value))
        size += len(value)
        if size > _BYTES_AT_ONCE:
            size = 0
            await asyncio.sleep(0)
    return converted
