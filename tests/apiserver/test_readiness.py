"""/readyz while the store cannot commit, and watches after revisions were lost."""

import asyncio
import shutil
import sqlite3

import pytest

from apiserver.sample_objects import CONFIGMAPS, configmap
from apiserver.server_fixture import start_server


class Disk:
    """A fault for transactions: a full disk or a damaged file."""

    def __init__(self):
        self.error = None

    def __call__(self, _connection):
        if self.error is not None:
            raise self.error


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
async def api(tmp_path, disk):
    async with start_server(tmp_path, fault=disk) as running:
        yield running


async def text_of(api, path):
    answer = await api.call("GET", path)
    return answer.status, answer.body.decode()


async def test_readyz_fails_while_the_disk_is_full_and_recovers_by_itself(api, disk, caplog):
    assert await text_of(api, "/readyz?verbose") == (
        200, "[+]ping ok\n[+]store ok\nreadyz check passed\n",
    )  # fmt: skip
    disk.error = sqlite3.OperationalError("database or disk is full")
    assert (await api.call("POST", CONFIGMAPS, configmap("a"))).status == 503
    assert await text_of(api, "/readyz") == (
        500, "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n",
    )  # fmt: skip
    assert await text_of(api, "/readyz/store") == (
        500, "internal server error: reason withheld\n",
    )  # fmt: skip
    assert await text_of(api, "/readyz?exclude=store") == (200, "ok")
    for path in ("/livez", "/healthz", "/readyz/ping"):
        assert await text_of(api, path) == (200, "ok")
    assert "cannot commit (database or disk is full)" in caplog.text
    disk.error = None
    async with asyncio.timeout(30):
        while (await api.call("GET", "/readyz")).status != 200:
            await asyncio.sleep(0.05)
    assert "commits again" in caplog.text
    await api.create(CONFIGMAPS, configmap("a"))


async def test_readyz_keeps_failing_when_the_database_is_damaged(api, disk, caplog):
    disk.error = sqlite3.DatabaseError("database disk image is malformed")
    disk.error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    await api.call("POST", CONFIGMAPS, configmap("a"))
    disk.error = None
    refused = await api.call("POST", CONFIGMAPS, configmap("a"))
    assert refused.status == 503
    assert "is damaged (database disk image is malformed)" in refused.json["message"]
    assert (await api.call("GET", "/readyz")).status == 500
    assert (await api.call("GET", CONFIGMAPS)).status == 200
    assert caplog.text.count("is damaged") == 1


@pytest.mark.parametrize("path", ["/readyz/nothing", "/livez/store", "/readyz/store/more"])
async def test_a_check_that_does_not_exist_is_not_found(api, path):
    assert (await api.call("GET", path)).status == 404


async def test_a_watch_from_a_lost_revision_is_expired_and_no_revision_is_assigned_twice(tmp_path):
    """Copy the data directory with an empty write-ahead log, as after a crash."""
    async with start_server(tmp_path / "first") as api:
        made = await api.create(CONFIGMAPS, configmap("lost"))
        lost = int(made["metadata"]["resourceVersion"])
        shutil.copytree(tmp_path / "first", tmp_path / "second")
    (tmp_path / "second" / "store" / "store.db-wal").write_bytes(b"")
    for round_ in range(2):  # the second round is after a clean stop
        async with start_server(tmp_path / "second") as api:
            for query in ({"watch": "true"}, {"watch": "true", "allowWatchBookmarks": "true"}):
                answer = await api.call("GET", CONFIGMAPS, resourceVersion=str(lost), **query)
                assert answer.status == 410
                assert answer.json["reason"] == "Expired"
            new = await api.create(CONFIGMAPS, configmap(f"new-{round_}"))
            assert int(new["metadata"]["resourceVersion"]) > lost
            listing = (await api.call("GET", CONFIGMAPS)).json
            assert "lost" not in [item["metadata"]["name"] for item in listing["items"]]
            revision = listing["metadata"]["resourceVersion"]
            async with api.watch(CONFIGMAPS, resourceVersion=revision) as watch:
                later = await api.create(CONFIGMAPS, configmap(f"later-{round_}"))
                event = await watch.next()
            assert event["object"]["metadata"] == later["metadata"]
