"""The interface between pods and containers.

The pod worker handles order, restart policy, probes and status; a runtime only starts one container
and reports when and how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from holdfast.node.agent.node_pod import NodePod
from holdfast.runtime.errors import HoldfastError

LOST_REASON = "ContainerStatusUnknown"
LOST_MESSAGE = "The container could not be located when the agent was started again"
"""Reason and message of the end of a container that an agent does not find again."""


class NotStarted(HoldfastError):
    """A container cannot be started; ``reason`` is that of its waiting state."""

    def __init__(self, message: str, reason: str = "CreateContainerError") -> None:
        super().__init__(message)
        self.reason = reason


class NotRunning(HoldfastError):
    """A command cannot be run in a container."""


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """One attempt to run a container."""

    pod: NodePod
    name: str
    attempt: int
    """The number of earlier starts, as in ``restartCount``."""
    command: tuple[str, ...] = ()
    """Command and arguments; empty if only the image has them."""
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    completes: bool = False
    """Whether it is an init container, which is expected to end."""


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How a container ended."""

    code: int
    finished_at: float
    signal: int = 0
    reason: str = ""
    """"": Completed or Error, by the exit code."""
    message: str = ""
    final: bool = False
    """Whether the container is not started again, regardless of the restart policy."""


class ExecProcess(Protocol):
    """A command that runs in a container."""

    async def write(self, data: bytes) -> None:
        """Write to its standard input, which must have been asked for."""

    def close_stdin(self) -> None:
        """Close its standard input."""

    async def read(self, stream: int) -> bytes:
        """Return the next bytes of stdout (1) or stderr (2); b"" at the end."""

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of its terminal, if it has one."""

    async def wait(self) -> int:
        """Return its exit code: 128 and the number of the signal if one ended it."""

    def kill(self) -> None:
        """Kill it and its children."""


class RunningContainer(Protocol):
    """A container that was started; it may have ended since then."""

    @property
    def id(self) -> str:
        """The id in the pod's status, such as ``process://…``."""

    @property
    def attempt(self) -> int:
        """The number of the attempt."""

    @property
    def started_at(self) -> float:
        """When it was started, in seconds since the epoch."""

    async def wait(self) -> ContainerExit:
        """Wait until the container has ended, with all its processes."""

    async def stop(self, grace: float) -> None:
        """Ask it to end, kill it after ``grace`` seconds, and wait until it has ended."""

    async def leave(self) -> None:
        """Leave it to the next agent; this agent does not use it any more."""

    async def exec(
        self, command: tuple[str, ...], *, stdin: bool = False, tty: bool = False
    ) -> ExecProcess:
        """Run a command in the container; raise NotRunning."""


@runtime_checkable
class Runtime(Protocol):
    """Containers of one node."""

    name: ClassVar[str]
    """The name in the ids of its containers, and in the annotation by which pods ask for it."""
    real: ClassVar[bool]
    """Whether containers are processes, which probes and hooks can reach."""

    async def start(self, config: ContainerConfig) -> RunningContainer:
        """Start a container; raise NotStarted."""

    async def find(
        self, config: ContainerConfig, started_at: float | None
    ) -> RunningContainer | None:
        """Return the newest attempt of a container that an earlier agent started, or None.

        ``started_at`` is the start that the pod's status reports, if it reports one.
        """

    def log_path(self, uid: str, container: str, attempt: int) -> Path | None:
        """Return the path of the log of an attempt, in the CRI format; None: there is none."""

    async def kill(self, uid: str) -> None:
        """Kill the remaining processes of a pod's containers."""

    async def remove(self, uid: str) -> None:
        """Kill the remaining processes of a pod's containers and remove their files."""

    async def known_pods(self) -> list[str]:
        """Return the uids of the pods that have processes or files here."""
