"""Backups of a running store, and restoring from them."""

import asyncio
import sqlite3
import stat
from contextlib import closing

import pytest

from holdfast.runtime import errors
from holdfast.server.store import restore
from store.store_objects import build, key, names


async def test_a_backup_is_consistent_and_private(tmp_path, store):
    writes = [store.create(key(f"p{i}"), build(f"p{i}")) for i in range(50)]
    await store.backup(tmp_path / "backup.db")
    await asyncio.gather(*writes)
    await store.create(key("later"), build("later"))
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["backup.db", "data"]


async def test_a_backup_does_not_overwrite(tmp_path, store):
    (tmp_path / "mine.db").write_text("precious")
    with pytest.raises(errors.BadConfiguration, match="exists already"):
        await store.backup(tmp_path / "mine.db")
    with pytest.raises(errors.BadConfiguration, match="could not be written"):
        await store.backup(tmp_path / "nowhere" / "b.db")
    assert (tmp_path / "mine.db").read_text() == "precious"


async def test_a_restored_store_makes_every_client_list_again(tmp_path, opened):
    store = opened()
    await store.create(key("a"), build("a", labels={"app": "web"}))
    await store.backup(tmp_path / "backup.db")
    await store.create(key("b"), build("b"))
    await store.create(key("n", "nodes", ""), build("n"))
    with pytest.raises(errors.StoreLocked):
        restore(tmp_path / "backup.db", tmp_path / "data")
    await store.close()
    assert restore(tmp_path / "backup.db", tmp_path / "data") == 1_000_003
    with closing(sqlite3.connect(tmp_path / "data" / "store.db")) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)

    again = opened()
    assert again.cluster_uid == store.cluster_uid
    assert names(again.list("", "pods")) == ["a"] and again.list("", "nodes") == []
    assert again.revision == 1_000_003
    for plural, revision in (("pods", 0), ("pods", 3), ("nodes", 3), ("never-seen", 999_999)):
        with pytest.raises(errors.Expired):
            again.watch("", plural, revision)
        with pytest.raises(errors.Expired):
            again.list_at(revision, "", plural)
    watch = again.watch("", "pods", 1_000_003)
    await again.update(again.get(key("a")), build("a"))
    assert [e.revision for e in await anext(watch)] == [1_000_004]


async def test_a_backup_restores_into_an_empty_directory(tmp_path, opened):
    store = opened()
    await store.create(key("a"), build("a"))
    await store.backup(tmp_path / "backup.db")
    assert restore(tmp_path / "backup.db", tmp_path / "other") == 1_000_001
    other = opened(tmp_path / "other")
    assert names(other.list("", "pods")) == ["a"] and other.cluster_uid == store.cluster_uid
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o700


async def test_a_file_that_is_not_a_backup_leaves_the_store_unchanged(tmp_path, opened):
    store = opened()
    await store.create(key("a"), build("a"))
    await store.close()
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("not a database " * 100)
    for name in ("missing", "empty", "text"):
        with pytest.raises(errors.BadConfiguration, match=name):
            restore(tmp_path / name, tmp_path / "data")
    assert opened().revision == 1
