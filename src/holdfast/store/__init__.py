"""Versioned objects and their watch log, durable in one SQLite file.

Lives here: the data directory and its lock, the tables, the writer thread, the objects in
memory with their indexes, the history that watches replay. Values are opaque bytes.

May not live here: HTTP, verbs, admission, validation, selectors beyond equality, or any
opinion about what an object means. Only the API server imports this room.
"""

from holdfast.store.indexing import index_object
from holdfast.store.objects import (
    EventType,
    IndexEntry,
    ObjectKey,
    Retention,
    StoredObject,
    StoreEvent,
)
from holdfast.store.store import MAX_VALUE, Store, check_value_size, restore
from holdfast.store.watch import Subscription

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
