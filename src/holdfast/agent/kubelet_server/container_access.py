"""The seam between the HTTPS server of a node and its containers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Protocol


class Channel(IntEnum):
    """Channels of exec and attach, by their numbers on the wire."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4


@dataclass(frozen=True, slots=True)
class ContainerName:
    """A container of a pod on this node."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log file of one attempt of a container, and whether it may still grow."""

    path: Path
    growing: Callable[[], bool]


class AttachedProcess(Protocol):
    """A process whose input and output a client uses: a command of exec, or a container."""

    def output(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Yield output as it comes, until it ends."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to standard input; ignored when the process has none."""
        ...

    def close_stdin(self) -> None:
        """Close standard input."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of its terminal, if it has one."""
        ...

    async def wait(self) -> int:
        """Return the exit code; 0 for a container that is only left."""
        ...

    async def close(self) -> None:
        """Leave it: a command of exec is killed, a container goes on."""
        ...


class ContainerAccess(Protocol):
    """The containers of one node; every method raises NotFound or BadRequest."""

    def log_file(self, name: ContainerName, *, previous: bool) -> LogFile:
        """Return the log of the running or last attempt, or of the one before."""
        ...

    async def exec(
        self, name: ContainerName, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AttachedProcess:
        """Start a command in a container."""
        ...

    async def attach(self, name: ContainerName, *, stdin: bool) -> AttachedProcess:
        """Attach to a running container."""
        ...

    def forwarded_address(self, namespace: str, pod: str, port: int) -> tuple[str, int]:
        """Return where a port of a pod can be reached from this process."""
        ...
