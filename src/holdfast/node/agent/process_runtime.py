"""Containers as local processes of this user. They are not isolated.

Each container has a process that starts it, keeps its log and records its end (``container_shim``);
it keeps running without the agent, and the next agent finds it by its files:

    pods/UID/containers/NAME/lock       locked as long as the container runs
    pods/UID/containers/NAME/N.json     process ids, start and end of attempt N
    pods/UID/logs/NAME/N.log            its output in the CRI format; N.log.1: what came before
    pods/UID/work                       the working directory, unless the container names one

A container runs if its lock is held. A process id may belong to another process after a restart of
the machine, and a file may have been written before the process began or after it was killed; the
kernel releases the lock in every case. When an agent was killed between the start of a process and
the first status of its pod, the next agent started the process a second time. So ``find`` waits
while the lock is held and no record exists.

No process of a pod may keep running when its devices are unprepared. Commands of exec are marked in
their environment (``MARK``), because they are not descendants of the container.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from holdfast.node.agent import container_shim
from holdfast.node.agent.container_shim import start_ticks
from holdfast.node.agent.exec_process import MARK, LocalExec, kill_marked
from holdfast.node.agent.pod_directory import ContainerDirectory, PodDirectories
from holdfast.node.agent.runtime import (
    LOST_MESSAGE,
    LOST_REASON,
    ContainerConfig,
    ContainerExit,
    NotRunning,
    NotStarted,
)
from holdfast.node.agent.simulated_pod import RUNTIME, SimulatedRuntime
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Refused

LOG_BYTES = 10 * 1024 * 1024
"""The size at which a container's log starts in a new file; the previous file is kept."""
INHERITED = ("PATH", "HOME", "LANG")
"""The only variables of Holdfast's own environment that containers see."""
START_SECONDS = 60.0
"""How long a container may take to start, on a busy machine."""
KILL_SECONDS, POLL_SECONDS = 5.0, 0.02
"""How long the parent of a container may take to kill it, and the interval of checks."""
ID_PREFIX = "process://"
LOST = ContainerExit(137, 0.0, reason=LOST_REASON, message=LOST_MESSAGE)


