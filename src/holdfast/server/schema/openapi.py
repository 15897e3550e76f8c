"""OpenAPI documents: v3, one per group version, for kubectl create, apply and explain; and v2.

The v3 documents contain only what kubectl needs: the schemas of the served kinds, and paths with
the query parameters and patch types of each resource.

The v2 document has no schemas. kubectl validates the items of a ``kind: List`` with it and skips
kinds that are not in it; the server validates each item anyway. Without the document kubectl
rejects every List.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from holdfast.api.resource import Resource
from holdfast.client.transport import Response
from holdfast.server import data
from holdfast.server.added_group import REF
from holdfast.server.schema import added_fields
from holdfast.server.schema.fields import type_of
from holdfast.server.wire.responses import json_response

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GVK = "x-kubernetes-group-version-kind"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC = "application/strategic-merge-patch+json"  # of built-in kinds only
_PARAMETERS = [
    {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": "string", "uniqueItems": True},
    }
    for name, description in (
        ("dryRun", "All: do everything but store the result."),
        ("fieldManager", "Who makes the change, for managedFields."),
        ("fieldValidation", "Ignore, Warn or Strict: what to do with unknown fields."),
    )
]
_documents: dict[tuple[str, str], tuple[str, bytes]] = {}

OpenApiSchema = dict[str, Any]
V2_PATH = "/openapi/v2"
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE, _VERSION = "Kubernetes", "v1.36"


def index(resources: Iterable[Resource[Any]], crds: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """Return ``/openapi/v3``: all group versions with the hashes of their documents."""
    custom = list(crds)
    paths = {}
    for group, version in sorted({(r.group, r.version) for r in resources}):
        where = f"apis/{group}/{version}" if group else f"api/{version}"
        tag = fingerprint(group, version, custom)
        paths[where] = {"serverRelativeURL": f"/openapi/v3/{where}?hash={tag}"}
    return msgspec.json.encode({"paths": paths})


def document(
    group: str,
    version: str,
    resources: Iterable[Resource[Any]],
    crds: Iterable[Mapping[str, Any]] = (),
) -> bytes:
    """Return ``/openapi/v3/apis/<group>/<version>``, compressed with gzip; cached.

    ``resources`` and ``crds`` may contain other groups, which are ignored.
    """
    custom = list(crds)
    tag = fingerprint(group, version, custom)
    cached = _documents.get((group, version))
    if cached is None or cached[0] != tag:
        group_resources = [r for r in resources if (r.group, r.version) == (group, version)]
        plurals = {c["spec"]["names"]["plural"] for c in custom if c["spec"]["group"] == group}
        schemas = _custom_schemas(group, version, custom)
        body = msgspec.json.encode(_compose(group_resources, schemas, plurals))
        cached = _documents[group, version] = tag, gzip.compress(body, 6, mtime=0)
    return cached[1]


def fingerprint(group: str, version: str, crds: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return the hash of a document, which is also its ETag."""
    digest = hashlib.sha256(f"{_data_digest()} {group}/{version}".encode())
    for crd in crds:
        if crd["spec"]["group"] == group:
            digest.update(msgspec.json.encode(crd["spec"], order="sorted"))
    return digest.hexdigest()[:32].upper()


@cache
def _data_digest() -> str:
    # The hash also covers the output of _paths: kubectl caches documents by hash.
    shape = repr((_PATCHES, _STRATEGIC, _PARAMETERS, added_fields.PROPERTIES)).encode()
    return hashlib.sha256(data.packed("openapi") + shape).hexdigest()


def _compose(
    resources: list[Resource[Any]], custom: dict[str, OpenApiSchema], custom_plurals: set[str]
) -> dict[str, Any]:
    schemas = dict(custom)
    # Not cached: decoding takes 10 ms, the decoded data 15 MB.
    known: dict[str, OpenApiSchema] = data.unpack("openapi")
    added_fields.add_schemas(known)
    names = {s[_GVK][0]["kind"]: name for name, s in custom.items()}
    for resource in resources:
        name = names.get(resource.kind) or type_of(resource)
        if name is not None and name not in schemas:
            _add(name, known, schemas)
    for schema in custom.values():
        _add_references(schema, known, schemas)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36"},
        "paths": {
            path: item
            for r in resources
            for path, item in _paths(r, is_custom=r.plural in custom_plurals).items()
        },
        "components": {"schemas": schemas},
    }


