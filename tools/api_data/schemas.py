"""Turn the JSON schemas of ``kubernetes-validate`` into the two files the API server reads.

``fields.json.gz`` is ``{"kinds": {"apps/v1/Deployment": <type>}, "types": {<type>: {field:
description}}}``. A description is the name of a type, or a list ``[shape, type, merge key,
strategy, list type, map keys]`` for what is more than that; an empty type means anything, and a
type that starts with ``=`` a scalar (``=string``, ``=int32``). ``openapi.json.gz`` holds the
definitions as OpenAPI v3 wants them.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

OBJECT, LIST, MAP, ANY = "o", "l", "m", "*"
_LEAVES = {"Quantity": "=quantity", "Time": "=time", "MicroTime": "=time", "Duration": "=string",
           "IntOrString": "=int-or-string"}  # fmt: skip
_SCALARS = {"boolean": "=bool", "number": "=number"}
_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_MERGE_KEY, _STRATEGY = "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy"
_GVK = "x-kubernetes-group-version-kind"
# Kinds of meta.k8s.io that every group version lists as its own.
_EVERYWHERE = ("DeleteOptions", "WatchEvent")
_PREFIX = "#/components/schemas/"


def definitions(version: str) -> dict[str, dict]:
    """Return the definitions of a minor version, with references in OpenAPI v3's form."""
    package = importlib.util.find_spec("kubernetes_validate")
    if package is None or package.origin is None:
        raise SystemExit("kubernetes-validate is not installed: install the dev dependencies")
    root = Path(package.origin).parent / "kubernetes-json-schema"
    path = root / f"v{version}.0-local" / "_definitions.json"
    if not path.exists():
        raise SystemExit(f"kubernetes-validate has no schemas of Kubernetes {version}: {path}")
    raw = json.loads(path.read_text())["$defs"]
    return {name: _clean(schema) for name, schema in raw.items()}


def _clean(schema: dict) -> dict:
    """Remove what kubernetes-validate added, and fix the references."""
    out = {}
    for key, value in schema.items():
        if key == "$ref":
            out[key] = _PREFIX + value.rpartition("/")[2]
        elif key == "properties":
            out[key] = {name: _clean(one) for name, one in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = _clean(value)
        elif key == "type" and isinstance(value, list):
            out[key] = next(one for one in value if one != "null")
        elif key == "oneOf":
            out[key] = [_clean(one) for one in value]
        elif key == "enum":  # of apiVersion and kind; upstream's schemas have no enums
            continue
        elif key not in ("additionalProperties", "$schema"):
            out[key] = value
    return out


def served_packages(all_definitions: dict[str, dict]) -> set[str]:
    """Return the protobuf packages: ``io.k8s.api.apps.v1`` becomes ``k8s.io.api.apps.v1``."""
    packages = set()
    for name in all_definitions:
        package = name.rpartition(".")[0]
        if package.startswith("io.k8s."):
            packages.add("k8s.io." + package.removeprefix("io.k8s.").replace("-", "_"))
    return packages


def fields(all_definitions: dict[str, dict]) -> dict:
    """Reduce the definitions to names, merge keys and list types."""
    kinds = {}
    for name, schema in all_definitions.items():
        for gvk in schema.get(_GVK, ()):
            if gvk["kind"] not in _EVERYWHERE or gvk["group"] == "":
                kinds[f"{gvk['group']}/{gvk['version']}/{gvk['kind']}".lstrip("/")] = name
    types = {
        name: {field: _describe(one) for field, one in schema["properties"].items()}
        for name, schema in all_definitions.items()
        if "properties" in schema
    }
    return {"kinds": kinds, "types": _without_leaves(types)}


def _without_leaves(types: dict) -> dict:
    """Turn references to types without fields of their own (Quantity, Time) into scalars."""

    def settle(word: list | str) -> list | str:
        shape, kind, *rest = word if isinstance(word, list) else [OBJECT, word]
        if kind and kind not in types and not kind.startswith("="):
            kind = _LEAVES.get(kind.rpartition(".")[2], "")
            if not kind and shape == OBJECT:
                shape = ANY
        while rest and not rest[-1]:
            rest.pop()
        return kind if shape == OBJECT and not rest else [shape, kind, *rest]

    return {n: {f: settle(word) for f, word in fs.items()} for n, fs in types.items()}


def _describe(schema: dict) -> list | str:
    kind = _reference(schema)
    extras = [
        schema.get(_MERGE_KEY, ""),
        schema.get(_STRATEGY, ""),
        schema.get(_LIST_TYPE, "") or schema.get("x-kubernetes-map-type", ""),
        schema.get(_LIST_KEYS, []),
    ]
    if kind:
        return [OBJECT, kind, *extras]
    if schema.get("type") == "array":
        return [LIST, _item(schema.get("items", {})), *extras]
    if "additionalProperties" in schema:
        return [MAP, _item(schema["additionalProperties"]), *extras]
    return _scalar(schema) or [ANY, ""]


def _item(schema: dict) -> str:
    return _reference(schema) or _scalar(schema)


def _scalar(schema: dict) -> str:
    kind, form = schema.get("type", "object"), schema.get("format", "")
    if kind == "integer":
        return f"={form or 'int64'}"
    if kind == "string":
        return {"byte": "=bytes", "date-time": "=time"}.get(form, "=string")
    return _SCALARS.get(kind, "")


def _reference(schema: dict) -> str:
    return schema.get("$ref", "").removeprefix(_PREFIX)


def openapi(all_definitions: dict[str, dict]) -> dict:
    """Return the definitions in OpenAPI v3's form: a reference has no sibling keys."""
    return {name: _v3(schema) for name, schema in all_definitions.items()} | _UNIONS


# kubernetes-validate records only that these have two types.
_UNIONS = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "description": "A number or a text: a port's number or its name, a count or a percentage.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "description": "An exact amount such as 500m, 1.5, 2Gi or 1e3.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
}


def _v3(schema: dict) -> dict:
    out = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {name: _v3(one) for name, one in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = _v3(value)
        elif key == "$ref" and len(schema) > 1:
            out["allOf"] = [{"$ref": value}]
        else:
            out[key] = value
    return out
