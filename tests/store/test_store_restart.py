"""Durability: no acknowledged write is lost, no revision is reused, watches resume."""

import asyncio
import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runtime import errors
from holdfast.server.store import Store
from store.store_objects import as_tuples, build, drain, key, names


async def test_objects_revision_and_identity_survive_a_restart(opened):
    store = opened()
    for name in "abc":
        await store.create(key(name), build(name, labels={"app": name}, owners=["o"]))
    await store.update(store.get(key("a")), build("a", labels={"app": "new"}))
    await store.delete(store.get(key("b")), build("b"))
    before = [(s.key, s.revision, s.value) for s in store.list("", "pods")]
    await store.close()
    again = opened()
    assert [(s.key, s.revision, s.value) for s in again.list("", "pods")] == before
    assert (again.revision, again.cluster_uid) == (5, store.cluster_uid)
    assert names(again.list("", "pods", labels={"app": "new"})) == ["a"]
    assert names(again.dependents("o")) == ["c"]
    assert (await again.create(key("d"), build("d"))).revision == 6


async def test_a_watch_resumes_after_a_restart_without_a_relist(opened):
    store = opened()
    stored = await store.create(key("a"), build("a"))
    stored = await store.update(stored, build("a", labels={"n": "2"}))
    await store.create(key("n", "nodes", ""), build("n"))
    await store.delete(stored, build("a", labels={"n": "4"}))
    await store.create(key("a"), build("a", labels={"n": "5"}))
    live = await drain(store.watch("", "pods", 0), 5)
    await store.close()
    again = opened()
    for revision in range(5):
        replayed = await drain(again.watch("", "pods", revision), 5)
        assert as_tuples(replayed) == as_tuples(e for e in live if e.revision > revision)
    assert [e.previous and e.previous.revision for e in replayed] == [None]
    assert [s.revision for s in again.list_at(2, "", "pods")] == [2]


async def test_the_revision_survives_even_when_the_last_write_was_a_deletion(opened):
    store = opened()
    await store.delete(await store.create(key("a"), build("a")), build("a"))
    await store.close()
    assert opened().revision == 2


async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path, opened):
    data = tmp_path / "data"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "store.parallel_writer", data,
        cwd=Path(__file__).parents[1], stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    acknowledged = {}

    def note(line):
        name, revision = line.split()
        acknowledged[name.decode()] = int(revision)

    for _ in range(1000):
        note(await child.stdout.readuntil(b"\n"))
    child.kill()
    rest = (await child.stdout.read()).split(b"\n")
    for line in rest[:-1]:
        note(line)
    assert await child.wait() == -9

    store = opened()
    newest = max(acknowledged.values())
    assert store.revision >= newest
    for name, revision in acknowledged.items():
        stored = store.get(key(name))
        assert stored is not None and stored.revision >= revision
        assert json.loads(stored.value)["metadata"]["resourceVersion"] == str(stored.revision)
    middle = newest // 2
    events = await drain(store.watch("", "pods", middle), store.revision)
    assert [e.revision for e in events] == list(range(middle + 1, store.revision + 1))
    replayed = {s.key: s.value for s in store.list_at(middle, "", "pods")}
    replayed |= {e.key: e.object.value for e in events}
    assert replayed == {s.key: s.value for s in store.list("", "pods")}
    assert (await store.create(key("after"), build("after"))).revision > newest


async def test_a_second_process_is_rejected_with_the_process_id(tmp_path, store):
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from holdfast.runtime.clock import SystemClock; from holdfast.server.store import Store\n"
        "async def main(): Store.open(Path(sys.argv[1]), SystemClock())\n"
        "asyncio.run(main())"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program, tmp_path / "data"], capture_output=True
    )
    assert done.returncode == 1
    message = f"the data directory {tmp_path / 'data'} is in use by process {os.getpid()}"
    assert message in done.stderr.decode() and b"StoreLocked" in done.stderr


async def test_the_lock_is_released_by_close_and_by_a_failed_start(tmp_path, clock, opened):
    store = opened()
    with pytest.raises(errors.StoreLocked):
        opened()
    await store.close()
    again = opened()
    await again.create(key("a"), build("a"))
    await again.close()

    def broken(k, value):
        raise ValueError("an index that fails")

    with pytest.raises(ValueError, match="an index that fails"):
        opened(index=broken)
    assert opened().revision == 1


async def test_files_are_private(tmp_path, opened):
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "store.db").touch(mode=0o644)
    store = opened()
    await store.create(key("a"), build("a"))
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in data.iterdir()}
    assert modes == dict.fromkeys(
        ("store.db", "store.db-wal", "store.db-shm", "store.lock", "store.revision"), 0o600
    )
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


async def test_commits_reach_the_disk_before_they_are_acknowledged(opened):
    seen = []

    def ask(connection):
        seen.append(connection.execute("PRAGMA synchronous").fetchone()[0])
        seen.append(connection.execute("PRAGMA journal_mode").fetchone()[0])

    await opened(fault=ask).create(key("a"), build("a"))
    assert seen == [2, "wal"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("PRAGMA user_version = 99", r"written by a newer Holdfast \(schema 99"),
        ("PRAGMA application_id = 7", "the database of another program"),
    ],
)
async def test_an_unknown_file_is_rejected_and_left_unchanged(
    tmp_path, clock, opened, damage, message
):
    await opened().close()
    path = tmp_path / "data" / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(errors.BadConfiguration, match=message):
            Store.open(tmp_path / "data", clock)
    assert path.read_bytes() == before


async def test_a_file_that_is_not_a_database_is_rejected(tmp_path, clock):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "store.db").write_bytes(b"something else entirely" * 100)
    with pytest.raises(errors.BadConfiguration, match="file is not a database"):
        Store.open(tmp_path / "data", clock)


async def test_a_directory_that_cannot_be_created_is_reported(tmp_path, clock):
    (tmp_path / "file").touch()
    with pytest.raises(errors.BadConfiguration, match="file/data cannot be used: Not a directory"):
        Store.open(tmp_path / "file" / "data", clock)
