"""Revisions are never assigned twice, even if files are truncated or replaced between two runs."""

import asyncio
import random
import shutil
import sys
from pathlib import Path

import pytest

from holdfast.runtime import errors
from holdfast.server.store import Store, restore
from holdfast.server.store.revision_file import BLOCK, RevisionFile, RevisionGaps
from store.store_objects import build, drain, key, names

LOST = "is lost (the file was truncated, or replaced by an older one)"


async def fill(store, count, prefix="p"):
    """Create objects and return their revisions by name."""
    made = [store.create(key(f"{prefix}{i}"), build(f"{prefix}{i}")) for i in range(count)]
    return {stored.key.name: stored.revision for stored in await asyncio.gather(*made)}


@pytest.fixture
def crash(tmp_path):
    """Return a function that copies the files of an open store, as a kill would leave them."""

    def copy(name="crashed"):
        shutil.copytree(tmp_path / "data", tmp_path / name)
        return tmp_path / name

    return copy


async def test_after_a_clean_stop_revisions_continue_without_a_gap(opened, caplog):
    for start in (0, 3, 6):
        store = opened()
        assert store.revision == start
        assert sorted((await fill(store, 3, f"{start}-")).values()) == [
            start + 1, start + 2, start + 3,
        ]  # fmt: skip
        await store.close()
    assert caplog.text == ""


async def test_after_a_crash_nothing_is_lost_and_nothing_is_logged(opened, crash, caplog):
    store = opened()
    given = await fill(store, 20)
    again = opened(crash())
    assert caplog.text == ""
    assert again.revision == store.revision == 20
    events = await drain(again.watch("", "pods", 5), 20)
    assert [event.revision for event in events] == list(range(6, 21))
    assert (await again.create(key("new"), build("new"))).revision > max(given.values())
    events = await drain(again.watch("", "pods", 5), again.revision)
    assert len(events) == 16


@pytest.mark.parametrize("cut", ["empty", "missing"])
async def test_a_truncated_log_is_reported_and_its_revisions_are_not_assigned_again(
    opened, crash, caplog, cut
):
    store = opened()
    given = set((await fill(store, 20)).values())
    left = crash()
    if cut == "empty":
        (left / "store.db-wal").write_bytes(b"")
    else:
        (left / "store.db-wal").unlink()
        (left / "store.db-shm").unlink()
    again = opened(left)
    assert again.revision < 20
    words = f"ends at revision {again.revision} although revision 20 was committed"
    assert words in caplog.text and LOST in caplog.text
    assert "\n" not in caplog.records[0].getMessage()
    for revision in range(again.revision + 1, 21):
        for ask in (again.watch, again.list_at):
            with pytest.raises(errors.Expired):
                ask(*(("", "pods", revision) if ask == again.watch else (revision, "", "pods")))
    assert not set((await fill(again, 5, "new")).values()) & given


async def test_lost_revisions_stay_expired_after_more_restarts(opened, crash, caplog):
    store = opened()
    await fill(store, 20)
    left = crash()
    (left / "store.db-wal").write_bytes(b"")
    for round_ in range(3):
        again = opened(left)
        for revision in (1, 10, 20):
            with pytest.raises(errors.Expired):
                again.check_not_in_gap(revision)
            with pytest.raises(errors.Expired):
                again.watch("", "pods", revision)
        if round_:  # nothing is written in the first round
            await fill(again, 3, f"round{round_}-")
        await again.close()
    assert caplog.text.count(LOST) == 2, "until something is committed above the lost revision"


async def test_a_log_cut_anywhere_never_makes_a_revision_appear_twice(opened, crash, caplog):
    dice = random.Random(7)
    store = opened()
    seen = {}
    for i in range(30):
        stored = await store.create(key(f"p{i}"), build(f"p{i}", pad="x" * dice.randrange(3000)))
        seen[stored.revision] = stored.value
    for attempt in range(12):
        caplog.clear()
        left = crash(f"cut{attempt}")
        log = left / "store.db-wal"
        size = dice.randrange(log.stat().st_size)
        log.write_bytes(log.read_bytes()[:size])
        again = opened(left)
        assert (LOST in caplog.text) == (again.revision < 30)
        for stored in again.list("", "pods"):
            assert stored.value == seen[stored.revision]
        new = await again.create(key("new"), build("new"))
        assert new.revision not in seen
        await again.close()


async def test_a_database_replaced_by_an_older_copy_is_reported(opened, tmp_path, caplog):
    store = opened()
    await fill(store, 5)
    await store.close()
    old = (tmp_path / "data" / "store.db").read_bytes()
    store = opened()
    given = await fill(store, 5, "lost")
    await store.close()
    (tmp_path / "data" / "store.db").write_bytes(old)
    again = opened()
    assert "ends at revision 5 although revision 10 was committed" in caplog.text
    assert (await again.create(key("new"), build("new"))).revision == 11
    with pytest.raises(errors.Expired):
        again.watch("", "pods", max(given.values()))


