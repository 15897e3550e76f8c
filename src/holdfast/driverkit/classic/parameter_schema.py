"""The CRDs of a driver's parameters, made of the author's dataclasses."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

from holdfast.driverkit.classic.parameters import camel
from holdfast.errors import BadConfiguration

Schema = dict[str, Any]
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def crd_of(
    parameters: type, group: str, *, version: str = "v1", namespaced: bool = True
) -> dict[str, Any]:
    """Return the CRD of a dataclass, whose name is the kind; its fields are at the top level."""
    kind = parameters.__name__
    singular = kind.lower()
    plural = singular if singular.endswith("s") else f"{singular}s"
    schema = schema_of(parameters)
    if parameters.__doc__ and not parameters.__doc__.startswith(f"{kind}("):
        schema["description"] = inspect.cleandoc(parameters.__doc__)
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def schema_of(wanted: Any, at: str = "") -> Schema:
    """Return the structural schema of a type; raises BadConfiguration for one that has none.

    >>> schema_of(dict[str, int])
    {'type': 'object', 'additionalProperties': {'type': 'integer', 'format': 'int64'}}
    """
    if wanted in _PLAIN:
        return dict(_PLAIN[wanted])
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return _object_schema(wanted, at)
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return {"type": "string", "enum": [one.value for one in wanted]}
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        if len(kinds) == 1:
            return schema_of(kinds[0], at) | {"nullable": True}
        if set(kinds) == {int, str}:
            return {"x-kubernetes-int-or-string": True}
    if origin in (list, tuple, Sequence) and inner:
        return {"type": "array", "items": schema_of(inner[0], at)}
    if origin in (dict, Mapping) and len(inner) == 2:
        return {"type": "object", "additionalProperties": schema_of(inner[1], at)}
    raise BadConfiguration(f"parameters: {at or 'the type'}: {wanted!r} has no JSON schema")


def _object_schema(wanted: type, at: str) -> Schema:
    hints = typing.get_type_hints(wanted)
    properties: Schema = {}
    required = []
    for each in dataclasses.fields(wanted):
        name = camel(each.name)
        schema = schema_of(hints[each.name], f"{at}{name}")
        factory = each.default_factory is not dataclasses.MISSING
        if each.default is dataclasses.MISSING and not factory:
            required.append(name)
        properties[name] = schema
    found: Schema = {"type": "object", "properties": properties}
    return found | ({"required": required} if required else {})
