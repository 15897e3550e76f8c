"""Parameters of claims and classes: objects of any kind, read as dataclasses of the author.

The CRDs of their kinds are generated from the same dataclasses.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

import msgspec

from holdfast.api.classic_dra.claim_sources import ParametersReference
from holdfast.api.decode import JsonObject
from holdfast.api.resource import Resource, Untyped
from holdfast.client.client import Client
from holdfast.runtime.errors import BadConfiguration, HoldfastError, NotFound

_NOT_PARAMETERS = ("apiVersion", "kind", "metadata", "status")
_PLAIN: dict[Any, JsonObject] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


class WrongParameters(HoldfastError):
    """An object with parameters is missing or wrong; the message names it."""


class ParameterReader:
    """Reads the objects named by ``parametersRef``; kinds are found by discovery."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], Untyped] = {}

    async def read(self, reference: ParametersReference, namespace: str) -> dict[str, Any]:
        """Return an object; ``namespace`` is used if its kind has namespaces."""
        shown = f"{reference.kind} {reference.name}"
        resource = await self._resource(reference)
        if resource is None:
            raise WrongParameters(
                f"parameters {shown}: the API server has no kind {reference.kind} in group "
                f"{reference.api_group or 'core'}"
            )
        if resource.namespaced and not namespace:
            raise WrongParameters(f"parameters {shown}: parametersRef needs a namespace")
        try:
            return await self._client.get(resource, reference.name, namespace)
        except NotFound as error:
            self._resources.pop((reference.api_group, reference.kind), None)
            raise WrongParameters(f"parameters {shown}: it does not exist") from error

    async def _resource(self, reference: ParametersReference) -> Untyped | None:
        key = reference.api_group, reference.kind
        if key not in self._resources:
            resource = await self._discover(*key)
            if resource is None:
                return None
            self._resources[key] = resource
        return self._resources[key]

    async def _discover(self, group: str, kind: str) -> Untyped | None:
        versions = ["v1"]
        try:
            if group:
                listed = await self._json(f"/apis/{group}")
                versions = [each["version"] for each in listed.get("versions", ())]
            for version in versions:
                path = f"/apis/{group}/{version}" if group else f"/api/{version}"
                for each in (await self._json(path)).get("resources", ()):
                    if each["kind"] == kind and "/" not in each["name"]:
                        named = each["namespaced"]
                        return Resource(group, version, each["name"], kind, dict, namespaced=named)
        except NotFound:
            return None
        return None

    async def _json(self, path: str) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(await self._client.raw(path))
        return document


def parameters_of(raw: Mapping[str, Any], wanted: Any) -> Any:
    """Return the fields of an object as a dataclass; raises WrongParameters with the field.

    A field ``init_command`` of the dataclass is ``initCommand`` in the object. Without a dataclass
    the fields are returned as they are.
    """
    fields = {key: value for key, value in raw.items() if key not in _NOT_PARAMETERS}
    if wanted is None:
        return fields
    try:
        return msgspec.convert(_renamed(fields, wanted, ""), wanted)
    except (msgspec.ValidationError, RecursionError) as error:
        meta = raw.get("metadata") or {}
        raise WrongParameters(
            f"parameters {raw.get('kind', '')} {meta.get('name', '')}: {error}"
        ) from error


def default_parameters(wanted: Any, where: str) -> Any:
    """Return the parameters of an object that has no parametersRef; raises WrongParameters."""
    if wanted is None:
        return None
    try:
        return wanted()
    except TypeError as error:
        raise WrongParameters(f"{where} has no parametersRef: {error}") from error


def camel(name: str) -> str:
    """Return the name of a field in JSON.

    >>> camel("init_command")
    'initCommand'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _renamed(value: Any, wanted: Any, at: str) -> Any:
    """Return a JSON value with the field names of dataclasses."""
    wanted = _without_none(wanted)
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        if not isinstance(value, Mapping):
            return value
        hints = typing.get_type_hints(wanted)
        names = {camel(each.name): each.name for each in dataclasses.fields(wanted)}
        if unknown := sorted(set(value) - set(names)):
            raise msgspec.ValidationError(f"unknown field {at}{unknown[0]}")
        return {
            names[key]: _renamed(one, hints[names[key]], f"{at}{key}.")
            for key, one in value.items()
        }
    inner = typing.get_args(wanted)
    if isinstance(value, list) and inner:
        return [_renamed(one, inner[0], at) for one in value]
    if isinstance(value, Mapping) and len(inner) == 2:
        return {key: _renamed(one, inner[1], f"{at}{key}.") for key, one in value.items()}
    return value


def _without_none(wanted: Any) -> Any:
    if typing.get_origin(wanted) in (Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(wanted) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else wanted
    return wanted


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


def schema_of(wanted: Any, at: str = "") -> JsonObject:
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


def _object_schema(wanted: type, at: str) -> JsonObject:
    hints = typing.get_type_hints(wanted)
    properties: JsonObject = {}
    required = []
    for each in dataclasses.fields(wanted):
        name = camel(each.name)
        schema = schema_of(hints[each.name], f"{at}{name}")
        factory = each.default_factory is not dataclasses.MISSING
        if each.default is dataclasses.MISSING and not factory:
            required.append(name)
        properties[name] = schema
    object_schema: JsonObject = {"type": "object", "properties": properties}
    return object_schema | ({"required": required} if required else {})
