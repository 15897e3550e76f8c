"""Containers that run nothing: they start at once and run until they are stopped.

Two annotations of the pod change that, for tests and demonstrations: with ``holdfast.dev/run-for:
5s`` its containers succeed after that time, with ``holdfast.dev/stop-after: 10s`` they take that
long to stop, within the grace period.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from holdfast.agent.runtime import ContainerConfig, ContainerExit, ExecProcess, NotRunning
from holdfast.agent.simulated_pod import RUN_FOR, STOP_AFTER, annotated_seconds
from holdfast.clock import Clock


class SimulatedRuntime:
    """Start simulated containers."""

    name: ClassVar[str] = "simulated"
    real: ClassVar[bool] = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def start(self, config: ContainerConfig) -> SimulatedContainer:
        """Start a container."""
        return SimulatedContainer(config, self._clock, self._clock.now())

    async def find(
        self, config: ContainerConfig, started_at: float | None
    ) -> SimulatedContainer | None:
        """Return the container that the pod's status reports as running."""
        if started_at is None:
            return None
        return SimulatedContainer(config, self._clock, started_at)

    def log_path(self, uid: str, container: str, attempt: int) -> Path | None:
        """Return None: simulated containers write nothing."""
        return None

    async def kill(self, uid: str) -> None:
        """Do nothing: nothing is left."""

    async def remove(self, uid: str) -> None:
        """Do nothing: nothing is left."""

    async def known_pods(self) -> list[str]:
        """Return no pod."""
        return []


class SimulatedContainer:
    """A container that ends when it is stopped, or after the annotated time."""

    def __init__(self, config: ContainerConfig, clock: Clock, started_at: float) -> None:
        self.id = f"simulated://{config.pod.uid}/{config.name}"
        self.attempt, self.started_at = config.attempt, started_at
        self._clock = clock
        self._completes = config.completes
        self._run_for = annotated_seconds(config.pod, RUN_FOR)
        self._stop_after = annotated_seconds(config.pod, STOP_AFTER) or 0.0
        self._stopped = asyncio.Event()

    async def wait(self) -> ContainerExit:
        """Wait for the stop, or for the annotated time."""
        if self._completes:
            return ContainerExit(0, self.started_at)
        if self._run_for is None:
            await self._stopped.wait()
            return ContainerExit(0, self._clock.now(), final=True)
        stopped = asyncio.create_task(self._stopped.wait())
        timer = asyncio.create_task(
            self._clock.sleep(max(0.0, self.started_at + self._run_for - self._clock.now()))
        )
        try:
            await asyncio.wait({stopped, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            timer.cancel()
        return ContainerExit(0, self._clock.now(), final=True)

    async def stop(self, grace: float) -> None:
        """Stop at once, or after the annotated time."""
        if not self._stopped.is_set() and (seconds := min(grace, self._stop_after)) > 0:
            await self._clock.sleep(seconds)
        self._stopped.set()

    async def leave(self) -> None:
        """Do nothing: nothing runs."""

    async def exec(
        self, command: tuple[str, ...], *, stdin: bool = False, tty: bool = False
    ) -> ExecProcess:
        """Raise NotRunning: there is no process."""
        raise NotRunning(
            f"container {self.id} is simulated: no command can run in it; start the cluster with "
            "--runtime process, and the pod on a node with an agent of its own"
        )
