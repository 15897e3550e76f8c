"""The status of a pod from the records of its containers, as a patch like a kubelet's. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.api.timestamps import rfc3339
from holdfast.node.agent.node_pod import NodePod
from holdfast.node.agent.pod_containers import (
    ContainerRecord,
    Role,
    backoff_seconds,
    has_ended,
    is_initialized,
    is_restarted,
)
from holdfast.node.agent.pod_devices import FAILED_PREPARE
from holdfast.node.agent.status_patches import (
    CONTAINER_STATUSES,
    ConditionValues,
    condition_patch,
    status_patch,
)

DEVICE_EDITS = "holdfast.dev/device-edits"
"""The annotation with the device edits of each container, as JSON by container."""
LONGEST_EDITS = 64 * 1024
"""A quarter of the size that all annotations of an object may have."""


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of a pod without its containers."""

    pod_ip: str
    host_ip: str
    start_time: str
    sandbox: bool = True
    """Whether its devices are prepared, so that containers may start."""
    problem: str = ""
    """Why they are not prepared."""
    phase: str = ""
    """Its last phase; "": not ended."""
    reason: str = ""
    message: str = ""


def container_state(
    pod: NodePod, record: ContainerRecord, now: float, *, ended: bool
) -> dict[str, Any]:
    """Return the state of a container: running, terminated, or waiting for its (next) start."""
    if record.running is not None:
        return {"running": {"startedAt": rfc3339(record.started_at)}}
    reason, message = record.waiting
    if record.exit is not None and not reason:
        if ended or record.retry_at <= now or not is_restarted(pod, record):
            return {"terminated": record.terminated(record.exit)}
        reason, message = "CrashLoopBackOff", backoff_message(pod, record)
    waiting = {"reason": reason or _default_reason(pod, record)}
    return {"waiting": waiting | ({"message": message} if message else {})}


def backoff_message(pod: NodePod, record: ContainerRecord) -> str:
    """Return the message of a container that is not started again yet."""
    seconds = f"{backoff_seconds(record):.0f}s"
    return (
        f"back-off {seconds} restarting failed container={record.name} "
        f"pod={pod.name}_{pod.namespace}({pod.uid})"
    )


def pod_status(
    pod: NodePod, records: Sequence[ContainerRecord], state: PodState, now: float
) -> dict[str, Any]:
    """Return the patch of a pod's status."""
    ended = bool(state.phase)
    statuses = {r.name: _container_status(pod, r, now, ended=ended) for r in records}
    init = [statuses[r.name] for r in records if r.role is not Role.MAIN]
    status: dict[str, Any] = {
        "hostIP": state.host_ip, "hostIPs": [{"ip": state.host_ip}], "startTime": state.start_time,
        "containerStatuses": [statuses[r.name] for r in records if r.role is Role.MAIN],
    }  # fmt: skip
    if init:
        status["initContainerStatuses"] = init
    if ended and state.reason and all(r.attempt < 0 and r.exit is None for r in records):
        # As for any pod that its node rejects: kubectl would show the state of a container instead
        # of the reason.
        status |= dict.fromkeys(CONTAINER_STATUSES)
    if state.sandbox:
        address = state.host_ip if pod.spec.host_network else state.pod_ip
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if state.reason or pod.status.reason:
        status |= {"reason": state.reason or None, "message": state.message or None}
    conditions = condition_patch(pod, _conditions(pod, records, state), now)
    patch = status_patch(pod, state.phase or _phase(pod, records), conditions, **status)
    if edits := {r.name: r.edits for r in records if r.edits}:
        patch["metadata"]["annotations"] = {DEVICE_EDITS: shown_edits(edits)}
    return patch


def shown_edits(edits: Mapping[str, dict[str, Any]]) -> str:
    """Return edits as an annotation; too large ones as their numbers, so that they can be stored.

    >>> shown_edits({"c": {"env": {"A": "x" * 70_000}}})
    '{"c":{"env":"1 entries, too long to be shown"}}'
    """
    text = json.dumps(edits, separators=(",", ":"))
    if len(text) <= LONGEST_EDITS:
        return text
    counts = {
        name: {
            kind: f"{len(entries)} entries, too long to be shown" for kind, entries in of.items()
        }
        for name, of in edits.items()
    }
    return json.dumps(counts, separators=(",", ":"))


def _container_status(
    pod: NodePod, record: ContainerRecord, now: float, *, ended: bool
) -> dict[str, Any]:
    state = container_state(pod, record, now, ended=ended)
    last: dict[str, Any] = {"terminated": record.previous} if record.previous else {}
    if "waiting" in state and record.exit is not None:
        last = {"terminated": record.terminated(record.exit)}
    done = record.role is Role.INIT and record.succeeded
    status: dict[str, Any] = {
        "name": record.name, "image": record.spec.image, "imageID": record.spec.image,
        "ready": record.ready or done, "started": record.started,
        "restartCount": max(record.attempt, 0), "lastState": last, "state": state,
    }  # fmt: skip
    if record.id:
        status["containerID"] = record.id
    return status


def _default_reason(pod: NodePod, record: ContainerRecord) -> str:
    waits_for_init = record.role is not Role.INIT and pod.spec.init_containers
    return "PodInitializing" if waits_for_init else "ContainerCreating"


def _phase(pod: NodePod, records: Sequence[ContainerRecord]) -> str:
    """Return Running once a container has started after the init containers."""
    if not is_initialized(records):
        return "Pending"
    for record in records:
        if record.role is Role.MAIN and record.attempt < 0 and not has_ended(pod, record):
            return "Pending"
    return "Running"


def _conditions(
    pod: NodePod, records: Sequence[ContainerRecord], state: PodState
) -> list[ConditionValues]:
    if state.phase in ("Succeeded", "Failed"):
        over = "PodCompleted" if state.phase == "Succeeded" else "PodFailed"
        initialized = is_initialized(records)
        return [
            ("PodReadyToStartContainers", "False", "", ""),
            ("Initialized", "True" if initialized else "False", over, ""),
            ("Ready", "False", over, ""),
            ("ContainersReady", "False", over, ""),
        ]
    return [
        _sandbox(state),
        _initialized(records),
        _ready(pod, records, gates=True),
        _ready(pod, records, gates=False),
    ]


def _sandbox(state: PodState) -> ConditionValues:
    if state.sandbox:
        return ("PodReadyToStartContainers", "True", "", "")
    reason = FAILED_PREPARE if state.problem else ""
    return ("PodReadyToStartContainers", "False", reason, state.problem)


def _initialized(records: Sequence[ContainerRecord]) -> ConditionValues:
    if is_initialized(records):
        return ("Initialized", "True", "", "")
    waits = [
        r.name
        for r in records
        if r.role is not Role.MAIN and not (r.succeeded if r.role is Role.INIT else r.started)
    ]
    message = f"containers with incomplete status: [{' '.join(waits)}]"
    return ("Initialized", "False", "ContainersNotInitialized", message)


def _ready(pod: NodePod, records: Sequence[ContainerRecord], *, gates: bool) -> ConditionValues:
    type_ = "Ready" if gates else "ContainersReady"
    unready = [r.name for r in records if r.role is not Role.INIT and not r.ready]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return (type_, "False", "ContainersNotReady", message)
    true = {c.type for c in pod.status.conditions if c.status == "True"}
    missing = [g.condition_type for g in pod.spec.readiness_gates if g.condition_type not in true]
    if gates and missing:
        message = f"corresponding condition of pod readiness gate {missing[0]!r} does not exist."
        return (type_, "False", "ReadinessGatesNotReady", message)
    return (type_, "True", "", "")
