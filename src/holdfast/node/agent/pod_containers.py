"""The containers of a pod and which of them is started next. No I/O.

Init containers run one after the other, sidecars among them keep running, then all containers run
at once. A container that ended is started again if its restart policy says so: the first time at
once, then after 10 s, 20 s and so on up to 300 s. After it has run for ten minutes, the delays
start again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.api.timestamps import rfc3339
from holdfast.client.backoff import Backoff
from holdfast.node.agent.node_pod import NodeContainer, NodePod
from holdfast.node.agent.runtime import ContainerExit, RunningContainer

RESTART_BACKOFF = Backoff(first=10.0, limit=300.0)
STABLE_SECONDS = 600.0
"""A container that ran at least this long is started again at once."""
CONFIG_RETRY_SECONDS = 10.0
"""The delay before a container that could not be started is tried again."""


class Role(Enum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(slots=True)
class ContainerRecord:
    """The state of a container: running, ended, or waiting for its (next) start."""

    spec: NodeContainer
    role: Role
    attempt: int = -1
    """The last attempt; -1: never started."""
    running: RunningContainer | None = None
    id: str = ""
    started_at: float = 0.0
    exit: ContainerExit | None = None
    """How the last attempt ended, if it has."""
    previous: dict[str, Any] = field(default_factory=dict)
    """The terminated state of the previous attempt, as in the status."""
    waiting: tuple[str, str] = ("", "")
    """Reason and message if it could not be started."""
    edits: dict[str, Any] = field(default_factory=dict)
    """Its edits for devices, as in the pod's annotation."""
    started: bool = False
    """Whether the startup probe has succeeded, or there is none."""
    ready: bool = False
    crashes: int = 0
    """Restarts since it last ran for ten minutes."""
    retry_at: float = 0.0
    """No start before this time."""

    @property
    def name(self) -> str:
        """The container's name."""
        return self.spec.name

    @property
    def succeeded(self) -> bool:
        """Whether it has ended successfully."""
        return self.exit is not None and self.exit.code == 0

    def terminated(self, end: ContainerExit) -> dict[str, Any]:
        """Return the terminated state of the last attempt, as in the status."""
        reason = end.reason or ("Completed" if end.code == 0 else "Error")
        state: dict[str, Any] = {"exitCode": end.code, "reason": reason}
        if end.signal:
            state["signal"] = end.signal
        if end.message:
            state["message"] = end.message
        if self.started_at:
            state["startedAt"] = rfc3339(self.started_at)
        state["finishedAt"] = rfc3339(end.finished_at)
        if self.id:
            state["containerID"] = self.id
        return state

    def start(self, running: RunningContainer) -> None:
        """Record the start of an attempt."""
        if self.exit is not None:
            self.previous = self.terminated(self.exit)
        self.attempt, self.running, self.id = running.attempt, running, running.id
        self.started_at = running.started_at
        self.exit, self.waiting = None, ("", "")
        self.started, self.ready = False, False

    def end(self, how: ContainerExit) -> None:
        """Record the end of an attempt, and when the next may start."""
        self.running, self.exit = None, how
        self.started, self.ready = False, False
        if how.finished_at - self.started_at >= STABLE_SECONDS:
            self.crashes = 0
        delay = RESTART_BACKOFF.delay(self.crashes) if self.crashes else 0.0
        self.crashes += 1
        self.retry_at = how.finished_at + delay


def new_records(pod: NodePod) -> list[ContainerRecord]:
    """Return the records of a pod's containers, in the order of their start."""
    init = [
        ContainerRecord(spec, Role.SIDECAR if spec.sidecar else Role.INIT)
        for spec in pod.spec.init_containers
    ]
    return init + [ContainerRecord(spec, Role.MAIN) for spec in pod.spec.containers]


@dataclass(frozen=True, slots=True)
class ContainerSteps:
    """What to do next with the containers of a pod."""

    start: tuple[ContainerRecord, ...] = ()
    wake_at: float | None = None
    """When the next waiting container may be started."""
    phase: str = ""
    """Succeeded or Failed if no container will be started any more; else ""."""


def plan_containers(pod: NodePod, records: Sequence[ContainerRecord], now: float) -> ContainerSteps:
    """Return which containers to start, and whether the pod has ended."""
    mains = [r for r in records if r.role is Role.MAIN]
    if all(has_ended(pod, r) for r in mains):
        return ContainerSteps(phase="Succeeded" if all(r.succeeded for r in mains) else "Failed")
    if is_initialized(records):
        stopped = [r for r in records if r.role is not Role.INIT and r.running is None]
        due = [r for r in stopped if not has_ended(pod, r)]
    else:
        step = next(r for r in records if not _passed(r))
        if has_ended(pod, step):
            return ContainerSteps(phase="Failed")
        due = [step] if step.running is None else []
    later = [r.retry_at for r in due if r.retry_at > now]
    return ContainerSteps(tuple(r for r in due if r.retry_at <= now), min(later, default=None))


def is_initialized(records: Sequence[ContainerRecord]) -> bool:
    """Return whether the init containers have done their work; it stays so."""
    if any(r.role is Role.MAIN and r.attempt >= 0 for r in records):
        return True
    return all(_passed(r) for r in records if r.role is not Role.MAIN)


def _passed(record: ContainerRecord) -> bool:
    """Return whether the container after this one may start."""
    return record.succeeded if record.role is Role.INIT else record.started


def has_ended(pod: NodePod, record: ContainerRecord) -> bool:
    """Return whether a container has ended for good."""
    return record.exit is not None and not is_restarted(pod, record)


def backoff_seconds(record: ContainerRecord) -> float:
    """Return how long a container that ended waits for its next start."""
    return max(0.0, record.retry_at - record.exit.finished_at) if record.exit else 0.0


def is_restarted(pod: NodePod, record: ContainerRecord) -> bool:
    """Return whether a container that ended is started again."""
    if record.exit is not None and record.exit.final:
        return False
    if record.role is Role.SIDECAR:
        return True
    policy = record.spec.restart_policy or pod.spec.restart_policy or "Always"
    if policy == "Never":
        return False
    failed = not record.succeeded
    return failed if record.role is Role.INIT else policy == "Always" or failed
