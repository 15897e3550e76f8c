"""``holdfast agent`` before its API server is there: it waits, as a kubelet does."""

import asyncio
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.process_cluster import short_directory
from cli.conftest import read_until, with_client
from cli.process_requests import asked
from free_port import free_port
from holdfast.api.scheme import NODES

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("cli-processes")]


@contextmanager
def forwarding(port, target):
    """Forward connections from a port to another one."""
    loop = asyncio.new_event_loop()

    async def copy(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def connected(reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    async def serve(ready, stop):
        server = await asyncio.start_server(connected, "127.0.0.1", port)
        ready.set()
        await stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the writers that were closed end their transports

    ready, stop = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(ready, stop),))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def directory():
    with short_directory() as path:
        yield path


@dataclass(frozen=True)
class Absent:
    """An API server at a port where nothing listens yet, and its kubeconfig."""

    kubeconfig: Path
    port: int
    actual_port: int


@pytest.fixture
def absent(server, tmp_path):
    """The kubeconfig of the server with another port."""
    port, text = free_port(), server.read_text()
    [line] = [line for line in text.splitlines() if "server:" in line]
    actual = int(line.rpartition(":")[2].strip('" '))
    moved = tmp_path / "kubeconfig"
    moved.write_text(text.replace(f":{actual}", f":{port}"))
    moved.chmod(0o600)
    return Absent(moved, port, actual)


@pytest.fixture
def flags(absent, directory):
    """The flags of an agent of the absent server."""
    return ("--node", "late", "--node-dir", directory, "--kubeconfig", absent.kubeconfig)


def test_an_agent_waits_for_its_api_server_with_one_line_and_is_not_ready(
    server, start, absent, flags
):
    health = free_port()
    agent = start("agent", *flags, "--health-port", health)
    output = read_until(agent, "node late is not registered yet")
    assert f"127.0.0.1:{absent.port}" in output
    assert "trying again" in output
    status, text = asked(health, "/readyz")
    assert (status, "the node is not registered yet" in text) == (500, True)
    assert asked(health, "/livez") == (200, "ok")
    with forwarding(absent.port, absent.actual_port):
        output = read_until(agent, "Ctrl-C")
        assert "not registered yet" not in output
        assert asked(health, "/readyz") == (200, "ok")
        found = with_client(server, lambda client: client.get(NODES, "late"))
        assert found.name == "late"
        agent.send_signal(signal.SIGTERM)
        agent.communicate()
        assert agent.returncode == 0


def test_an_agent_that_waits_can_be_stopped(start, flags):
    agent = start("agent", *flags)
    read_until(agent, "node late is not registered yet")
    agent.send_signal(signal.SIGTERM)
    agent.communicate()
    assert agent.returncode == 0
