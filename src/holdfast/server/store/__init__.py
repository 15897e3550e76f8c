"""Versioned objects and their watch history, durable in one SQLite file.

Lives here: the data directory and its lock, the SQLite tables, the writer thread, the objects in
memory with their indexes, the watch cache. Values are opaque bytes.

May not live here: HTTP, verbs, admission, validation, selectors beyond equality, and anything
that depends on the kind of an object. Only ``server``, ``embedded_server`` and ``testing``
import this package.
"""

from holdfast.server.store.indexing import index_object
from holdfast.server.store.objects import (
    MAX_VALUE,
    EventType,
    IndexEntry,
    ObjectKey,
    Retention,
    StoredObject,
    StoreEvent,
    check_value_size,
)
from holdfast.server.store.store import Store, restore
from holdfast.server.store.watch import Subscription

__all__ = [
    "MAX_VALUE",
    "EventType",
    "IndexEntry",
    "ObjectKey",
    "Retention",
    "Store",
    "StoreEvent",
    "StoredObject",
    "Subscription",
    "check_value_size",
    "index_object",
    "restore",
]