class ProcessRuntime:
    """Start containers as processes, and find those of an earlier agent."""

    name: ClassVar[str] = "process"
    real: ClassVar[bool] = True

    def __init__(
        self, directories: PodDirectories, clock: Clock, log_bytes: int = LOG_BYTES
    ) -> None:
        if sys.platform != "linux":
            raise Refused("the process runtime needs Linux: use --runtime simulated")
        self._directories = directories
        self._clock = clock
        self._log_bytes = log_bytes

    async def start(self, config: ContainerConfig) -> ProcessContainer:
        """Start a container; raise NotStarted."""
        if not config.command:
            raise NotStarted(
                f"container {config.name} has no command: the process runtime has no image that "
                "would say what to run; set command"
            )
        try:
            return await self._start_locked(config)
        except BlockingIOError as busy:
            raise NotStarted(f"container {config.name} is still running") from busy
        except OSError as error:  # such as a full disk, or no free process or descriptor
            raise NotStarted(
                f"cannot start container {config.name}: {error}", "RunContainerError"
            ) from error

    async def _start_locked(self, config: ContainerConfig) -> ProcessContainer:
        place = self._directories.container(config.pod.uid, config.name)
        place.create()
        place.remove_attempts_before(config.attempt - 1)
        lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return await self._start(config, place.work, lock)
        finally:
            os.close(lock)

    async def _start(self, config: ContainerConfig, work: Path, lock: int) -> ProcessContainer:
        place = self._directories.container(config.pod.uid, config.name)
        env = base_environment() | {"HOSTNAME": config.pod.name} | dict(config.env)
        cwd = work / config.working_dir if config.working_dir else work
        body = {
            "command": config.command, "env": env, "cwd": str(cwd), "lock": lock,
            "state": str(place.state(config.attempt)), "log": str(place.log(config.attempt)),
            "log_bytes": self._log_bytes, "attempt": config.attempt,
        }  # fmt: skip
        shim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", container_shim.__file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={}, cwd="/", start_new_session=True, pass_fds=(lock,),
        )  # fmt: skip
        try:
            answer = await self._ask(shim, json.dumps(body).encode(), place.state(config.attempt))
        except asyncio.CancelledError:
            shim.returncode = 0  # left to the next agent, see ``leave``
            raise
        if "error" in answer:
            await asyncio.to_thread(shim.wait)
            raise NotStarted(
                f"cannot run {config.command[0]!r}: {answer['error']}: there is no image, so the "
                f"program has to be on this machine; annotate the pod with {RUNTIME}: "
                f"{SimulatedRuntime.name} to simulate it",
                "RunContainerError",
            )
        return ProcessContainer(
            self._clock, place.state(config.attempt), shim.pid, _id(config, config.attempt),
            attempt=config.attempt, started_at=answer["started_at"], env=env, cwd=cwd, child=shim,
        )  # fmt: skip

    async def _ask(self, shim: subprocess.Popen[bytes], body: bytes, state: Path) -> dict[str, Any]:
        """Send the configuration and return the answer; kill a process that does not answer."""
        asking = asyncio.ensure_future(asyncio.to_thread(_exchange, shim, body))
        await asyncio.wait({asking}, timeout=START_SECONDS)
        if not asking.done():
            shim.kill()
            _kill_orphans(_read_state(state) or {})
            state.unlink(missing_ok=True)
            await asking
            return {"error": f"it has not started after {START_SECONDS:g} s"}
        return asking.result()

    async def find(
        self, config: ContainerConfig, started_at: float | None
    ) -> ProcessContainer | None:
        """Return the newest attempt of a container, running or ended."""
        place = self._directories.container(config.pod.uid, config.name)
        state = _newest_state(place)
        deadline = self._clock.monotonic() + START_SECONDS
        while (state is None or "exit" in state) and is_locked(place.lock):
            # A start that has no record yet: there must be no second start.
            if self._clock.monotonic() > deadline:
                break
            await self._clock.sleep(POLL_SECONDS)
            state = _newest_state(place)
        if state is None:
            return None
        if "exit" not in state and not is_locked(place.lock):
            _kill_orphans(state)
        env, attempt = _environment_of(state), state["attempt"]
        return ProcessContainer(
            self._clock, place.state(attempt), state["shim"], _id(config, attempt), attempt=attempt,
            started_at=state["started_at"], env=env, cwd=place.work,
        )  # fmt: skip

    def log_path(self, uid: str, container: str, attempt: int) -> Path | None:
        """Return the path of the log of an attempt."""
        return self._directories.container(uid, container).log(attempt)

    async def kill(self, uid: str) -> None:
        """Kill the remaining processes of a pod's containers."""
        for place in self._directories.containers(uid):
            if is_locked(place.lock):
                await _kill_shim(place)
            state = _newest_state(place)
            if state is not None and "exit" not in state:
                _kill_orphans(state)
        if self._directories.pod(uid).exists():
            await asyncio.to_thread(kill_marked, f"{uid}/")

    async def remove(self, uid: str) -> None:
        """Kill the remaining processes of a pod's containers and remove their files."""
        await self.kill(uid)
        await asyncio.to_thread(shutil.rmtree, self._directories.pod(uid), ignore_errors=True)

    async def known_pods(self) -> list[str]:
        """Return the uids of the pods that have a directory."""
        return self._directories.uids()


