"""Write an admitted object to the store, together with the writes that its admission added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.apiserver.operation import Operation
from holdfast.store import StoredObject


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