def _add(name: str, known: dict[str, OpenApiSchema], schemas: dict[str, OpenApiSchema]) -> None:
    """Add a built-in type and all types it refers to."""
    if name in known and name not in schemas:
        schemas[name] = known[name]
        _add_references(known[name], known, schemas)


def _add_references(
    schema: Any, known: dict[str, OpenApiSchema], schemas: dict[str, OpenApiSchema]
) -> None:
    if isinstance(schema, list):
        for one in schema:
            _add_references(one, known, schemas)
    elif isinstance(schema, dict):
        for key, one in schema.items():
            if key == "$ref" and isinstance(one, str):
                _add(one.removeprefix(REF), known, schemas)
            else:
                _add_references(one, known, schemas)


def _paths(resource: Resource[Any], *, is_custom: bool) -> dict[str, Any]:
    namespace = "{namespace}" if resource.namespaced else ""
    collection = resource.path(namespace)
    gvk = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    patches = _PATCHES if is_custom else (*_PATCHES, _STRATEGIC)
    return {
        collection: {
            "get": _operation("list", gvk, []),
            "post": _operation("post", gvk, _PARAMETERS),
        },
        f"{collection}/{{name}}": {
            "get": _operation("get", gvk, []),
            "put": _operation("put", gvk, _PARAMETERS),
            "patch": _operation("patch", gvk, _PARAMETERS)
            | {"requestBody": {"content": {form: {} for form in patches}}},
            "delete": _operation("delete", gvk, _PARAMETERS[:1]),
        },
    }


def _operation(
    action: str, gvk: dict[str, str], parameters: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "responses": {"200": {"description": "OK"}},
        "parameters": parameters,
        "x-kubernetes-action": action,
        _GVK: gvk,
    }


def _custom_schemas(
    group: str, version: str, crds: list[Mapping[str, Any]]
) -> dict[str, OpenApiSchema]:
    """Return the schemas of the custom resources of a group version."""
    prefix = ".".join(reversed(group.split(".")))
    schemas = {}
    for crd in crds:
        spec = crd["spec"]
        if spec["group"] != group:
            continue
        for one in spec["versions"]:
            schema = (one.get("schema") or {}).get("openAPIV3Schema")
            if one["name"] == version and one.get("served") and schema:
                kind = spec["names"]["kind"]
                gvk = {"group": group, "kind": kind, "version": version}
                schemas[f"{prefix}.{version}.{kind}"] = _with_object_fields(schema) | {_GVK: [gvk]}
    return schemas


def _with_object_fields(schema: Mapping[str, Any]) -> OpenApiSchema:
    """Add apiVersion, kind and metadata to a schema; metadata is that of Kubernetes."""
    properties = dict(schema.get("properties") or {})
    head = {
        "apiVersion": properties.pop("apiVersion", {"type": "string"}),
        "kind": properties.pop("kind", {"type": "string"}),
        "metadata": {
            "allOf": [{"$ref": REF + _META}],
            "description": "Standard object's metadata.",
        },
    }
    properties.pop("metadata", None)
    return {**schema, "properties": {**head, **properties}}


def v2_response(headers: Mapping[str, str]) -> Response:
    """Return the v2 document in gnostic's protobuf format, which kubectl requests, or as JSON."""
    accepted = headers.get("accept", "")
    if "proto-openapi.spec.v2" not in accepted:
        info = {"title": _TITLE, "version": _VERSION}
        return json_response({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})
    info_message = _protobuf_field(1, _TITLE.encode()) + _protobuf_field(2, _VERSION.encode())
    document = _protobuf_field(1, b"2.0") + _protobuf_field(2, info_message)
    return Response(200, {"content-type": _V2_PROTOBUF, "cache-control": "no-cache"}, document)


def _protobuf_field(number: int, value: bytes) -> bytes:
    """Encode a string or message field shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(value))) + value
