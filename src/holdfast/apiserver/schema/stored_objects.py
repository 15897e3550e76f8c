"""Read stored objects, also those that no server of today would have stored.

An object that was on disk when the server started may be of any shape: an older server may have
taken it. Fields that do not fit their types are read as absent, so that no reader fails on them;
the object can be listed, replaced and deleted, and its next write stores it without them.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.resource import Resource
from holdfast.apiserver.schema import field_validation
from holdfast.apiserver.schema.fields import fields_of, type_of
from holdfast.errors import HoldfastError
from holdfast.repeated_log import RepeatFilter
from holdfast.store import Store, StoredObject
from holdfast.store.store import ValueBuilder

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())
_encode = msgspec.json.Encoder().encode
_described: dict[tuple[str, str], Resource[Any]] = {}


def register_resource(resource: Resource[Any]) -> None:
    """Read the objects stored under the resource's group and plural as its published schema says.

    Objects of resources that are not described, custom resources, are read as they are.
    """
    _described[resource.group, resource.plural] = resource


def decode(stored: StoredObject) -> JsonObject:
    """Read a stored object as a dict of the caller's own, with metadata that names it."""
    value = msgspec.json.decode(stored.value)
    return drop_mistyped_fields(value, stored) if stored.from_disk else value


def is_terminating(stored: StoredObject) -> bool:
    """Tell whether a stored object is being deleted."""
    # The bytes are asked first: most objects are not, and need not be decoded.
    if b'"deletionTimestamp"' not in stored.value:
        return False
    return bool(decode(stored)["metadata"].get("deletionTimestamp"))


def drop_mistyped_fields(value: Any, stored: StoredObject) -> JsonObject:
    """Copy an object without the fields that do not fit their types, logging which these are."""
    key, misfits = stored.key, list[str]()
    made: JsonObject = value if isinstance(value, dict) else {}
    resource = _described.get((key.group, key.plural))
    kind = type_of(resource) if resource else None
    if resource and kind:
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        made = field_validation.prune_mistyped(kind, made, "", misfits) | head
        if "spec" in fields_of(kind):
            made["spec"] = made.get("spec") or {}
    elif isinstance(made.get("metadata"), dict):
        meta = field_validation.prune_mistyped(
            field_validation.OBJECT_META, made["metadata"], "metadata", misfits
        )
        made = {**made, "metadata": meta}
    made["metadata"] = _named(made.get("metadata"), stored)
    if misfits:
        log.error(
            "%s is stored with fields of wrong types, which are ignored: %s",
            key.display_name,
            ", ".join(misfits),
        )
    return made


async def repair_metadata(store: Store) -> None:
    """Rewrite the stored objects whose metadata does not name them.

    Clients are shown stored bytes, and would know such an object under another name than the one
    it is deleted by.
    """
    for resource in tuple(store.resources):
        for stored in store.list(*resource):
            if stored.index.metadata_mismatch:
                log.error("%s is stored with wrong metadata and is mended", stored.key.display_name)
                try:
                    await store.update(stored, value_builder(decode(stored)))
                except HoldfastError as failure:  # a full disk: the server starts all the same
                    log.error("%s is not mended: %s", stored.key.display_name, failure)


def value_builder(obj: JsonObject) -> ValueBuilder:
    """Make the function that writes the object once its revision is known."""
    meta = obj["metadata"]

    def build(revision: int) -> bytes:
        meta["resourceVersion"] = str(revision)
        return _encode(obj)

    return build


def _named(meta: Any, stored: StoredObject) -> JsonObject:
    key = stored.key
    # An object without uid gets the same one whenever it is read, until it is written.
    uid = stored.uid or str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(key)))
    known = {"name": key.name, "uid": uid, "resourceVersion": str(stored.revision)}
    if key.namespace:
        known["namespace"] = key.namespace
    kept = {k: v for k, v in meta.items() if k != "namespace"} if isinstance(meta, dict) else {}
    return kept | known