async def test_after_the_database_is_removed_revisions_continue_above_the_old_ones(
    opened, tmp_path, caplog
):
    store = opened()
    await fill(store, 5)
    await store.close()
    (tmp_path / "data" / "store.db").rename(tmp_path / "away.db")
    again = opened()
    assert LOST in caplog.text
    assert again.list("", "pods") == []
    assert (await again.create(key("new"), build("new"))).revision == 6


@pytest.mark.parametrize(
    "content", [None, b"", b"garbage", b"\x00" * 42, b"-1 -2", b"9" * 20 + b" 5"]
)
async def test_a_directory_without_a_valid_revision_file_can_be_opened(
    opened, tmp_path, caplog, content
):
    store = opened()
    await fill(store, 5)
    await store.close()
    path = tmp_path / "data" / "store.revision"
    path.unlink() if content is None else path.write_bytes(content)
    again = opened()
    assert ("cannot be read" in caplog.text) == bool(content)
    assert LOST not in caplog.text
    assert (await again.create(key("new"), build("new"))).revision == 6


async def test_a_restored_backup_continues_above_all_reserved_revisions(opened, tmp_path, crash):
    store = opened()
    await fill(store, 5)
    await store.backup(tmp_path / "backup.db")
    left = crash()
    (left / "store.db-wal").write_bytes(b"")
    assert restore(tmp_path / "backup.db", left) >= BLOCK + 1_000_000
    again = opened(left)
    assert len(again.list("", "pods")) == 5
    again.check_not_in_gap(again.revision)


async def test_one_fsync_reserves_many_revisions(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    mark = RevisionFile(tmp_path / "mark")
    synced.clear()
    for revision in range(1, 2 * BLOCK):
        mark.reserve(revision)
        assert mark.reserved > revision
        mark.record_commit(revision)
    assert len(synced) == 2
    mark.close()
    after_a_crash = RevisionFile(tmp_path / "mark")
    assert (after_a_crash.reserved, after_a_crash.committed) == (2 * BLOCK + 1, 2 * BLOCK - 1)
    after_a_crash.close()


async def test_a_commit_whose_revision_cannot_be_reserved_is_rejected(opened, clock, monkeypatch):
    store = opened()
    await fill(store, 1)

    def full(*_given, **_more):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RevisionFile, "reserve", full)
        with pytest.raises(errors.Unavailable, match="No space left on device"):
            await store.create(key("a"), build("a"))
        assert store.read_only_reason
    await clock.advance(1)
    await store.create(key("a"), build("a"))
    assert names(store.list("", "pods")) == ["a", "p0"]


async def test_a_commit_succeeds_even_if_it_cannot_be_recorded_in_the_revision_file(
    opened, monkeypatch
):
    store = opened()
    await fill(store, 1)

    def full(*_given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    await fill(store, 3, "more")
    assert not store.read_only_reason


def test_old_gaps_are_merged_when_there_are_many():
    gaps = RevisionGaps([])
    for i in range(1, 1001):
        gaps.add(i * 10, i * 10 + 5)
    assert len(gaps.as_list()) == RevisionGaps.MAX_GAPS
    for i in range(1, 1001):
        with pytest.raises(errors.Expired):
            gaps.check(i * 10 + 3)
    for revision in (3, 9_990, 9_995):
        gaps.check(revision)


@pytest.mark.long
async def test_kill_9_with_and_without_a_cut_log(tmp_path, clock, caplog):
    """Many rounds on one directory: no false report of a loss, no revision assigned twice."""
    data, dice, given = tmp_path / "data", random.Random(3), {}
    for round_ in range(6):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "store.parallel_writer", data, f"r{round_}",
            cwd=Path(__file__).parents[1], stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        lines = [await child.stdout.readuntil(b"\n") for _ in range(dice.randrange(20, 200))]
        child.kill()
        lines += [line for line in (await child.stdout.read()).split(b"\n")[:-1] if line]
        await child.wait()
        for line in lines:
            name, revision = line.decode().split()
            assert given.setdefault(int(revision), (round_, name)) == (round_, name)
        caplog.clear()
        cut = round_ % 2
        if cut:
            (data / "store.db-wal").write_bytes(b"")
        store = Store.open(data, clock)
        newest = max(int(line.split()[1]) for line in lines)
        assert (LOST in caplog.text) == bool(cut)
        assert (store.revision < newest) == bool(cut)
        await store.close()
