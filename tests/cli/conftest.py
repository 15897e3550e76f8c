import asyncio
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.forked_program import ForkedProgram
from holdfast.api.scheme import NODES, PODS
from holdfast.cli.app import main
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.testing import a_node, a_pod

PROGRAM = [sys.executable, "-m", "holdfast"]


@dataclass
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def holdfast(monkeypatch, capfd):
    """Return a function that runs a command in this process."""

    def run(*arguments):
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["holdfast", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        output = capfd.readouterr()
        return Done(end.value.code or 0, output.out, output.err)

    return run


def run_program(*arguments):
    """Run a command in a new process, as a user does."""
    command = [*PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    return Done(done.returncode, done.stdout, done.stderr)


@contextmanager
def processes():
    """Yield a function that starts the program in new processes; kill them at the end."""
    started = []

    def run(*arguments):
        started.append(ForkedProgram(*arguments))
        return started[-1]

    try:
        yield run
    finally:
        for process in started:
            process.kill()
            if not process.stdout.closed:
                process.communicate()


@pytest.fixture
def start():
    with processes() as run:
        yield run


def read_until(process, words):
    """Return the output of a process up to a line with these words."""
    output = []
    for line in process.stdout:
        output.append(line)
        if words in line:
            return "".join(output)
    raise AssertionError("the process ended without these words; its output:\n" + "".join(output))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def with_client(kubeconfig, work):
    """Run ``work(client)`` with a client of a kubeconfig; return its result."""

    async def run():
        client = Client(HttpTransport(await load(kubeconfig)))
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def placed(kubeconfig, name):
    """Create a pod and return the node it is bound to."""

    async def work(client):
        found = await client.create(PODS, a_pod(name), "default")
        while not found.spec.node_name:
            await asyncio.sleep(0.02)
            found = await client.get(PODS, name, "default")
        return found.spec.node_name

    return with_client(kubeconfig, work)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start an API server with one node; return its kubeconfig."""
    data = tmp_path_factory.mktemp("server")
    with processes() as start:
        process = start("apiserver", "--data-dir", data, "--port", "0")
        read_until(process, "export KUBECONFIG=")
        with_client(data / "kubeconfig", _create_node)
        yield data / "kubeconfig"


async def _create_node(client):
    await client.create(NODES, a_node("n"))
    # There is no controller that would remove the not-ready taint of a new node.
    await client.patch(NODES, "n", {"spec": {"taints": None}})
