"""Decode stored objects, including invalid ones that an older server stored.

An object that was on disk when the server started may be invalid, because an older server may have
accepted it. Fields of wrong types are treated as absent, so that no reader fails; the object can be
listed, replaced and deleted, and its next write stores it without those fields.

Before, one malformed object could keep the store from opening, deny every request (a role), fail
every creation of a pod (a priority class) or its own deletion. Reading it by its type costs more
than decoding it, so only objects that were on disk at the start are read that way: the checks of
this server have seen all others.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.resource import Resource
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.repeated_log import RepeatFilter
from holdfast.server.schema import field_validation
from holdfast.server.schema.fields import fields_of, type_of
from holdfast.server.store import Store, StoredObject
from holdfast.server.store.store import ValueBuilder

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())
_encode = msgspec.json.Encoder().encode
_resources: dict[tuple[str, str], Resource[Any]] = {}


def register_resource(resource: Resource[Any]) -> None:
    """Decode the stored objects of a resource by its published schema.

    Objects of resources that are not registered (custom resources) are decoded unchanged.
    """
    _resources[resource.group, resource.plural] = resource


def decode(stored: StoredObject) -> JsonObject:
    """Decode a stored object to a new dict, whose metadata has the right name and uid."""
    value = msgspec.json.decode(stored.value)
    return drop_mistyped_fields(value, stored) if stored.from_disk else value


def is_terminating(stored: StoredObject) -> bool:
    """Return whether a stored object is being deleted."""
    # The bytes are searched first, so that most objects need not be decoded.
    if b'"deletionTimestamp"' not in stored.value:
        return False
    return bool(decode(stored)["metadata"].get("deletionTimestamp"))


def drop_mistyped_fields(value: Any, stored: StoredObject) -> JsonObject:
    """Return a copy of an object without fields of wrong types, and log their paths."""
    key, mistyped = stored.key, list[str]()
    obj: JsonObject = value if isinstance(value, dict) else {}
    resource = _resources.get((key.group, key.plural))
    kind = type_of(resource) if resource else None
    if resource and kind:
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        obj = field_validation.prune_mistyped(kind, obj, "", mistyped) | head
        if "spec" in fields_of(kind):
            obj["spec"] = obj.get("spec") or {}
    elif isinstance(obj.get("metadata"), dict):
        meta = field_validation.prune_mistyped(
            field_validation.OBJECT_META, obj["metadata"], "metadata", mistyped
        )
        obj = {**obj, "metadata": meta}
    obj["metadata"] = _identified(obj.get("metadata"), stored)
    if mistyped:
        log.error(
            "%s is stored with fields of wrong types, which are ignored: %s",
            key.display_name,
            ", ".join(mistyped),
        )
    return obj


async def repair_metadata(store: Store) -> None:
    """Rewrite the stored objects whose metadata does not match their key.

    Clients get the stored bytes, so they would see another name than the one in the path.
    """
    for resource in tuple(store.resources):
        for stored in store.list(*resource):
            if stored.index.metadata_mismatch:
                log.error(
                    "%s is stored with wrong metadata, which is repaired", stored.key.display_name
                )
                try:
                    await store.update(stored, value_builder(decode(stored)))
                except HoldfastError as failure:  # the server must start even if the disk is full
                    log.error("%s could not be repaired: %s", stored.key.display_name, failure)


def value_builder(obj: JsonObject) -> ValueBuilder:
    """Return the function that encodes the object with its revision."""
    meta = obj["metadata"]

    def build(revision: int) -> bytes:
        meta["resourceVersion"] = str(revision)
        return _encode(obj)

    return build


def _identified(meta: Any, stored: StoredObject) -> JsonObject:
    key = stored.key
    # An object without uid gets the same one at every read until it is written.
    uid = stored.uid or str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(key)))
    known = {"name": key.name, "uid": uid, "resourceVersion": str(stored.revision)}
    if key.namespace:
        known["namespace"] = key.namespace
    kept = {k: v for k, v in meta.items() if k != "namespace"} if isinstance(meta, dict) else {}
    return kept | known
