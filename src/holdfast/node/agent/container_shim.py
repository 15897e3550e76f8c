"""Run the process of one container: keep its log and record how it ended.

The process runtime starts this file in a separate interpreter for each container, so that a
container outlives its agent: the next agent finds the files that this program writes. It imports
only the standard library, and not Holdfast: it must start in milliseconds.

The process of a container has the same user and may do anything to this program. So the state is
written before the first instruction of the process, which may stop or kill its parent. This program
is a child subreaper, and so the parent of every descendant. Otherwise a daemon could keep running
after its container, with devices that are unprepared.

Standard input is one JSON object (see ``ProcessRuntime``). One line on standard output says that
the process was started, or why it was not. SIGTERM is passed on to the process and its group;
SIGUSR1 kills all of them. The file descriptor ``lock`` stays locked as long as this program runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
CHUNK = 64 * 1024
LONGEST_LINE = 16 * 1024
"""Longer lines are written in parts, as by container runtimes."""
DRAIN_SECONDS = 2.0
"""How long the output of killed processes is read."""


class ContainerLog:
    """A log in the CRI format, which starts again in a new file when it is too large."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._limit = path, limit
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size
        self._rest = {"stdout": b"", "stderr": b""}

    def write(self, stream: str, data: bytes) -> None:
        """Add output of a stream; text without a line end waits for the rest."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        text = b"".join(self._entries(stream, line, b"F") for line in lines)
        while len(rest) >= LONGEST_LINE:
            text += _entry(stream, rest[:LONGEST_LINE], b"P")
            rest = rest[LONGEST_LINE:]
        self._rest[stream] = rest
        self._append(text)

    def close(self) -> None:
        """Write the last line of each stream if it has no line end."""
        for stream, rest in self._rest.items():
            if rest:
                self._append(_entry(stream, rest, b"P"))
        os.close(self._file)

    def _entries(self, stream: str, line: bytes, last: bytes) -> bytes:
        parts = [line[i : i + LONGEST_LINE] for i in range(0, len(line), LONGEST_LINE)] or [b""]
        texts = [_entry(stream, part, b"P") for part in parts[:-1]]
        return b"".join([*texts, _entry(stream, parts[-1], last)])

    def _append(self, text: bytes) -> None:
        if not text:
            return
        try:
            if self._size and self._size + len(text) > self._limit:
                self._start_again()
            while text:
                written = os.write(self._file, text)
                self._size, text = self._size + written, text[written:]
        except OSError:
            pass  # a full disk: the process must not stop for its log

    def _start_again(self) -> None:
        """Rename the file to ``.1``, and write to a new one."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        new = os.open(self._path + ".new", flags, 0o600)
        os.replace(self._path, self._path + ".1")
        os.replace(self._path + ".new", self._path)
        os.close(self._file)
        self._file, self._size = new, 0


def _entry(stream: str, text: bytes, tag: bytes) -> bytes:
    seconds, nanos = divmod(time.time_ns(), 10**9)
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return b"%s.%09dZ %s %s %s\n" % (when.encode(), nanos, stream.encode(), tag, text)


def main() -> None:
    """Start the process, copy its output, and record how it ended."""
    config = json.loads(sys.stdin.buffer.read())
    os.set_inheritable(config["lock"], False)
    _adopt_orphans()
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for awaited in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(awaited, lambda *_: None)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    process = _Process(config, out[1], err[1])
    pid = process.pid
    os.close(out[1])
    os.close(err[1])
    state = {
        "shim": os.getpid(), "pid": pid, "pid_ticks": start_ticks(pid),
        "started_at": time.time(), "attempt": config["attempt"],
    }  # fmt: skip
    try:
        # Before the first instruction of the process, because it may do anything to its parent.
        _write_json(config["state"], state)
        log = ContainerLog(config["log"], config["log_bytes"])
        problem = process.run()
    except OSError as error:  # such as a full disk; the process ends without its command
        problem = f"{error.strerror}: {error.filename or config['state']}"
    if problem:
        with suppress(OSError):
            os.unlink(config["state"])
        _answer({"error": problem})
        return
    _answer({"started_at": state["started_at"]})
    code, number = _serve(pid, {out[0]: "stdout", err[0]: "stderr"}, wake_read, log)
    log.close()
    end = {"code": code, "signal": number, "finished_at": time.time()}
    _write_json(config["state"], state | {"exit": end})


