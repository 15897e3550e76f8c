"""Printers of pods and pod templates; the STATUS of a pod follows upstream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.server.tables.printer import (
    NONE,
    Obj,
    Printer,
    TableCells,
    age,
    columns,
    container_cells,
    holds,
    items,
    labels_text,
    meta,
    name,
    or_else,
    part,
    since,
)

_DONE = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclass(slots=True)
class _Summary:
    """The status, restarts and ready containers of a pod, collected from its containers."""

    reason: str
    restarts: int = 0
    restarted_at: str = ""
    ready: int = 0

    def count_restarts(self, status: Obj) -> None:
        """Add the restarts of a container, and update the time of the latest restart."""
        self.restarts += status.get("restartCount") or 0
        finished = part(status, "lastState", "terminated").get("finishedAt") or ""
        # RFC 3339 times in UTC can be compared as text.
        self.restarted_at = max(self.restarted_at, finished)


def _cells(pod: Obj, now: float) -> TableCells:
    summary = _summarise(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.restarted_at:
        restarts = f"{summary.restarts} ({since(summary.restarted_at, now)} ago)"
    total = len(items(pod, "spec", "containers")) + len(_sidecars(pod))
    addresses = items(pod, "status", "podIPs")
    return [
        name(pod),
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        age(pod, now),
        or_else(addresses[0].get("ip") if addresses else None, NONE),
        or_else(part(pod, "spec").get("nodeName"), NONE),
        or_else(part(pod, "status").get("nominatedNodeName"), NONE),
        _gates(pod),
    ]


def _summarise(pod: Obj) -> _Summary:
    status = part(pod, "status")
    summary = _Summary(status.get("reason") or status.get("phase") or "")
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated"
        for c in items(pod, "status", "conditions")
    ):
        summary.reason = "SchedulingGated"
    sidecars = _sidecars(pod)
    initialising = _evaluate_init_containers(pod, sidecars, summary)
    if not initialising or holds(pod, "Initialized"):
        _evaluate_containers(pod, sidecars, summary)
    if meta(pod).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif status.get("phase") not in _DONE:
            summary.reason = "Terminating"
    return summary


def _sidecars(pod: Obj) -> set[str]:
    return {
        c.get("name", "")
        for c in items(pod, "spec", "initContainers")
        if c.get("restartPolicy") == "Always"
    }


def _evaluate_init_containers(pod: Obj, sidecars: set[str], summary: _Summary) -> bool:
    """Evaluate init containers up to the first unfinished one; return whether there is one."""
    total = len(items(pod, "spec", "initContainers"))
    for index, container in enumerate(items(pod, "status", "initContainerStatuses")):
        summary.count_restarts(container)
        state = part(container, "state")
        terminated = state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        waiting = part(state, "waiting").get("reason")
        if terminated is not None:
            summary.reason = "Init:" + _exit_reason(terminated)
        elif waiting and waiting != "PodInitializing":
            summary.reason = f"Init:{waiting}"
        else:
            summary.reason = f"Init:{index}/{total}"
        return True
    return False


def _evaluate_containers(pod: Obj, sidecars: set[str], summary: _Summary) -> None:
    """Evaluate the main containers; of init containers only the restarts of sidecars count."""
    summary.restarts, summary.restarted_at = 0, ""
    for container in items(pod, "status", "initContainerStatuses"):
        if container.get("name") in sidecars:
            summary.count_restarts(container)
    running, failure = False, ""
    for container in reversed(items(pod, "status", "containerStatuses")):
        summary.count_restarts(container)
        state = part(container, "state")
        terminated = state.get("terminated")
        if part(state, "waiting").get("reason"):
            summary.reason = state["waiting"]["reason"]
        elif terminated is not None:
            summary.reason = _exit_reason(terminated)
            failure = summary.reason if terminated.get("exitCode") else failure
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and holds(pod, "Ready"):
            summary.reason = "Running"
        else:
            summary.reason = failure or ("NotReady" if running else summary.reason)


def _exit_reason(terminated: dict[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _gates(pod: Obj) -> str:
    gates = items(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(holds(pod, g.get('conditionType', '')) for g in gates)}/{len(gates)}"


def _conditions(pod: Obj) -> list[dict[str, str]]:
    phase = part(pod, "status").get("phase")
    if phase not in _DONE:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _DONE[phase]}]


def _template_cells(obj: Obj, now: float) -> TableCells:
    template = part(obj, "template")
    return [name(obj), *container_cells(template), labels_text(meta(template).get("labels"))]


POD = Printer(
    columns(
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "+IP",
        "+Node",
        "+Nominated Node",
        "+Readiness Gates",
    ),
    _cells,
    _conditions,
)
POD_TEMPLATE = Printer(columns("Name", "Containers", "Images", "Pod Labels"), _template_cells)
