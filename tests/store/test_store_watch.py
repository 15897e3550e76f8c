"""Watches: replay, new events, filters, slow readers, closing."""

import asyncio
import threading

import pytest

from holdfast.runtime import errors
from holdfast.server.store import Retention
from store.store_objects import as_tuples, build, drain, key


async def three_changes(store):
    stored = await store.create(key("a"), build("a"))
    stored = await store.update(stored, build("a", labels={"n": "2"}))
    await store.delete(stored, build("a", labels={"n": "3"}))


CHANGES = [
    (1, "ADDED", "a", build("a")(1), None),
    (2, "MODIFIED", "a", build("a", labels={"n": "2"})(2), build("a")(1)),
    (3, "DELETED", "a", build("a", labels={"n": "3"})(3), build("a", labels={"n": "2"})(2)),
]


@pytest.mark.parametrize("revision", range(3))
async def test_a_watch_replays_exactly_the_events_after_its_revision(store, revision):
    await three_changes(store)
    watch = store.watch("", "pods", revision)
    assert as_tuples(await drain(watch, 3)) == CHANGES[revision:]


async def test_a_watch_continues_with_new_events_without_a_gap(store):
    watch = store.watch("", "pods", 0)
    reader = asyncio.create_task(drain(watch, 3))
    await three_changes(store)
    assert as_tuples(await reader) == CHANGES


async def test_no_event_is_published_before_its_commit(opened):
    under_way, go_on = threading.Event(), threading.Event()

    def hold(connection):
        under_way.set()
        assert go_on.wait(30)

    store = opened(fault=hold)
    reader = asyncio.ensure_future(anext(store.watch("", "pods", 0)))
    write = store.create(key("a"), build("a"))
    assert await asyncio.to_thread(under_way.wait, 30)
    assert not reader.done() and not write.done() and store.get(key("a")) is None
    go_on.set()
    (event,) = await reader
    assert event.object is store.get(key("a")) is await write


async def test_a_watch_sees_only_events_of_its_resource(store):
    nodes = store.watch("", "nodes", 0)
    await store.create(key("a"), build("a"))
    await store.create(key("n", "nodes", ""), build("n"))
    assert [e.key.name for e in await anext(nodes)] == ["n"]


async def test_fifty_watchers_share_the_same_events(store):
    watches = [store.watch("", "pods", 0) for _ in range(50)]
    readers = [asyncio.create_task(drain(watch, 300)) for watch in watches]
    await asyncio.gather(*(store.create(key(f"p{i}"), build(f"p{i}")) for i in range(300)))
    first, *others = await asyncio.gather(*readers)
    assert [event.revision for event in first] == list(range(1, 301))
    assert all(events == first for events in others)


async def test_a_filtered_event_does_not_wake_the_reader(store):
    def on_n1(event):
        return event.object.index.fields.get("spec.nodeName") == "n1"

    watch = store.watch("", "pods", 0, accept=on_n1)
    reader = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    for name in ("a", "b"):
        await store.create(key(name), build(name))
        await asyncio.sleep(0)
        assert not reader.done() and watch.revision == store.revision
    await store.create(key("c"), build("c", node="n1"))
    assert [e.key.name for e in await reader] == ["c"]


async def test_a_filter_applies_to_the_replay_too(store):
    for number in range(600):
        await store.create(key(f"p{number}"), build(f"p{number}"))
    watch = store.watch("", "pods", 0, accept=lambda event: event.revision == 600)
    assert [e.revision for e in await anext(watch)] == [600]


async def test_a_filter_that_raises_affects_only_its_own_reader(store):
    watch = store.watch("", "pods", 0, accept=lambda event: 1 // 0)
    reader = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await store.create(key("a"), build("a"))
    with pytest.raises(ZeroDivisionError):
        await reader


async def test_the_revision_of_a_watch_is_correct_for_a_bookmark(store):
    watch = store.watch("", "pods", 0)
    await store.create(key("a"), build("a"))
    assert watch.revision == 0, "the event is not returned yet"
    await anext(watch)
    await store.create(key("n", "nodes", ""), build("n"))
    assert watch.revision == 2, "all its events up to there were returned"


async def test_a_reader_that_lags_too_far_ends_and_can_resume(opened):
    store = opened(retention=Retention(max_lag=5))
    watch = store.watch("", "pods", 0)
    await store.create(key("p0"), build("p0"))
    assert len(await anext(watch)) == 1
    for number in range(1, 8):
        await store.create(key(f"p{number}"), build(f"p{number}"))
    assert [batch async for batch in watch] == []
    assert watch.overrun and watch.revision == 1
    resumed = store.watch("", "pods", watch.revision)
    assert [e.revision for e in await anext(resumed)] == [2, 3, 4, 5, 6, 7, 8]


async def test_the_watch_cache_never_exceeds_its_limit(opened):
    store = opened(retention=Retention(min_events=2, max_events=8, max_lag=8))
    stuck = store.watch("", "pods", 0)
    for number in range(20):
        await store.create(key(f"p{number}"), build(f"p{number}"))
    with pytest.raises(errors.Expired):
        store.watch("", "pods", 9)
    assert [e.revision for e in await anext(store.watch("", "pods", 12))] == list(range(13, 21))
    assert [batch async for batch in stuck] == [] and stuck.overrun


async def test_closing_a_watch_ends_its_reader_and_is_idempotent(store):
    watch = store.watch("", "pods", 0)
    reader = asyncio.ensure_future(anext(watch, "the end"))
    await asyncio.sleep(0)
    watch.close()
    watch.close()
    assert await reader == "the end" and not watch.overrun
    await store.create(key("a"), build("a"))
    assert await anext(watch, "the end") == "the end"


async def test_a_cancelled_reader_loses_nothing(store):
    watch = store.watch("", "pods", 0)
    reader = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    await store.create(key("a"), build("a"))
    assert [e.revision for e in await anext(watch)] == [1]


async def test_closing_the_store_ends_all_watches(opened):
    store = opened()
    readers = [asyncio.ensure_future(anext(store.watch("", "pods", 0), None)) for _ in range(3)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*readers) == [None, None, None]
    with pytest.raises(errors.Unavailable):
        store.watch("", "pods", 0)
