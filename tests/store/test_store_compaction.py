"""Compaction: old events are deleted, the newest are retained, also across a restart."""

import asyncio
import sqlite3

import pytest

from holdfast.runtime import errors
from holdfast.server.store import Retention
from holdfast.server.store.database import Database
from store.store_objects import build, drain, key, names


async def fill(store, names, plural="pods"):
    for name in names:
        await store.create(key(name, plural), build(name))


def rows(tmp_path):
    connection = sqlite3.connect(tmp_path / "data" / "store.db")
    found = [row[0] for row in connection.execute("SELECT rv FROM log ORDER BY rv")]
    connection.close()
    return found


async def test_old_events_are_deleted_except_the_newest_of_each_resource(tmp_path, opened, clock):
    store = opened(retention=Retention(min_events=2))
    await fill(store, "ab", "nodes")
    await fill(store, "abcd")
    await clock.advance(301)
    await fill(store, "e")
    await store.compact()
    assert rows(tmp_path) == [1, 2, 6, 7], "the quiet resource keeps its newest two"
    assert [e.revision for e in await anext(store.watch("", "nodes", 0))] == [1, 2]
    assert [e.revision for e in await anext(store.watch("", "pods", 5))] == [6, 7]
    with pytest.raises(errors.Expired, match=r"^too old resource version: 4 \(5\)$"):
        store.watch("", "pods", 4)
    assert names(store.list("", "pods")) == list("abcde"), "objects are not compacted"


async def test_young_events_are_retained_whatever_their_number(opened, clock):
    store = opened(retention=Retention(min_events=2))
    await fill(store, "abcdef")
    await clock.advance(299)
    await store.compact()
    assert len(await anext(store.watch("", "pods", 0))) == 6
    await store.compact(now=clock.now() + 2)
    with pytest.raises(errors.Expired):
        store.watch("", "pods", 3)


async def test_the_compact_revision_survives_a_restart(opened, clock):
    store = opened(retention=Retention(min_events=1))
    await fill(store, "abc")
    await clock.advance(301)
    await store.compact()
    await store.close()
    again = opened(retention=Retention(min_events=1))
    with pytest.raises(errors.Expired):
        again.watch("", "pods", 1)
    assert [e.revision for e in await anext(again.watch("", "pods", 2))] == [3]
    assert again.revision == 3


async def test_the_store_compacts_by_itself_every_five_minutes(tmp_path, opened, clock):
    store = opened(retention=Retention(min_events=1))
    keeping = asyncio.create_task(store.run())
    await fill(store, "abc")
    await clock.advance(299)
    assert rows(tmp_path) == [1, 2, 3]
    await clock.advance(302)
    assert rows(tmp_path) == [3]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_many_events_are_compacted_at_once(tmp_path, opened, clock):
    store = opened(retention=Retention(min_events=2, max_events=8, max_lag=8))
    await fill(store, map(str, range(30)))
    await clock.settle()
    assert len(rows(tmp_path)) < 18
    await store.close()
    again = opened(retention=Retention(min_events=2, max_events=8, max_lag=8))
    assert [e.revision for e in await drain(again.watch("", "pods", 22), 30)] == [*range(23, 31)]


async def test_large_objects_are_compacted_by_their_bytes(tmp_path, opened, clock):
    retention = Retention(min_events=20, max_bytes=8_000)
    store = opened(retention=retention)
    pod = await store.create(key("a"), build("a"))
    for _ in range(30):
        pod = await store.update(pod, build("a", data="x" * 1_000))
    await clock.settle()
    assert len(rows(tmp_path)) < 20
    with pytest.raises(errors.Expired):
        store.watch("", "pods", 20)
    follow = [e.revision for e in await drain(store.watch("", "pods", 25), 31)]
    assert follow == [*range(26, 32)]
    await store.close()
    again = opened(retention=retention)
    assert [e.revision for e in await drain(again.watch("", "pods", 25), 31)] == follow


async def test_a_long_log_is_deleted_in_batches_and_may_be_interrupted(
    tmp_path, opened, clock, monkeypatch
):
    monkeypatch.setattr("holdfast.server.store.database.COMPACTION_ROWS", 2)
    batches = []

    def interrupt(connection):
        batches.append(connection.total_changes)
        if len(batches) == 10:  # after eight writes and the first batch
            raise sqlite3.OperationalError("disk I/O error")

    store = opened(retention=Retention(min_events=1), fault=interrupt)
    await fill(store, "abcdefgh")
    await clock.advance(301)
    with pytest.raises(errors.Unavailable, match="disk I/O error"):
        await store.compact()
    assert rows(tmp_path) == [3, 4, 5, 6, 7, 8]
    await store.close()
    database = Database(tmp_path / "data" / "store.db")
    assert [row.revision for row in database.log()] == [8], "compacted rows are not read"
    database.close()
    again = opened(retention=Retention(min_events=1))
    with pytest.raises(errors.Expired):
        again.watch("", "pods", 6)
    assert [e.revision for e in await anext(again.watch("", "pods", 7))] == [8]
    await fill(again, "i")
    await again.compact(now=clock.now() + 301)
    assert rows(tmp_path) == [9]


async def test_a_subscription_whose_position_was_compacted_ends(opened, clock):
    store = opened(retention=Retention(min_events=1))
    watch = store.watch("", "pods", 0)
    await fill(store, "abc")
    await clock.advance(301)
    await store.compact()
    assert [batch async for batch in watch] == [] and watch.overrun
