"""Object metadata: fields the server sets, and fields that may not change."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from holdfast.api import names
from holdfast.api.decode import JsonObject
from holdfast.api.timestamps import rfc3339
from holdfast.runtime.errors import BadRequest, Conflict, Details, FieldErrors
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.store.store import MODIFIED

_ORDER = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels",
    "annotations", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
_SERVER_OWNED = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
)  # fmt: skip
_IDENTITY = ("name", "generateName", "namespace")
_MAX_PREFIX = 58


def metadata_of(obj: JsonObject) -> JsonObject:
    """Return the metadata of an object; raise BadRequest if it is not an object."""
    meta = obj.setdefault("metadata", {})
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise BadRequest("metadata must be a JSON object")
    return meta


_random_bytes = bytearray()


def new_uid() -> str:
    """Return a random uid (RFC 4122, version 4).

    Random bytes are read for a few hundred uids at a time, because a system call per uid is slow.
    """
    if len(_random_bytes) < 16:
        _random_bytes.extend(os.urandom(4096))
    uid_bytes = bytes(_random_bytes[-16:])
    del _random_bytes[-16:]
    return str(uuid.UUID(bytes=uid_bytes, version=4))


def timestamp(now: float) -> str:
    """Format a time as in metadata; cached, because many objects are created in one second."""
    return _format_second(int(now))


@lru_cache(maxsize=4)
def _format_second(second: int) -> str:
    return rfc3339(second)


def generate_name(prefix: str, rng: random.Random) -> str:
    """Append five random letters to a prefix.

    >>> generate_name("web-", random.Random(1))[:4]
    'web-'
    """
    return prefix[:_MAX_PREFIX] + "".join(rng.choices(names.SAFE_LETTERS, k=5))


def check_namespace(meta: JsonObject, namespace: str) -> None:
    """Raise BadRequest if the namespace of an object is not that of the path."""
    if meta.get("namespace") not in (None, "", namespace):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def new_metadata(
    obj: JsonObject, descriptor: KindDescriptor, namespace: str, now: float
) -> JsonObject:
    """Return the metadata of a new object, in upstream's key order."""
    meta = metadata_of(obj)
    check_namespace(meta, namespace)
    if meta.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    for key in _SERVER_OWNED:
        meta.pop(key, None)
    if descriptor.resource.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    meta["uid"] = new_uid()
    meta["resourceVersion"] = ""
    meta["creationTimestamp"] = timestamp(now)
    if descriptor.has_generation:
        meta["generation"] = 1
    return in_key_order(meta)


def in_key_order(meta: Mapping[str, Any]) -> JsonObject:
    """Copy metadata in upstream's key order, without empty values and unknown keys."""
    return {k: meta[k] for k in _ORDER if meta.get(k) or (k == "resourceVersion" and k in meta)
            or (k == "deletionGracePeriodSeconds" and meta.get(k) is not None)}  # fmt: skip


def check_version(new: JsonObject, old: JsonObject, descriptor: KindDescriptor) -> None:
    """Raise Conflict if uid or resourceVersion are not those of the stored object."""
    meta, old_metadata = metadata_of(new), old["metadata"]
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    name, r = old_metadata["name"], descriptor.resource
    if uid and uid != old_metadata["uid"]:
        message = (
            f"Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {old_metadata['uid']}"
        )
        raise conflict(descriptor, name, message)
    if not version or version == "0":
        if descriptor.requires_resource_version:
            problems = FieldErrors()
            message = "Invalid value: 0: must be specified for an update"
            problems.add("metadata.resourceVersion", message)
            problems.raise_if_any(r.plural, name, r.group)
        return
    if version != old_metadata["resourceVersion"]:
        raise conflict(descriptor, name, MODIFIED)


def conflict(descriptor: KindDescriptor, name: str, message: str) -> Conflict:
    """Build the 409 for an object that cannot be written."""
    r = descriptor.resource
    qualified = f"{r.plural}.{r.group}" if r.group else r.plural
    return Conflict(
        f'Operation cannot be fulfilled on {qualified} "{name}": {message}',
        Details(name=name, group=r.group, kind=r.plural),
    )


def updated_metadata(new: JsonObject, old: JsonObject, descriptor: KindDescriptor) -> JsonObject:
    """Return the metadata of an update; raise Invalid if it adds finalizers during deletion."""
    meta, old_metadata = metadata_of(new), old["metadata"]
    kept = {key: old_metadata[key] for key in (*_SERVER_OWNED, *_IDENTITY) if key in old_metadata}
    writable = {k: v for k, v in meta.items() if k not in _SERVER_OWNED and k not in _IDENTITY}
    merged = writable | kept
    if old_metadata.get("deletionTimestamp"):
        _check_finalizers(merged, old_metadata, descriptor)
    return in_key_order(merged)


def _check_finalizers(
    meta: JsonObject, old_metadata: JsonObject, descriptor: KindDescriptor
) -> None:
    before = old_metadata.get("finalizers") or []
    added = sorted(f for f in meta.get("finalizers") or () if f not in before)
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        problems = FieldErrors()
        problems.add(
            "metadata.finalizers",
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{listed}}}",
            "FieldValueForbidden",
        )
        problems.raise_if_any(
            descriptor.resource.kind, old_metadata["name"], descriptor.resource.group
        )
