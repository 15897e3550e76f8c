"""Database files that cannot be used: the error names the file, and nothing is changed."""

import asyncio
import os
import random
import sqlite3
from contextlib import closing

import pytest

from holdfast.runtime import errors
from holdfast.server.store import Store, restore
from store.store_objects import build, key, names

PAGE = 4096
ADVICE = "nothing was changed; replace it by a backup, or move store.db"


@pytest.fixture
async def data(opened, tmp_path):
    """Return the directory of a closed store with tables, indexes and values on many pages."""
    store = opened()
    made = [
        store.create(key(f"p{i}"), build(f"p{i}", pad="x" * (9_000 if i % 9 == 0 else 200)))
        for i in range(150)
    ]
    await asyncio.gather(*made)
    await store.close()
    return tmp_path / "data"


def contents(directory):
    files = [path for path in directory.iterdir() if not path.name.endswith("-shm")]
    return {path.name: path.read_bytes() for path in files if path.stat().st_size}


def open_error(directory, clock, kind=errors.StoreDamaged):
    """Open a directory twice; return the error, and check that it changes nothing."""
    before = contents(directory)
    for _ in range(2):
        with pytest.raises(kind) as refused:
            Store.open(directory, clock)
    after = contents(directory)
    assert {name: after[name] for name in before if name != "store.lock"} == {
        name: value for name, value in before.items() if name != "store.lock"
    }
    assert "\n" not in str(refused.value)
    assert str(directory / "store.db") in str(refused.value)
    return str(refused.value)


async def test_a_garbage_page_anywhere_is_a_sentence(data, clock):
    """Try every page; garbage in a page that is not in use may go unnoticed."""
    path, dice, found = data / "store.db", random.Random(5), 0
    sound = path.read_bytes()
    pages = len(sound) // PAGE
    for page in range(pages):
        garbage = dice.randbytes(PAGE)
        path.write_bytes(sound[: page * PAGE] + garbage + sound[(page + 1) * PAGE :])
        try:
            store = Store.open(data, clock)
        except errors.BadConfiguration as refused:
            found += 1
            assert "\n" not in str(refused)
            assert f"{path} " in str(refused)
            assert path.read_bytes()[page * PAGE : (page + 1) * PAGE] == garbage
        else:
            await store.close()
    assert pages > 60
    assert found == pages


