"""Keep ``metadata`` honest: what the server decides, what may not change, what is counted."""

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
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.errors import BadRequest, Conflict, Details, FieldErrors
from holdfast.store.store import MODIFIED

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
_LONGEST_PREFIX = 58


def metadata_of(obj: JsonObject) -> JsonObject:
    """Return the object's metadata map, refusing an object that has something else there."""
    meta = obj.setdefault("metadata", {})
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise BadRequest("metadata must be a JSON object")
    return meta


_pool = bytearray()


def new_uid() -> str:
    """Make a random uid (RFC 4122, version 4).

    Randomness is drawn from the system a few hundred uids at a time: a system call for each
    would cost more than everything else about it.
    """
    if len(_pool) < 16:
        _pool.extend(os.urandom(4096))
    drawn = bytes(_pool[-16:])
    del _pool[-16:]
    return str(uuid.UUID(bytes=drawn, version=4))


def timestamp(now: float) -> str:
    """Write a time as metadata does; thousands of objects share each second."""
    return _stamp_second(int(now))


@lru_cache(maxsize=4)
def _stamp_second(second: int) -> str:
    return rfc3339(second)


def generate_name(prefix: str, rng: random.Random) -> str:
    """Add five letters to a prefix; which five is the caller's dice.

    >>> generate_name("web-", random.Random(1))[:4]
    'web-'
    """
    return prefix[:_LONGEST_PREFIX] + "".join(rng.choices(names.SAFE_LETTERS, k=5))


def check_namespace(meta: JsonObject, namespace: str) -> None:
    """Refuse an object that says another namespace than the path; fill in an absent one."""
    if meta.get("namespace") not in (None, "", namespace):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def new_metadata(
    obj: JsonObject, descriptor: KindDescriptor, namespace: str, now: float
) -> JsonObject:
    """Give a new object its identity; returns the metadata in upstream's key order."""
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
    """Refuse a write that was made from another version or incarnation of the object."""
    meta, known = metadata_of(new), old["metadata"]
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    name, r = known["name"], descriptor.resource
    if uid and uid != known["uid"]:
        words = (
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {known['uid']}"
        )
        raise conflict(descriptor, name, words)
    if not version or version == "0":
        if descriptor.requires_resource_version:
            problems = FieldErrors()
            words = "Invalid value: 0: must be specified for an update"
            problems.add("metadata.resourceVersion", words)
            problems.raise_if_any(r.plural, name, r.group)
        return
    if version != known["resourceVersion"]:
        raise conflict(descriptor, name, MODIFIED)


def conflict(descriptor: KindDescriptor, name: str, words: str) -> Conflict:
    """Build the 409 that says why an object cannot be written."""
    r = descriptor.resource
    qualified = f"{r.plural}.{r.group}" if r.group else r.plural
    return Conflict(
        f'Operation cannot be fulfilled on {qualified} "{name}": {words}',
        Details(name=name, group=r.group, kind=r.plural),
    )


def updated_metadata(new: JsonObject, old: JsonObject, descriptor: KindDescriptor) -> JsonObject:
    """Carry over what a write may not change; refuse finalizers added to a dying object."""
    meta, known = metadata_of(new), old["metadata"]
    kept = {key: known[key] for key in (*_SERVER_OWNED, *_IDENTITY) if key in known}
    free = {k: v for k, v in meta.items() if k not in _SERVER_OWNED and k not in _IDENTITY}
    merged = free | kept
    if known.get("deletionTimestamp"):
        _check_finalizers(merged, known, descriptor)
    return in_key_order(merged)


def _check_finalizers(meta: JsonObject, known: JsonObject, descriptor: KindDescriptor) -> None:
    before = known.get("finalizers") or []
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
        problems.raise_if_any(descriptor.resource.kind, known["name"], descriptor.resource.group)
