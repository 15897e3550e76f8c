"""Parameters of claims and classes: objects of any kind, read as dataclasses of the author."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Union

import msgspec

from holdfast.api.classic_claim_sources import ParametersReference
from holdfast.api.resource import Resource, Untyped
from holdfast.client.client import Client
from holdfast.errors import HoldfastError, NotFound

_NOT_PARAMETERS = ("apiVersion", "kind", "metadata", "status")


class WrongParameters(HoldfastError):
    """An object with parameters is missing or wrong; the message names it."""


class ParameterReader:
    """Reads the objects that ``parametersRef`` names; kinds are found by discovery."""

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
            found = await self._discover(*key)
            if found is None:
                return None
            self._resources[key] = found
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
        found: dict[str, Any] = msgspec.json.decode(await self._client.raw(path))
        return found


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
