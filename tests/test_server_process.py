"""A child process that fails to start: one message, no hang, nothing left running."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from holdfast.processes import api_server as server_process
from holdfast.processes import cluster as wiring
from holdfast.processes.cluster import Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.runtime.settings import ClusterSettings, NodeSettings, ServerSettings

HANG_SECONDS = 60.0


def settings(directory: Path):
    return ClusterSettings(data_dir=directory, server=ServerSettings(port=0), nodes=NodeSettings(1))


@pytest.fixture
def child(monkeypatch):
    """Return a function that replaces the API server by a Python program."""

    def set_program(text):
        monkeypatch.setattr(server_process, "COMMAND", (sys.executable, "-c", text))

    return set_program


async def failure(directory):
    """Return the message of the error that a start raises."""
    cluster = Cluster(settings(directory), SystemClock())
    with pytest.raises(HoldfastError) as failed:
        await asyncio.wait_for(cluster.start(), HANG_SECONDS)
    assert not cluster.healthy
    assert "\n" not in str(failed.value)
    return str(failed.value)


async def test_a_child_that_is_killed_before_it_is_ready(child, tmp_path):
    child("import os; os.kill(os.getpid(), 9)")
    assert await failure(tmp_path) == (
        "the API server ended before it was ready (killed by SIGKILL); "
        "its own messages, if it wrote any, are above"
    )


@pytest.mark.parametrize("part", ["ready", "ready https://127.0.0.1:6", 'failed "por'])
async def test_a_child_that_is_killed_while_it_writes(child, tmp_path, part):
    child(f"import os; os.write(1, {part.encode()!r}); os.kill(os.getpid(), 9)")
    assert "ended before it was ready (killed by SIGKILL)" in await failure(tmp_path)


async def test_a_child_that_exits_before_it_is_ready(child, tmp_path, capfd):
    child("import sys; sys.exit('no such module')")
    assert "(exit code 1)" in await failure(tmp_path)
    assert "no such module" in capfd.readouterr().err


async def test_the_child_gets_the_feature_gates(child, tmp_path):
    child("import json, sys; print('failed', json.dumps(' '.join(sys.argv[1:])), flush=True)")
    server = ServerSettings(port=0, feature_gates=FeatureGates.parse("DRADeviceTaintRules=true"))
    cluster = Cluster(ClusterSettings(tmp_path, server=server), SystemClock())
    with pytest.raises(HoldfastError, match="--feature-gates DRADeviceTaintRules=true"):
        await asyncio.wait_for(cluster.start(), HANG_SECONDS)


async def test_a_child_that_reports_why_it_failed(child, tmp_path):
    child("""import json; print('failed', json.dumps('port 7 is "busy"'))""")
    assert await failure(tmp_path) == 'port 7 is "busy"'


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("print('hello', flush=True)", "b'hello\\n'"),
        ("print('ready nowhere', flush=True)", "b'ready nowhere\\n'"),
        ("import os; os.write(1, bytes(range(128, 256)) + b'\\n')", "b'\\x80"),
        ("print('x' * 100_000, flush=True)", "b'a line of 64 KiB or more'"),
    ],
)
async def test_a_child_that_writes_something_else(child, tmp_path, said, shown):
    child(f"{said}\nimport sys; sys.stdin.read()")
    message = await failure(tmp_path)
    assert message.startswith(f"the API server did not start: it wrote {shown}")
    assert message.endswith(" instead of its address")


async def test_a_child_that_hangs_is_stopped_or_killed(child, tmp_path, monkeypatch):
    monkeypatch.setattr(server_process, "READY_SECONDS", 3.0)
    monkeypatch.setattr(server_process, "EXIT_SECONDS", 0.2)
    note = tmp_path / "pid"
    child(f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    assert await failure(tmp_path) == "the API server was not ready after 3 s and was stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


SILENT = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print("ready", f"https://127.0.0.1:{listener.getsockname()[1]}", flush=True)
"""


@pytest.fixture
def credentials(tmp_path):
    """Create the credentials of an earlier server."""
    from holdfast.server.access.credentials import (
        ensure_component_certificates,
        ensure_credentials,
    )

    now = SystemClock().now()
    ensure_component_certificates(ensure_credentials(tmp_path / wiring.PKI, now), now)


async def test_a_child_that_dies_while_the_components_start(child, tmp_path, credentials):
    child(SILENT + "listener.accept(); sys.exit(7)")
    assert await failure(tmp_path) == (
        "the API server ended while the cluster started (exit code 7); "
        "its own messages, if it wrote any, are above; the data is safe"
    )


async def test_a_child_that_does_not_respond(child, tmp_path, credentials, monkeypatch):
    monkeypatch.setattr(wiring, "START_SECONDS", 1.0)
    monkeypatch.setattr(wiring, "STOP_SECONDS", 0.5)
    child(SILENT + "sys.stdin.read()")
    assert await failure(tmp_path) == "the cluster was not up after 1 s"
