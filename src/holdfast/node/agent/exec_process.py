"""Commands that run in addition to a container's process: probes, hooks, ``kubectl exec``."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
import time
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.node.agent.runtime import NotRunning

CHUNK = 64 * 1024
MARK = "HOLDFAST_EXEC"
"""The environment variable that marks such commands."""
_KILL_ROUNDS = 100


def kill_marked(mark: str) -> None:
    """Kill all processes whose mark has this prefix, in any session. Blocks."""
    wanted = f"\0{MARK}={mark}".encode()
    for _ in range(_KILL_ROUNDS):
        pids = [pid for pid in os.listdir("/proc") if pid.isdigit() and wanted in _environ(pid)]
        if not pids:
            return
        for pid in pids:
            with suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)  # until they have ended; they may have started others before


def _environ(pid: str) -> bytes:
    """Return the environment of a process; b"" if it has ended or is another user's."""
    try:
        return b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


class LocalExec:
    """A local process in a new session, with pipes or a terminal."""

    def __init__(
        self,
        process: Process,
        pipes: asyncio.SubprocessTransport,
        terminal: tuple[int, asyncio.StreamReader, asyncio.ReadTransport] | None = None,
    ) -> None:
        self._process = process
        self._pipes = pipes
        self._terminal = terminal

    @classmethod
    async def start(
        cls,
        command: tuple[str, ...],
        env: Mapping[str, str],
        cwd: Path,
        *,
        stdin: bool = False,
        tty: bool = False,
    ) -> LocalExec:
        """Start a command; raise NotRunning if it cannot be run."""
        if not command:
            raise NotRunning("no command was given")
        try:
            if not tty:
                source = PIPE if stdin else asyncio.subprocess.DEVNULL
                return cls(*await _start(command, env, cwd, (source, PIPE, PIPE)))
            return await cls._with_terminal(command, env, cwd)
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else error
            raise NotRunning(f"cannot run {command[0]!r}: {words}") from error

    @classmethod
    async def _with_terminal(
        cls, command: tuple[str, ...], env: Mapping[str, str], cwd: Path
    ) -> LocalExec:
        main, other = pty.openpty()
        try:
            started = await _start(command, env, cwd, (other, other, other))
        except BaseException:
            os.close(main)
            raise
        finally:
            os.close(other)
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(main), "rb")
        )
        return cls(*started, (main, reader, transport))

    async def write(self, data: bytes) -> None:
        """Write to its standard input."""
        if self._terminal is not None:
            with suppress(OSError):  # the terminal is closed with its last process
                await _write_all(self._terminal[0], data)
        elif self._process.stdin is not None:
            with suppress(BrokenPipeError, ConnectionResetError):
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    def close_stdin(self) -> None:
        """Close its standard input."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def read(self, stream: int) -> bytes:
        """Return the next bytes of stdout (1) or stderr (2); b"" at the end."""
        if self._terminal is not None:
            if stream != 1:
                return b""
            try:
                return await self._terminal[1].read(CHUNK)
            except OSError:  # the terminal is closed with its last process
                return b""
        source = self._process.stdout if stream == 1 else self._process.stderr
        return await source.read(CHUNK) if source is not None else b""

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of its terminal, if it has one."""
        if self._terminal is not None:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._terminal[0], termios.TIOCSWINSZ, size)

    async def wait(self) -> int:
        """Return its exit code."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        """Kill it and its children; close its terminal."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # asyncio closes it when all pipes have ended; a stopping loop does not wait for that.
        self._pipes.close()
        if self._terminal is not None:
            main, _, transport = self._terminal
            self._terminal = None
            transport.close()
            os.close(main)


async def _start(
    command: tuple[str, ...], env: Mapping[str, str], cwd: Path, streams: tuple[int, int, int]
) -> tuple[Process, asyncio.SubprocessTransport]:
    """Start a process in a new session; return it with the transport of its pipes."""
    loop = asyncio.get_running_loop()
    stdin, stdout, stderr = streams
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(CHUNK, loop),
        *command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    return Process(transport, protocol, loop), transport


async def _write_all(descriptor: int, data: bytes) -> None:
    """Write to a non-blocking descriptor, as fast as the other side reads."""
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_writer(descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_writer(descriptor)