def _adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends, so that none escapes."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class _Process:
    """The process of the container, in a new session; it waits for ``run``."""

    def __init__(self, config: dict[str, Any], out: int, err: int) -> None:
        go_read, self._go = os.pipe2(os.O_CLOEXEC)
        self._failure, fail_write = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            if os.read(go_read, 1):
                os.write(fail_write, _execute(config, out, err).encode())
            os._exit(128)
        os.close(go_read)
        os.close(fail_write)

    def run(self) -> str:
        """Let the process run its command; return why it cannot, or ""."""
        os.write(self._go, b"1")
        os.close(self._go)
        with os.fdopen(self._failure, "rb") as failure:
            text = failure.read().decode()
        if text:
            os.waitpid(self.pid, 0)
        return text


def _execute(config: dict[str, Any], out: int, err: int) -> str:
    """Replace this process by the command; return why that is not possible."""
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(config["cwd"])
        os.execvpe(config["command"][0], config["command"], config["env"])
    except OSError as error:
        return f"{error.strerror}: {os.fsdecode(error.filename or config['command'][0])}"
    except ValueError as error:
        return str(error)


def _serve(pid: int, streams: dict[int, str], wake: int, log: ContainerLog) -> tuple[int, int]:
    """Copy output until the process and all its descendants have ended."""
    poll = select.poll()
    for descriptor in (*streams, wake):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    end: tuple[int, int] | None = None
    deadline = 0.0
    while end is None or ((streams or children_of("self")) and time.monotonic() < deadline):
        for descriptor, _ in poll.poll(10 if end else None):
            if descriptor == wake:
                _pass_on(pid, os.read(wake, 4096), running=end is None)
            elif data := os.read(descriptor, CHUNK):
                log.write(streams[descriptor], data)
            else:
                poll.unregister(descriptor)
                del streams[descriptor]
        status = _reap(pid)
        if status is not None and end is None:
            end, deadline = status, time.monotonic() + DRAIN_SECONDS
        if end is not None:
            kill_descendants()
    return end


def _pass_on(pid: int, numbers: bytes, *, running: bool) -> None:
    if signal.SIGTERM in numbers and running:
        _kill_group(pid, signal.SIGTERM)
    if signal.SIGUSR1 in numbers:
        if running:
            _kill_group(pid, signal.SIGKILL)
        kill_descendants()


def _kill_group(pid: int, number: int) -> None:
    with suppress(OSError):
        os.killpg(pid, number)


def _reap(pid: int) -> tuple[int, int] | None:
    """Collect children that ended; return exit code and signal of the process if it has."""
    code_and_signal = None
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code_and_signal
        if child == 0:
            return code_and_signal
        if child == pid:
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            code_and_signal = (128 + number if number else os.WEXITSTATUS(status), number)


def kill_descendants() -> None:
    """Kill all descendants of this process."""
    below = children_of("self")
    for pid in below:
        below += children_of(pid)
    for pid in below:
        with suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)


def children_of(pid: str) -> list[str]:
    """Return the ids of the children of a process; none if it has ended."""
    process = str(os.getpid()) if pid == "self" else pid
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            return file.read().split()
    except OSError:
        return []


def start_ticks(pid: int) -> str:
    """Return when a process was started, in the kernel's ticks; "" if it is not known."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _write_json(path: str, value: dict[str, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(path + ".new", flags, 0o600), "w") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)


def _answer(value: dict[str, Any]) -> None:
    """Tell the agent, which may be gone, and close the pipe to it."""
    with suppress(OSError):
        os.write(1, json.dumps(value).encode() + b"\n")
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(devnull, descriptor)


if __name__ == "__main__":
    main()