@pytest.mark.parametrize("fill", [b"\x00", b"\xff"])
async def test_a_blank_page_is_reported_or_changes_nothing(data, clock, opened, fill):
    """Try every page; the blank end of a value in the log may go unnoticed."""
    path = data / "store.db"
    sound = path.read_bytes()
    store, found = opened(), 0
    values = [stored.value for stored in store.list("", "pods")]
    await store.close()
    pages = range(1, len(sound) // PAGE, 3)
    for page in pages:
        path.write_bytes(sound[: page * PAGE] + fill * PAGE + sound[(page + 1) * PAGE :])
        try:
            store = Store.open(data, clock)
        except errors.StoreDamaged as refused:
            found += 1
            assert ADVICE in str(refused)
            continue
        assert [stored.value for stored in store.list("", "pods")] == values
        await store.close()
    assert found > len(pages) * 0.7


async def test_a_value_that_is_not_an_object_is_reported(data, clock):
    with closing(sqlite3.connect(data / "store.db")) as connection, connection:
        connection.execute("UPDATE obj SET val = CAST('{\"metadata\": ' AS BLOB) WHERE name = 'p7'")
    with pytest.raises(errors.StoreDamaged, match=r"store\.db is damaged"):
        Store.open(data, clock)


@pytest.mark.parametrize(
    "damage", ["UPDATE obj SET res = 99", "UPDATE log SET res = 99", "UPDATE log SET type = 9"]
)
async def test_rows_that_refer_to_nothing_are_reported(data, clock, damage):
    with closing(sqlite3.connect(data / "store.db")) as connection, connection:
        connection.execute(damage)
    with pytest.raises(errors.StoreDamaged, match=r"store\.db is damaged"):
        Store.open(data, clock)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
async def test_a_truncated_file_is_reported(data, clock, kept):
    path = data / "store.db"
    os.truncate(path, int(path.stat().st_size * kept) // PAGE * PAGE)
    assert ADVICE in open_error(data, clock)


async def test_an_emptied_file_is_reported_and_not_used_as_a_new_store(data, clock):
    os.truncate(data / "store.db", 0)
    assert "is damaged (it is empty; it had revision 150)" in open_error(data, clock)


async def test_a_file_of_another_program_is_reported(data, clock):
    (data / "store.db").write_bytes(b"something else entirely" * 1000)
    assert "is damaged (file is not a database)" in open_error(data, clock)


async def test_a_directory_in_place_of_the_file_is_reported(tmp_path, clock):
    (tmp_path / "data" / "store.db").mkdir(parents=True)
    with pytest.raises(errors.BadConfiguration, match=r"cannot be used: Is a directory \(.*/store"):
        Store.open(tmp_path / "data", clock)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
@pytest.mark.parametrize("name", ["store.db", "."])
async def test_missing_permissions_are_reported(data, clock, name):
    (data / "store.lock").unlink()
    if name == ".":  # the mode of a directory with other files is not changed
        (data / "store.db").rename(data / "other.db")
    (data / name).chmod(0o500)
    with pytest.raises(errors.BadConfiguration, match="cannot be used: Permission denied"):
        Store.open(data, clock)


async def test_a_file_locked_by_another_program_is_reported(data, clock):
    with closing(sqlite3.connect(data / "store.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("UPDATE meta SET v = v WHERE k = 'last_rv'")
        with pytest.raises(errors.StoreLocked, match=r"store\.db is locked by another program"):
            Store.open(data, clock)
        other.execute("ROLLBACK")
    store = Store.open(data, clock)
    await store.close()


async def test_a_damaged_backup_is_reported_and_the_store_is_unchanged(data, tmp_path, opened):
    sound = (data / "store.db").read_bytes()
    for cut in (PAGE * 3, len(sound) // 2 // PAGE * PAGE):
        (tmp_path / "backup.db").write_bytes(sound[:cut])
        with pytest.raises(errors.StoreDamaged, match=r"backup\.db is damaged"):
            restore(tmp_path / "backup.db", data)
    assert opened().revision == 150


async def test_damage_found_while_running_rejects_all_further_writes(opened, clock, caplog):
    broken = sqlite3.DatabaseError("database disk image is malformed")
    broken.sqlite_errorcode = sqlite3.SQLITE_CORRUPT_INDEX
    failing = False

    def fault(_connection):
        if failing:
            raise broken

    store = opened(fault=fault)
    kept = await store.create(key("kept"), build("kept"))
    failing = True
    with pytest.raises(errors.Unavailable, match="is damaged"):
        await store.create(key("a"), build("a"))
    failing = False
    await clock.advance(60)
    with pytest.raises(errors.Unavailable, match="until the server is started on a sound file"):
        store.update(kept, build("kept"))
    assert "malformed" in store.read_only_reason
    assert names(store.list("", "pods")) == ["kept"]
    assert caplog.text.count("is damaged") == 1


async def test_pages_overwritten_under_a_running_store_reject_writes(data, clock, opened, caplog):
    """Objects in memory stay readable; a write that cannot be stored is not acknowledged."""
    store = opened()
    path = data / "store.db"
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xff" * (path.stat().st_size - PAGE))
    with pytest.raises(errors.Unavailable, match="damaged"):
        await store.create(key("new"), build("new"))
    assert store.read_only_reason
    assert len(store.list("", "pods")) == 150


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE obj SET name = CAST(X'70FF' AS TEXT) WHERE name = 'p7'",
        "UPDATE obj SET name = X'70FF' WHERE name = 'p7'",
        "UPDATE obj SET ns = X'FF' WHERE name = 'p7'",
        "UPDATE obj SET val = CAST(replace(val, CAST('p7' AS BLOB), X'FF37') AS BLOB)",
        "UPDATE log SET val = CAST(replace(val, CAST('p7' AS BLOB), X'FF37') AS BLOB)",
        "UPDATE obj SET val = 5 WHERE name = 'p7'",
        "UPDATE obj SET rv = 'x' WHERE name = 'p7'",
        "UPDATE log SET name = CAST(X'FF' AS TEXT)",
        "UPDATE log SET prev = 5",
        "UPDATE res SET resource = CAST(X'FF' AS TEXT)",
        "UPDATE meta SET v = 'x' WHERE k = 'last_rv'",
        "UPDATE meta SET v = 'x' WHERE k = 'compact_rv'",
        "UPDATE meta SET v = 5 WHERE k = 'cluster_uid'",
        "DELETE FROM meta WHERE k = 'compact_rv'",
        "INSERT OR REPLACE INTO meta VALUES ('gaps', 'x')",
        "INSERT OR REPLACE INTO meta VALUES ('gaps', '[1]')",
    ],
)
async def test_columns_with_wrong_types_or_bytes_are_a_sentence(data, clock, damage):
    with closing(sqlite3.connect(data / "store.db")) as connection, connection:
        connection.execute(damage)
    assert ADVICE in open_error(data, clock)