class ProcessContainer:
    """A container that runs as a process, started by this agent or an earlier one."""

    def __init__(
        self,
        clock: Clock,
        state: Path,
        shim: int,
        id: str,
        *,
        attempt: int,
        started_at: float,
        env: Mapping[str, str],
        cwd: Path,
        child: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.id, self.attempt, self.started_at = id, attempt, started_at
        self._clock = clock
        self._state = state
        self._lock = state.parent / "lock"
        self._shim = shim
        self._child = child
        self._env, self._cwd = env, cwd
        # An earlier agent may have started commands in a container that it left.
        self._has_commands = child is None
        self._mark = f"{self.id.removeprefix(ID_PREFIX)}/"
        self._ended: asyncio.Task[ContainerExit] | None = None

    async def wait(self) -> ContainerExit:
        """Wait until the container has ended, with all its processes."""
        if self._ended is None:
            self._ended = asyncio.create_task(self._wait(), name=f"wait for {self.id}")
        return await asyncio.shield(self._ended)

    async def _wait(self) -> ContainerExit:
        await self._wait_for_shim()
        if self._child is not None:
            self._child.wait()
        if self._has_commands:
            await asyncio.to_thread(kill_marked, self._mark)
        state = _read_state(self._state) or {}
        if "exit" in state:
            end = state["exit"]
            return ContainerExit(end["code"], end["finished_at"], end["signal"])
        _kill_orphans(state)
        return ContainerExit(LOST.code, self._clock.now(), reason=LOST.reason, message=LOST.message)

    async def _wait_for_shim(self) -> None:
        if not is_locked(self._lock):
            return
        loop = asyncio.get_running_loop()
        try:
            pidfd = os.pidfd_open(self._shim)
        except ProcessLookupError:
            return
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(pidfd, lambda: None if ended.done() else ended.set_result(None))
        try:
            await ended
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)

    async def stop(self, grace: float) -> None:
        """Send SIGTERM to the process group; kill all processes after ``grace`` seconds."""
        ended = asyncio.ensure_future(self.wait())
        self._signal(signal.SIGTERM if grace > 0 else signal.SIGUSR1)
        if grace > 0 and not ended.done():
            timer = asyncio.ensure_future(self._clock.sleep(grace))
            try:
                await asyncio.wait({ended, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
            if not ended.done():
                self._signal(signal.SIGUSR1)
        await self._wait_for_kill(ended)

    async def _wait_for_kill(self, ended: asyncio.Future[ContainerExit]) -> None:
        """Wait for the end; a shim that does not answer, such as a suspended one, is killed too."""
        await asyncio.wait({ended}, timeout=KILL_SECONDS)
        if not ended.done():
            self._signal(signal.SIGKILL)
        await ended

    async def leave(self) -> None:
        """Leave the process to the next agent."""
        if self._ended is not None:
            self._ended.cancel()
            await asyncio.gather(self._ended, return_exceptions=True)
        if self._child is not None and self._child.poll() is None:
            # Without this the interpreter would warn of a child that is still running.
            self._child.returncode = 0

    async def exec(
        self, command: tuple[str, ...], *, stdin: bool = False, tty: bool = False
    ) -> LocalExec:
        """Run a command with the environment and working directory of the container."""
        if not is_locked(self._lock):
            raise NotRunning(f"container {self.id} is not running")
        self._has_commands = True
        env = {**self._env, MARK: self._mark}
        return await LocalExec.start(command, env, self._cwd, stdin=stdin, tty=tty)

    def _signal(self, number: int) -> None:
        if is_locked(self._lock):
            _send(self._shim, number)


def base_environment() -> dict[str, str]:
    """Return the variables that every container sees."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def is_locked(path: Path) -> bool:
    """Return whether a container runs that holds this lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as busy:
        if busy.errno in (errno.EAGAIN, errno.EACCES):
            return True
        raise
    finally:
        os.close(descriptor)
    return False


def _exchange(shim: subprocess.Popen[bytes], body: bytes) -> dict[str, Any]:
    """Send the configuration and return the answer."""
    assert shim.stdin is not None and shim.stdout is not None
    with suppress(BrokenPipeError):
        shim.stdin.write(body)
        shim.stdin.close()
    line = shim.stdout.readline()
    shim.stdout.close()
    if not line:
        return {"error": f"the interpreter {sys.executable} could not be started"}
    answer: dict[str, Any] = json.loads(line)
    return answer


async def _kill_shim(place: ContainerDirectory) -> None:
    """Let the parent of a container kill it; kill the parent too if it does not answer."""
    for _ in range(int(KILL_SECONDS / POLL_SECONDS)):
        if not is_locked(place.lock):
            return
        if state := _newest_state(place):
            _send(state["shim"], signal.SIGUSR1)
        await asyncio.sleep(POLL_SECONDS)
    if state := _newest_state(place):
        _send(state["shim"], signal.SIGKILL)


def _newest_state(place: ContainerDirectory) -> dict[str, Any] | None:
    attempts = place.attempts()
    return _read_state(place.state(attempts[-1])) if attempts else None


def _read_state(path: Path) -> dict[str, Any] | None:
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and "shim" in state else None


def _kill_orphans(state: Mapping[str, Any]) -> None:
    """Kill the process group of a container whose shim was killed."""
    pid = state.get("pid", 0)
    if pid and start_ticks(pid) == state.get("pid_ticks"):
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def _environment_of(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment with which a process was started."""
    try:
        text = Path(f"/proc/{state['pid']}/environ").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return base_environment()
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _id(config: ContainerConfig, attempt: int) -> str:
    return f"{ID_PREFIX}{config.pod.uid}/{config.name}/{attempt}"
