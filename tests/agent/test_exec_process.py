"""Commands beside a container, and the files of a container on a full disk."""

import asyncio
import hashlib
import os
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest

from holdfast.node.agent.container_shim import ContainerLog
from holdfast.node.agent.exec_process import MARK, LocalExec, kill_marked
from holdfast.node.agent.kubelet_server.channels import serve_channels
from holdfast.node.agent.kubelet_server.container_logs import LogFile, LogOptions, read_log
from holdfast.node.agent.kubelet_server.node_containers import NodeContainers
from holdfast.node.agent.pod_directory import PodDirectories
from holdfast.node.agent.process_runtime import ProcessRuntime
from holdfast.node.agent.runtime import ContainerConfig, NotStarted
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import NotFound

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def open_descriptors():
    """Return number and target of each; gRPC may still close some of an earlier test."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that read the directory
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


async def test_a_terminal_takes_much_input_and_leaves_no_descriptor(tmp_path):
    """What the command does not read yet waits; nothing of it is lost."""
    data = b"0123456789abcde\n" * 20_000
    script = "stty raw -echo; echo ready; read go < go; head -c 320000 | md5sum"
    os.mkfifo(tmp_path / "go")
    before = open_descriptors()
    process = await LocalExec.start(("sh", "-c", script), dict(os.environ), tmp_path, tty=True)
    assert b"ready" in await process.read(1)
    writing = asyncio.create_task(process.write(data))
    await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
    output = b""
    while piece := await process.read(1):
        output += piece
    await writing
    assert output.split()[0].decode() == hashlib.md5(data).hexdigest()
    assert await process.wait() == 0
    process.kill()
    await process.write(b"late")
    await asyncio.sleep(0)  # the transport closes its descriptor in a callback
    assert open_descriptors() <= before


async def test_commands_are_killed_by_their_mark(tmp_path):
    """Also those that left the session of the command and have no parent any more."""
    scripts = {"uid/a/0/": "setsid sleep 1000 & echo", "uid/ab/0/": "exec sleep 1000"}
    killed, kept = [
        await LocalExec.start(("sh", "-c", script), {**os.environ, MARK: mark}, tmp_path)
        for mark, script in scripts.items()
    ]
    assert await killed.read(1) == b"\n"
    await asyncio.to_thread(kill_marked, "uid/a/")
    assert await killed.read(1) == b""  # all that had its output have ended
    reading = asyncio.create_task(kept.read(1))
    await asyncio.sleep(0)
    assert not reading.done()
    kept.kill()
    assert await reading == b""
    for process in (killed, kept):  # a process that is not awaited is a warning of a later test
        await process.wait()


async def test_a_command_is_killed_although_its_handler_is_cancelled_meanwhile():
    """The client closes the WebSocket; a moment later its connection is lost."""
    killed = asyncio.Event()

    class Command:
        async def read(self, stream):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                serving.cancel()
                raise

        def kill(self):
            killed.set()

    class Client:
        async def __aiter__(self):
            for _ in range(2):
                await asyncio.sleep(0)  # until the output is being read
                yield SimpleNamespace(type=None, data=b"")

    serving = asyncio.create_task(serve_channels(Client(), Command(), stdin=False))
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert killed.is_set()


async def test_a_line_that_was_cut_off_does_not_end_a_log(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(b"2026-01-0\xff\n2026-01-01T00:00:00Z stdout F text\n")
    log = LogFile(path, lambda: False)
    pieces = [piece async for piece in read_log(log, LogOptions(since=1.0), SystemClock())]
    assert b"text\n" in b"".join(pieces)


def test_a_log_that_cannot_start_again_goes_on_later(tmp_path):
    path = tmp_path / "0.log"
    log = ContainerLog(str(path), 100)
    log.write("stdout", b"first\n")
    (tmp_path / "0.log.new").mkdir()  # as good as a full disk
    log.write("stdout", b"lost" * 20 + b"\n")
    (tmp_path / "0.log.new").rmdir()
    log.write("stdout", b"last" * 20 + b"\n")
    log.close()
    assert "first" in (tmp_path / "0.log.1").read_text()
    assert "last" in path.read_text()


async def test_a_process_whose_files_cannot_be_written_is_not_left_running(tmp_path):
    runtime = ProcessRuntime(PodDirectories(tmp_path), SystemClock())
    (tmp_path / "pods/uid/containers/c/0.json.new").mkdir(parents=True)
    pod = SimpleNamespace(uid="uid", name="p")
    config = ContainerConfig(pod, "c", 0, ("sh", "-c", "echo $$ > pid; sleep 1000"), {})
    with pytest.raises(NotStarted, match="Is a directory"):
        await runtime.start(config)
    running = [pid for pid in os.listdir("/proc") if pid.isdigit() and _cwd(pid)]
    assert not [pid for pid in running if _cwd(pid).startswith(str(tmp_path))]


async def test_a_directory_that_cannot_be_made_is_why_a_container_waits(tmp_path):
    (tmp_path / "pods").touch()
    runtime = ProcessRuntime(PodDirectories(tmp_path), SystemClock())
    config = ContainerConfig(SimpleNamespace(uid="uid", name="p"), "c", 0, ("true",), {})
    with pytest.raises(NotStarted, match="cannot start container c"):
        await runtime.start(config)


async def test_of_two_pods_with_one_name_the_one_that_exists_is_reached():
    """One that was deleted by force may be ending, for as long as a driver takes."""
    workers = [
        SimpleNamespace(pod=SimpleNamespace(key="ns/p"), removed=removed, records=(), runtime=None)
        for removed in (True, False)
    ]
    containers = NodeContainers(lambda: workers, SystemClock())
    assert containers._worker("ns", "p") is workers[1]
    with pytest.raises(NotFound):
        containers._worker("other", "p")


def _cwd(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
