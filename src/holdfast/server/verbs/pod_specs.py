"""Classic claims in pods and pod templates: one stored form, kept for clients that drop them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.api.classic_dra.forms import with_stored_claims, with_typed_claims
from holdfast.api.decode import JsonObject
from holdfast.server.descriptor import KindDescriptor


def with_typed_pod_claims(descriptor: KindDescriptor, obj: JsonObject) -> JsonObject:
    """Return an object whose pod spec has claims in the stored form."""
    return _change_at(obj, descriptor.pod_spec, with_typed_claims) if descriptor.pod_spec else obj


def with_stored_pod_claims(
    descriptor: KindDescriptor, obj: JsonObject, old: Mapping[str, Any]
) -> JsonObject:
    """Return an object with the classic claims that a typed client has dropped from it."""
    path = descriptor.pod_spec
    stored: Any = old if path else None
    for key in path:
        stored = stored.get(key) if isinstance(stored, Mapping) else None
    if not isinstance(stored, Mapping):
        return obj
    return _change_at(obj, path, lambda spec: with_stored_claims(spec, stored))


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
