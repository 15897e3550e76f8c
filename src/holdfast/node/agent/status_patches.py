"""Patches of a pod's status: their parts, and complete patches for pods on simulated nodes.

They are strategic merge patches like a kubelet's; ``container_status`` has those of other pods.
"""

from __future__ import annotations

from typing import Any

from holdfast.api.pod import Container, Pod
from holdfast.api.timestamps import rfc3339
from holdfast.node.agent.pod_devices import FAILED_PREPARE

CONTAINER_STATUSES = ("containerStatuses", "initContainerStatuses")
"""Fields that a pod without containers does not have; None in a patch removes them."""
ConditionValues = tuple[str, str, str, str]
"""Type, status, reason, message."""


def running_status(pod: Pod, pod_ip: str, host_ip: str, now: float) -> dict[str, Any]:
    """Return the status of a pod whose containers run and are ready."""
    when = rfc3339(now)
    running = {"running": {"startedAt": when}}
    address = host_ip if pod.spec.host_network else pod_ip
    condition_values = [
        (type_, "True", "", "")
        for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    return status_patch(
        pod,
        "Running",
        condition_patch(pod, condition_values, now),
        hostIP=host_ip,
        hostIPs=[{"ip": host_ip}],
        podIP=address,
        podIPs=[{"ip": address}],
        startTime=pod.status.start_time or when,
        containerStatuses=[_container(pod, c, running) for c in pod.spec.containers],
        **_init_statuses(pod, when, running),
    )


def ready_status(pod: Pod, now: float) -> dict[str, Any]:
    """Return the status of a running pod that is ready again."""
    return {
        "metadata": {"uid": pod.uid},
        "status": {"conditions": condition_patch(pod, [("Ready", "True", "", "")], now)},
    }


def waiting_status(pod: Pod, host_ip: str, why: str, now: float) -> dict[str, Any] | None:
    """Return the status of a pod that waits on its node, or None if the pod already has it."""
    known = next((c for c in pod.status.conditions if c.type == "PodReadyToStartContainers"), None)
    if known is not None and (known.status, known.message) == ("False", why):
        return None
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    unready = f"containers with unready status: [{' '.join(c.name for c in pod.spec.containers)}]"
    condition_values = [
        ("PodReadyToStartContainers", "False", FAILED_PREPARE, why),
        ("Initialized", "True", "", ""),
        ("Ready", "False", "ContainersNotReady", unready),
        ("ContainersReady", "False", "ContainersNotReady", unready),
    ]
    conditions = condition_patch(pod, condition_values, now)
    statuses = [_container(pod, c, waiting) for c in pod.spec.containers]
    return status_patch(
        pod,
        "Pending",
        conditions,
        hostIP=host_ip,
        hostIPs=[{"ip": host_ip}],
        startTime=pod.status.start_time or rfc3339(now),
        containerStatuses=statuses,
    )


def finished_status(pod: Pod, now: float) -> dict[str, Any]:
    """Return the status of a pod whose containers have succeeded."""
    when = rfc3339(now)
    ended = {
        "terminated": {
            "exitCode": 0, "reason": "Completed", "startedAt": pod.status.start_time or when,
            "finishedAt": when,
        }
    }  # fmt: skip
    condition_values = [
        ("PodReadyToStartContainers", "False", "", ""),
        ("Initialized", "True", "PodCompleted", ""),
        ("Ready", "False", "PodCompleted", ""),
        ("ContainersReady", "False", "PodCompleted", ""),
    ]
    return status_patch(
        pod,
        "Succeeded",
        condition_patch(pod, condition_values, now),
        containerStatuses=[_container(pod, c, ended) for c in pod.spec.containers],
    )


def rejected_status(pod: Pod, reason: str, message: str, now: float) -> dict[str, Any]:
    """Return the status of a pod that its node does not take."""
    status = {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": pod.status.start_time or rfc3339(now),
        **dict.fromkeys(CONTAINER_STATUSES),
    }
    return {"metadata": {"uid": pod.uid}, "status": status}


def status_patch(pod: Pod, phase: str, conditions: list[Any], **more: Any) -> dict[str, Any]:
    """Return a patch of the status, for the pod with this uid only."""
    status: dict[str, Any] = {"phase": phase, "conditions": conditions, **more}
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    return {"metadata": {"uid": pod.uid}, "status": status}


def condition_patch(
    pod: Pod, condition_values: list[ConditionValues], now: float
) -> list[dict[str, Any]]:
    """Return raw conditions; the transition time changes only with the status."""
    known = {c.type: c for c in pod.status.conditions}
    written = []
    for type_, status, reason, message in condition_values:
        old = known.get(type_)
        same = old is not None and old.status == status
        since = old.last_transition_time if old is not None and same else rfc3339(now)
        new = {"type": type_, "status": status, "lastTransitionTime": since, "lastProbeTime": None}
        written.append(new | {"reason": reason or None, "message": message or None})
    return written


def _container(pod: Pod, container: Container, state: dict[str, Any]) -> dict[str, Any]:
    running = "running" in state
    status: dict[str, Any] = {
        "name": container.name, "image": container.image, "imageID": container.image,
        "ready": running, "started": running, "restartCount": 0, "lastState": {}, "state": state,
    }  # fmt: skip
    if "waiting" not in state:
        status["containerID"] = f"simulated://{pod.uid}/{container.name}"
    return status


def _init_statuses(pod: Pod, when: str, running: dict[str, Any]) -> dict[str, Any]:
    """Return the statuses of init containers: terminated, but running for sidecars."""
    if not pod.spec.init_containers:
        return {}
    done = {
        "terminated": {
            "exitCode": 0, "reason": "Completed", "startedAt": when, "finishedAt": when
        }
    }  # fmt: skip
    statuses = []
    for container in pod.spec.init_containers:
        sidecar = container.restart_policy == "Always"
        status = _container(pod, container, running if sidecar else done)
        statuses.append(status | {"ready": True})
    return {"initContainerStatuses": statuses}
