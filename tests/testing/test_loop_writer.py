"""A store whose writer has no thread stores the same, in the same order, as one with a thread."""

import asyncio

from holdfast.runtime import errors
from holdfast.server.store import Store
from holdfast.server.store.writer_thread import WriterThread
from holdfast.testing import VirtualClock
from holdfast.testing.loop_writer import LoopWriter
from store.store_objects import build, key


async def history(directory, writer):
    """Write, fail and write again; return what clients were told, in order, and what is stored."""
    clock, full, told = VirtualClock(), [], []

    def fault(_connection):
        if full:
            raise full[0]

    async def create(store, name):
        try:
            told.append((name, (await store.create(key(name), build(name))).revision))
        except errors.HoldfastError as failure:
            told.append((name, type(failure)))

    store = Store.open(directory, clock, fault=fault, writer=writer)
    await asyncio.gather(*(create(store, f"first-{n}") for n in range(3)))
    full.append(OSError("disk full"))
    await asyncio.gather(create(store, "lost-0"), create(store, "lost-1"))
    full.clear()
    clock.busy.append(lambda: store.busy)
    await clock.advance(60)  # a trial commit succeeds
    last = asyncio.create_task(create(store, "last"))
    await asyncio.sleep(0)
    await store.close()  # commits what is queued
    await last
    store = Store.open(directory, clock, writer=writer)
    stored = [(one.key.name, one.revision) for one in store.list("", "pods", "default")]
    await store.close()
    return told, stored


async def test_both_writers_have_the_same_history(tmp_path):
    with_thread = await history(tmp_path / "thread", WriterThread)
    assert await history(tmp_path / "loop", LoopWriter) == with_thread
    assert [name for name, _ in with_thread[1]] == ["first-0", "first-1", "first-2", "last"]


async def test_a_settled_loop_has_no_pending_write(tmp_path):
    clock = VirtualClock()
    store = Store.open(tmp_path, clock, writer=LoopWriter)
    writing = store.create(key("a"), build("a"))
    await clock.settle()
    assert writing.done() and not store.busy
    await store.close()
