"""The responses of every kind to every verb, compared with the recorded ones.

``pytest tests/apiserver/test_recorded_answers.py --record`` records them again: do that only for an
intended change of behaviour, and read the difference.
"""

import asyncio
import difflib
import tempfile
from functools import partial
from pathlib import Path

import msgspec
import pytest
from multidict import CIMultiDict

from apiserver import recorded_paths
from apiserver.recorded_extras import record_extras
from apiserver.recorded_kinds import GADGETS, read_kinds
from apiserver.recorded_lifecycle import Lifecycle
from apiserver.recorder import Recorder
from apiserver.server_fixture import Answer, start_server
from apiserver.widgets import CRDS
from holdfast.client.transport import Request
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing import VirtualClock

RECORDED = Path(__file__).parent / "recorded"
NAMES = sorted(path.name for path in RECORDED.glob("*.txt"))
MOST_LINES = 200
"""The most lines of a difference that are shown."""


class WithoutHttp:
    """A running server whose responses come without HTTPS, in half the time.

    The thousands of requests of the kinds show what the server answers; the other files of this
    record, and all other tests of the server, are about HTTPS as well.
    """

    def __init__(self, api):
        self._api, self._transport = api, InProcessTransport(api.server)

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def call(self, method, path, body=None, *, headers=None, **query):
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        sent = {"accept": "*/*"} | ({} if data is None else {"content-type": "application/json"})
        request = Request(method, path, query, sent | (headers or {}), data or b"")
        response = await self._transport.send(request)
        return Answer(response.status, CIMultiDict(response.headers), response.body)


async def record_all(directory):
    """Send all requests to one server; return the text of every file."""
    clock = VirtualClock()
    async with start_server(directory, clock=clock) as api:
        await api.create(CRDS, GADGETS)
        kinds = await read_kinds(api)
        files = {}
        for name, record in (
            ("discovery", recorded_paths.record_discovery),
            ("initial", lambda api, to: recorded_paths.record_initial(api, kinds, to)),
            ("protobuf", lambda api, to: recorded_paths.record_protobuf(api, kinds, to)),
            ("reviews", recorded_paths.record_reviews),
        ):
            to = Recorder(api, clock.now())
            await record(api, to)
            files[f"{name}.txt"] = to.text
        for kind in filter(partial(has_answers_of_its_own, api), kinds):
            lifecycle = Lifecycle(WithoutHttp(api), clock, kind)
            await lifecycle.record()
            await record_extras(lifecycle, kind)
            files[kind.file] = lifecycle.to.text
    return files


def has_answers_of_its_own(api, kind):
    """Leave out versions with the fields of the stored one, which answer as that does."""
    found = api.server.context.registry.find(kind.group, kind.version, kind.plural)
    return bool(found.crd_name or found.storage_version is None or found.conversion)


@pytest.fixture(scope="module")
def answers(request):
    """Return the recorded text by file; with ``--record`` it is written."""
    with tempfile.TemporaryDirectory() as directory:
        files = asyncio.run(record_all(Path(directory)))
    if request.config.getoption("--record"):
        for old in RECORDED.glob("*.txt"):
            old.unlink()
        for name, text in files.items():
            (RECORDED / name).write_text(text)
    return files


@pytest.mark.long
@pytest.mark.timeout(300)
def test_answers_are_as_recorded(answers):
    """Compare all kinds in one test, because each test worker would repeat all requests."""
    differences = [
        line
        for name in NAMES
        for line in difflib.unified_diff(
            (RECORDED / name).read_text().splitlines(),
            answers.get(name, "").splitlines(),
            f"recorded/{name}",
            f"now/{name}",
            lineterm="",
        )
    ]
    if differences:
        found = [f"{len(differences)} lines differ", *differences[:MOST_LINES]]
        pytest.fail("\n".join(found), False)
    assert sorted(answers) == NAMES
