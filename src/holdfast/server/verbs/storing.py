"""Encode an admitted object and store it, together with the writes that its admission added.

A charge to a quota is stored in the transaction of the object. Upstream writes the charge first, so
a write that fails leaves a charge until the next count; here no charge is left (decision 0014).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.operation import Operation
from holdfast.server.store import StoredObject


def with_type_first(obj: Mapping[str, Any], descriptor: KindDescriptor) -> JsonObject:
    """Copy an object with kind, apiVersion and metadata first, as stored bytes must be."""
    head = {
        "kind": descriptor.resource.kind,
        "apiVersion": descriptor.storage_api_version,
        "metadata": obj["metadata"],
    }
    return head | {k: v for k, v in obj.items() if k not in head}


def encode_dry_run(obj: JsonObject, previous: StoredObject | None) -> bytes:
    """Encode the object that a dry run would have stored, with its current resourceVersion."""
    if previous is None:
        obj["metadata"].pop("resourceVersion", None)
    else:
        obj["metadata"]["resourceVersion"] = str(previous.revision)
    return msgspec.json.encode(obj)


async def commit(op: Operation, write: Callable[[], asyncio.Future[StoredObject]]) -> bytes:
    """Commit the write and ``op.related_writes`` in one transaction; return the stored bytes.

    Raises Conflict if a related object was changed after admission read it.
    """
    if not op.related_writes:
        return (await write()).value
    store = op.context.store
    for previous, _ in op.related_writes:
        store.check_latest(previous)
    with store.transaction():
        done = [write()]
        done += [store.update(previous, build) for previous, build in op.related_writes]
    stored = await asyncio.gather(*done)
    return stored[0].value
