"""Pods with simulated containers: their steps on simulated nodes, and their runtime on other nodes.

Containers start and stop at once. Two annotations change that, for tests and demonstrations: with
``holdfast.dev/run-for: 5s`` the pod succeeds after that time, with ``holdfast.dev/stop-after: 10s``
it takes that long to stop, within its grace period.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from holdfast.api.durations import parse_seconds
from holdfast.api.pod import Pod
from holdfast.api.timestamps import parse_rfc3339
from holdfast.node.agent.pod_devices import FAILED_PREPARE, failed_prepare
from holdfast.node.agent.runtime import ContainerConfig, ContainerExit, ExecProcess, NotRunning
from holdfast.node.agent.status_patches import (
    finished_status,
    ready_status,
    rejected_status,
    running_status,
    waiting_status,
)
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadRequest

RUN_FOR = "holdfast.dev/run-for"
STOP_AFTER = "holdfast.dev/stop-after"
RUNTIME = "holdfast.dev/runtime"
"""The annotation by which a pod asks for a runtime, on a node that has its own agent."""
NO_PROCESSES = (
    "the pod asks for the runtime process, but its node is simulated: select a node with the label "
    "holdfast.dev/agent=embedded"
)


@dataclass(frozen=True, slots=True)
class PodStep:
    """The next step of a pod.

    ``status`` is a patch to write first, if any; ``remove`` then deletes the pod. ``problem`` is
    recorded as an event. After ``requeue_after`` seconds the pod is processed again.
    """

    status: dict[str, Any] | None = None
    remove: bool = False
    problem: str = ""
    requeue_after: float | None = None


NO_STEP = PodStep()


def plan_pod(
    pod: Pod, *, pod_ip: str, host_ip: str, problem: str, now: float, refused: bool = False
) -> PodStep:
    """Plan the next step of a pod on its node.

    ``problem`` says why its claims are not ready; ``refused`` means that they never will be.
    """
    if pod.terminating:
        return _stop(pod, now)
    if pod.finished:
        return NO_STEP
    if pod.status.phase == "Running":
        return _run(pod, now)
    if refused:
        status = rejected_status(pod, FAILED_PREPARE, failed_prepare(problem), now)
        return PodStep(status=status, problem=problem)
    if problem:
        return PodStep(status=waiting_status(pod, host_ip, problem, now), problem=problem)
    status = running_status(pod, pod_ip, host_ip, now)
    return PodStep(status=status, requeue_after=annotated_seconds(pod, RUN_FOR))


def needs_step(pod: Pod) -> bool:
    """Return whether a pod on a node may need a step."""
    if pod.terminating:
        return True
    if pod.finished:
        return False
    if pod.status.phase != "Running" or RUN_FOR in pod.metadata.annotations:
        return True
    return _marked_not_ready(pod)


def _marked_not_ready(pod: Pod) -> bool:
    """Return whether a controller has marked a pod as not ready because its node had failed."""
    return any(c.type == "Ready" and c.status != "True" for c in pod.status.conditions)


def _run(pod: Pod, now: float) -> PodStep:
    if _marked_not_ready(pod):
        return PodStep(status=ready_status(pod, now))
    lasts = annotated_seconds(pod, RUN_FOR)
    if lasts is None or pod.status.start_time is None:
        return NO_STEP
    left = parse_rfc3339(pod.status.start_time) + lasts - now
    if left > 0:
        return PodStep(requeue_after=left)
    return PodStep(status=finished_status(pod, now))


def _stop(pod: Pod, now: float) -> PodStep:
    """Stop the containers within the grace period, then remove the pod."""
    assert pod.metadata.deletion_timestamp is not None
    grace = pod.metadata.deletion_grace_period_seconds or 0
    deleted_at = parse_rfc3339(pod.metadata.deletion_timestamp) - grace
    left = deleted_at + min(grace, annotated_seconds(pod, STOP_AFTER) or 0.0) - now
    if left > 0 and not pod.finished:
        return PodStep(requeue_after=left)
    # A pod that has finalizers is reported as finished, so that controllers do not wait for it.
    has_finalizers = bool(pod.metadata.finalizers)
    status = finished_status(pod, now) if has_finalizers and not pod.finished else None
    # With a grace period of 0 it is already removed, apart from its finalizers.
    return PodStep(status=status, remove=not (has_finalizers and grace == 0))


def asks_for_process(pod: Pod) -> bool:
    """Return whether a pod asks to run as a process, which simulated nodes cannot do."""
    return pod.metadata.annotations.get(RUNTIME) == "process"


def annotated_seconds(pod: Pod, annotation: str) -> float | None:
    """Return the duration in an annotation; None if it is absent or not a duration."""
    text = pod.metadata.annotations.get(annotation)
    if text is None:
        return None
    try:
        return max(0.0, parse_seconds(text))
    except BadRequest:
        return None


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
            "--runtime process and run the pod on a node that has its own agent"
        )
