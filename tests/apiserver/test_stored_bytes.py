"""A data directory of an earlier build can be read, and stored bytes do not change.

``recorded/store.tar.xz`` contains a data directory with one object of every kind at that time. This
build must open it, return every object unchanged, and store the same bytes for the same requests.
``--record`` writes the archive only if it does not exist.
"""

import io
import re
import sqlite3
import tarfile
from pathlib import Path

import pytest

from apiserver.recorded_kinds import GADGETS, read_kinds
from apiserver.recorded_lifecycle import MARKED, renamed, with_label
from apiserver.recorder import Recorder
from apiserver.server_fixture import start_server
from apiserver.test_custom_resources import CRDS
from holdfast.testing import VirtualClock

RECORDED = Path(__file__).parent / "recorded"
ARCHIVE = RECORDED / "store.tar.xz"
SHOWN = RECORDED / "store.shown"
OWN = re.compile(rb'"(uid|resourceVersion)":"[^"]*"')


async def write_all(directory):
    """Store one object of every kind."""
    async with start_server(directory, clock=VirtualClock()) as api:
        await api.create(CRDS, GADGETS)
        for kind in await read_kinds(api):
            sample = with_label(kind.sample)
            if kind.group == GADGETS["spec"]["group"]:  # two versions of one stored kind
                sample = renamed(sample, f"sample-{kind.version}")
            await api.create(kind.path(), sample)


def stored_values(directory):
    """Return the bytes of every stored object by key, without uid and resourceVersion."""
    query = "SELECT grp, resource, ns, name, val FROM obj JOIN res ON res = id"
    database = sqlite3.connect(directory / "store" / "store.db")
    try:
        return {tuple(key): OWN.sub(b"", value) for *key, value in database.execute(query)}
    finally:
        database.close()


def pack(directory):
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for name in ("store.db", "store.revision"):
            content = (directory / "store" / name).read_bytes()
            entry = tarfile.TarInfo(f"store/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


@pytest.fixture
async def earlier(tmp_path, request):
    """Extract the recorded data directory."""
    if request.config.getoption("--record") and not ARCHIVE.exists():
        await write_all(tmp_path / "new")
        pack(tmp_path / "new")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "earlier", filter="data")
    return tmp_path / "earlier"


async def test_the_same_requests_write_the_same_bytes(tmp_path, earlier):
    await write_all(tmp_path)
    now, before = stored_values(tmp_path), stored_values(earlier)
    assert {key: now.get(key) for key in before} == before


async def test_objects_of_an_earlier_build_are_returned_unchanged(earlier, request):
    before = stored_values(earlier)
    clock = VirtualClock()
    async with start_server(earlier, clock=clock) as api:
        to = Recorder(api, clock.now())
        for kind in await read_kinds(api):
            if (await api.call("GET", kind.path(""), **MARKED)).json["items"]:
                await to.ask(kind.plural, "GET", kind.path(""), **MARKED)
    assert stored_values(earlier) == before
    if request.config.getoption("--record"):
        SHOWN.write_text(to.text)
    assert to.text == SHOWN.read_text()
