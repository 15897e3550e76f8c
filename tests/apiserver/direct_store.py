"""Write invalid objects directly to a store."""

from __future__ import annotations

import msgspec

from holdfast.runtime.clock import SystemClock
from holdfast.server.store import Store


async def store_directly(directory, *objects):
    """Store objects without validation, as an older server may have stored them."""
    store = Store.open(directory, SystemClock())
    for key, obj in objects:
        await write_directly(store, key, obj)
    await store.close()


async def write_directly(store, key, obj):
    """Write one object to an open store without validation."""
    meta = obj.get("metadata")

    def build(revision):
        if isinstance(meta, dict):
            meta.setdefault("uid", f"uid-{revision}")
            meta["resourceVersion"] = str(revision)
        return msgspec.json.encode(obj)

    await store.create(key, build)
