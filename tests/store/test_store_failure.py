"""Failed commits: nothing is stored partly, reads go on, writes are accepted again later."""

import asyncio
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from holdfast.runtime import errors
from store.store_objects import build, drain, key, names

WORDS = r"cannot commit \(database or disk is full\).*writes are refused until a trial commit"


class Disk:
    """A fault for transactions: fails while the disk is full, and can block a commit."""

    def __init__(self):
        self.full = False
        self.failures = 0
        self.trials = 0
        self.under_way, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def __call__(self, connection):
        self.under_way.set()
        assert self.go_on.wait(30)
        if self.full or self.failures:
            self.failures = max(0, self.failures - 1)
            self.trials += 1
            raise sqlite3.OperationalError("database or disk is full")

    async def hold(self):
        self.go_on.clear()
        self.under_way.clear()

    async def held(self):
        assert await asyncio.to_thread(self.under_way.wait, 30)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
async def failing(opened, disk):
    return opened(fault=disk)


async def test_a_failed_commit_fails_its_batch_and_all_queued_writes(failing, disk, clock):
    store = failing
    await store.create(key("kept"), build("kept"))
    await disk.hold()
    first = store.create(key("a"), build("a"))
    await disk.held()
    behind = [store.update(store.latest(key("a")), build("a")), store.create(key("b"), build("b"))]
    disk.full = True
    disk.go_on.set()
    results = await asyncio.gather(first, *behind, return_exceptions=True)
    assert [type(r) for r in results] == [errors.Unavailable] * 3
    with pytest.raises(errors.Unavailable, match=WORDS):
        raise results[2]
    assert store.latest(key("a")) is None and store.latest(key("b")) is None


async def test_writes_queued_behind_a_failed_commit_fail_even_if_the_disk_works_again(
    failing, disk, clock
):
    store = failing
    await disk.hold()
    disk.failures = 1
    first = store.create(key("a"), build("a"))
    await disk.held()
    behind = store.update(store.latest(key("a")), build("a"))
    disk.go_on.set()
    results = await asyncio.gather(first, behind, return_exceptions=True)
    assert [type(r) for r in results] == [errors.Unavailable] * 2
    await clock.advance(1)
    assert (await store.create(key("a"), build("a"))).revision == 3


async def test_reads_and_watches_go_on_while_writes_are_rejected(failing, disk, clock):
    store = failing
    kept = await store.create(key("kept"), build("kept"))
    disk.full = True
    with pytest.raises(errors.Unavailable):
        await store.create(key("a"), build("a"))
    with pytest.raises(errors.Unavailable, match=WORDS) as refused:
        store.update(kept, build("kept"))
    assert refused.value.after == 1.0
    assert store.get(key("kept")) is kept and names(store.list("", "pods")) == ["kept"]
    assert len(await anext(store.watch("", "pods", 0))) == 1


async def test_writes_are_accepted_again_once_a_trial_commit_succeeds(failing, disk, clock):
    store = failing
    kept = await store.create(key("kept"), build("kept"))
    watch = store.watch("", "pods", 1)
    disk.full = True
    with pytest.raises(errors.Unavailable):
        await store.create(key("a"), build("a"))
    await clock.advance(5)
    assert disk.trials >= 5, "it retries about once a second"
    disk.full = False
    with pytest.raises(errors.Unavailable):
        store.update(kept, build("kept"))
    await clock.advance(1)
    stored = await store.update(kept, build("kept", labels={"n": "2"}))
    assert stored.revision > 2, "an assigned revision is not assigned again"
    assert [e.revision for e in await drain(watch, stored.revision)] == [stored.revision]


async def test_a_failure_leaves_nothing_on_disk(failing, disk, clock, opened):
    await failing.create(key("kept"), build("kept"))
    disk.full = True
    for name, plural in (("a", "pods"), ("n", "nodes")):
        with pytest.raises(errors.Unavailable):
            await failing.create(key(name, plural), build(name))
    disk.full = False
    await clock.advance(1)
    await failing.create(key("m", "nodes"), build("m"))
    await failing.close()
    again = opened()
    assert names(again.list("", "pods")) == ["kept"] and names(again.list("", "nodes")) == ["m"]


async def test_a_real_file_size_limit_behaves_like_a_full_disk(tmp_path, opened):
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "store.limited_writer", tmp_path / "data",
        cwd=Path(__file__).parents[1], stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    reported = (await child.stdout.read()).decode().split()
    assert await child.wait() == 0
    assert len(reported) > 3, "some writes fit, and one was made after the limit was removed"
    assert names(opened().list("", "pods")) == sorted(reported)


async def test_a_commit_that_is_stored_although_it_reported_an_error_is_applied(opened, clock):
    lie = False

    def lying(connection):
        nonlocal lie
        if lie:
            lie = False
            connection.execute("COMMIT")
            raise sqlite3.OperationalError("disk I/O error")

    store = opened(fault=lying)
    kept = await store.create(key("kept"), build("kept"))
    watch = store.watch("", "pods", 1)
    lie = True
    with pytest.raises(errors.Unavailable):
        await store.update(kept, build("kept", labels={"n": "2"}))
    (event,) = await anext(watch)
    assert (event.revision, event.previous.revision) == (2, 1)
    assert store.get(key("kept")).index.labels == {"n": "2"} and store.revision == 2
    await clock.settle()
    assert (await store.create(key("a"), build("a"))).revision == 3


async def test_a_store_that_cannot_commit_can_be_closed(failing, disk, clock, opened):
    disk.full = True
    with pytest.raises(errors.Unavailable):
        await failing.create(key("a"), build("a"))
    await clock.advance(1)
    await failing.close()
    disk.full = False
    assert opened().revision == 0
