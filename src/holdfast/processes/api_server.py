"""The embedded API server as a child process: start, address, exit.

The child writes one line to its standard output: ``ready URL``, or ``failed`` and the reason as a
JSON string. It writes its log to the parent's standard error.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from holdfast.runtime.child_process import COMMAND, exit_description
from holdfast.runtime.errors import HoldfastError, Refused
from holdfast.runtime.settings import ClusterSettings

READY, FAILED = "ready", "failed"
_LONG_LINE = b"a line of 64 KiB or more"
READY_SECONDS = 110.0
"""The time a child may take to load its store and listen; below the limit of ``up --detach``."""
EXIT_SECONDS = 5.0
"""The time a child may take to exit after it has closed its output."""
STOP_SECONDS = 15.0
"""How long the child may take to stop before it is killed."""
_SHOWN = 200


class ServerProcess:
    """A started child process; ``url`` is known once ``wait_until_ready`` returns."""

    def __init__(self, process: Process) -> None:
        self.url = ""
        self._process = process

    @classmethod
    async def start(cls, settings: ClusterSettings, kubeconfig: Path) -> ServerProcess:
        """Start the child; it stops when this process ends, which closes its standard input."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "apiserver",
            "--data-dir", str(settings.data_dir), "--kubeconfig", str(kubeconfig),
            "--host", settings.server.host, "--port", str(settings.server.port),
            "--feature-gates", str(settings.server.feature_gates), "--announce",
            stdin=PIPE, stdout=PIPE,
            # Ctrl-C must not reach the child: components still write to it while they stop.
            start_new_session=True,
        )  # fmt: skip
        return cls(process)

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._process.returncode is None

    @property
    def exit_description(self) -> str:
        """A short text on how the child ended."""
        code = self._process.returncode
        return "it is still running" if code is None else exit_description(code)

    async def wait_until_ready(self) -> None:
        """Wait for the child's address; raises HoldfastError if the child does not start."""
        line = await self._line()
        if (
            not line.endswith(b"\n") and line != _LONG_LINE
        ):  # the child may have ended while it wrote
            await self._exited(EXIT_SECONDS)
            raise HoldfastError(
                f"the API server ended before it was ready ({self.exit_description}); "
                "its own messages, if it wrote any, are above"
            )
        state, _, rest = line.decode(errors="replace").strip().partition(" ")
        if state == READY and rest.startswith("https://"):
            self.url = rest
            return
        if state == FAILED:
            raise Refused(json.loads(rest))
        raise HoldfastError(
            f"the API server did not start: it wrote {line[:_SHOWN]!r} instead of its address"
        )

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(READY_SECONDS):
                return await self._process.stdout.readline()
        except TimeoutError:
            raise HoldfastError(
                f"the API server was not ready after {READY_SECONDS:.0f} s and was stopped"
            ) from None
        except ValueError:  # longer than the reader's limit
            return _LONG_LINE

    async def wait(self) -> None:
        """Wait until the child ends."""
        await self._process.wait()

    async def _exited(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Close the child's standard input, which stops it, and wait for its exit."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        # A child that never became ready has no requests to finish.
        if not await self._exited(STOP_SECONDS if self.url else EXIT_SECONDS):
            self._process.kill()
            await self._process.wait()
