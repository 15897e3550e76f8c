"""Writes: revisions, preconditions, pending and committed state, batch commits."""

import asyncio
import json
import sqlite3
import threading

import pytest

from holdfast.runtime import errors
from store.store_objects import build, key


async def test_a_write_is_checked_at_once_and_visible_only_after_the_commit(store):
    done = store.create(key("a"), build("a"))
    assert store.latest(key("a")).revision == 1
    assert store.get(key("a")) is None and store.list("", "pods") == [] and store.revision == 0
    stored = await done
    assert store.get(key("a")) is store.latest(key("a")) is stored
    assert store.list("", "pods") == [stored] and store.revision == 1


async def test_the_builder_gets_the_revision_which_rises_across_resources(store):
    pod = await store.create(key("a"), build("a"))
    node = await store.create(key("n", "nodes", ""), build("n"))
    pod = await store.update(pod, build("a", labels={"x": "y"}))
    assert (node.revision, pod.revision, pod.uid) == (2, 3, "uid-a")
    assert json.loads(pod.value)["metadata"]["resourceVersion"] == "3"


async def test_writes_build_on_queued_writes(store):
    writes = [store.create(key("a"), build("a"))]
    with pytest.raises(errors.AlreadyExists, match=r'^pods "a" already exists$'):
        store.create(key("a"), build("a"))
    writes.append(store.update(store.latest(key("a")), build("a", labels={"n": "2"})))
    writes.append(store.delete(store.latest(key("a")), build("a")))
    assert store.latest(key("a")) is None
    writes.append(store.create(key("a"), build("a", labels={"n": "4"})))
    done = await asyncio.gather(*writes)
    assert [stored.revision for stored in done] == [1, 2, 3, 4]
    assert store.get(key("a")).index.labels == {"n": "4"}


async def test_a_stale_previous_version_is_a_conflict(store):
    first = await store.create(key("web", "deployments", group="apps"), build("web"))
    await store.update(first, build("web"))
    with pytest.raises(errors.Conflict) as conflict:
        store.update(first, build("web"))
    assert str(conflict.value) == (
        'Operation cannot be fulfilled on deployments.apps "web": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert conflict.value.details == errors.Details(name="web", group="apps", kind="deployments")
    with pytest.raises(errors.Conflict):
        store.delete(first, build("web"))


async def test_a_write_to_a_deleted_object_is_not_found(store):
    stored = await store.create(key("a"), build("a"))
    gone = store.delete(stored, build("a"))
    with pytest.raises(errors.NotFound, match=r'^pods "a" not found$'):
        store.update(stored, build("a"))
    await gone
    with pytest.raises(errors.NotFound):
        store.delete(stored, build("a"))
    assert store.list("", "pods") == [] and store.resources == []


async def test_a_rejected_write_uses_no_revision(store):
    def refuse(revision):
        raise errors.Invalid(f"not at {revision}")

    with pytest.raises(errors.Invalid, match="not at 1"):
        store.create(key("a"), refuse)
    with pytest.raises(errors.TooLarge, match="the limit is 1572864"):
        store.create(key("a"), build("a", pad="x" * 1_572_864))
    assert store.latest(key("a")) is None
    assert (await store.create(key("a"), build("a"))).revision == 1


async def test_a_cancelled_caller_does_not_undo_the_write(store):
    async def caller():
        await store.create(key("a"), build("a"))

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    await store.create(key("b"), build("b"))
    assert task.cancelled()
    assert store.get(key("a")).revision == 1


async def test_writes_queued_during_a_commit_are_committed_together(opened):
    under_way, go_on, sizes = threading.Event(), threading.Event(), []

    def slow(connection: sqlite3.Connection) -> None:
        sizes.append(connection.execute("SELECT count(*) FROM log").fetchone()[0])
        under_way.set()
        assert go_on.wait(30)

    store = opened(fault=slow)
    first = store.create(key("first"), build("first"))
    assert await asyncio.to_thread(under_way.wait, 30)
    rest = [store.create(key(f"p{i}"), build(f"p{i}")) for i in range(300)]
    go_on.set()
    await asyncio.gather(first, *rest)
    assert sizes == [1, 257, 301]


async def test_futures_complete_in_revision_order(store):
    order = []
    writes = [store.create(key(f"p{i}"), build(f"p{i}")) for i in range(600)]
    for write in writes:
        write.add_done_callback(lambda done: order.append(done.result().revision))
    await asyncio.gather(*writes)
    assert order == list(range(1, 601))


async def test_close_commits_queued_writes_and_rejects_later_ones(opened):
    store = opened()
    writes = [store.create(key(f"p{i}"), build(f"p{i}")) for i in range(10)]
    await store.close()
    assert [write.result().revision for write in writes] == list(range(1, 11))
    with pytest.raises(errors.Unavailable, match="is closed"):
        store.create(key("late"), build("late"))
    with pytest.raises(errors.Unavailable, match="is closed"):
        await store.compact()
    await store.close()
    assert len(opened().list("", "pods")) == 10
