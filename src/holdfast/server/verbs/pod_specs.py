"""The specs of pods and pod templates: one stored form, kept for clients that drop a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.server.added_groups import ADDED_GROUPS
from holdfast.server.descriptor import KindDescriptor


def with_typed_pod_claims(descriptor: KindDescriptor, obj: JsonObject) -> JsonObject:
    """Return an object whose pod spec has claims in the stored form."""

    def typed(spec: JsonObject) -> JsonObject:
        for added in ADDED_GROUPS:
            spec = added.pod_specs.typed(spec)
        return spec

    return _change_at(obj, descriptor.pod_spec, typed) if descriptor.pod_spec else obj


def with_stored_pod_claims(
    descriptor: KindDescriptor, obj: JsonObject, old: Mapping[str, Any]
) -> JsonObject:
    """Return an object with the claims that a typed client has dropped from it."""
    path = descriptor.pod_spec
    found: Any = old if path else None
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return obj
    stored: Mapping[str, Any] = found

    def kept(spec: JsonObject) -> JsonObject:
        for added in ADDED_GROUPS:
            spec = added.pod_specs.kept(spec, stored)
        return spec

    return _change_at(obj, path, kept)


def _change_at(
    obj: JsonObject, path: tuple[str, ...], change: Callable[[JsonObject], JsonObject]
) -> JsonObject:
    """Return a copy with another value at a path, or the same object if nothing changes."""
    if not path:
        return change(obj)
    inner = obj.get(path[0])
    if not isinstance(inner, dict):
        return obj
    changed = _change_at(inner, path[1:], change)
    return obj if changed is inner else {**obj, path[0]: changed}
