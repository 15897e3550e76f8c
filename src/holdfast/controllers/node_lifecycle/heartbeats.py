"""Record when nodes last reported, and plan the conditions of nodes that have stopped reporting."""

from __future__ import annotations

from typing import Any

from holdfast.api.meta import Condition
from holdfast.api.node import Lease, Node
from holdfast.api.scheme import NODES
from holdfast.api.timestamps import rfc3339, seconds_of
from holdfast.client.client import PatchType
from holdfast.controllers.conditions import find, is_true
from holdfast.controllers.planned_writes import Patch
from holdfast.runtime.settings import NodeLifecycleSettings

LATE_SECONDS = 5.0
"""A check that is later than this proves nothing about a node: the controller was not running or
had no connection, and must first receive the newest leases."""
_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeHeartbeats:
    """The time of the last sign of life of each node, in seconds of a monotonic clock.

    A sign of life is a renewed lease or a new heartbeat time of the Ready condition. The times in
    these objects are not compared with the clock, because a node's clock may differ.
    """

    def __init__(self, settings: NodeLifecycleSettings) -> None:
        self._settings = settings
        self._seen: dict[str, float] = {}

    def node_changed(self, old: Node | None, new: Node, now: float, age: float) -> bool:
        """Return whether a new version of a node is a sign of life; ``age`` is that of the node."""
        before, after = ready_condition(old), ready_condition(new)
        if old is None or new.name not in self._seen:
            self._seen[new.name] = now if after is not None else now - max(age, 0.0)
        elif _heartbeat(before) != _heartbeat(after):
            self._seen[new.name] = now
        else:
            return False
        return True

    def lease_changed(self, old: Lease | None, new: Lease, now: float) -> bool:
        """Return whether a node that is known has renewed its lease."""
        before = seconds_of(old.spec.renew_time) if old is not None else None
        after = seconds_of(new.spec.renew_time)
        if new.name not in self._seen or after is None:
            return False
        if before is not None and before >= after:
            return False
        self._seen[new.name] = now
        return True

    def forget(self, name: str) -> None:
        """Forget a deleted node."""
        self._seen.pop(name, None)

    def restart(self, now: float) -> None:
        """Count the grace periods of all nodes from now."""
        self._seen = dict.fromkeys(self._seen, now)

    def seconds_left(self, node: Node, now: float) -> float:
        """Return the seconds that are left of a node's grace period; 0 or less if it is over.

        A check that comes too late gets another ``LATE_SECONDS``, once.
        """
        grace = self._settings.monitor_grace_seconds
        if ready_condition(node) is None:
            grace = self._settings.startup_grace_seconds
        left = self._seen.setdefault(node.name, now) + grace - now
        if left < -LATE_SECONDS and is_true(node.status.conditions, "Ready"):
            self._seen[node.name] = now + LATE_SECONDS - grace
            return LATE_SECONDS
        return left


def ready_condition(node: Node | None) -> Condition | None:
    """Return the Ready condition of a node, or None."""
    return find(node.status.conditions, "Ready") if node is not None else None


def ready_status(node: Node) -> str:
    """Return the status of the Ready condition of a node, "" if there is none."""
    condition = ready_condition(node)
    return condition.status if condition is not None else ""


def plan_unknown_status(node: Node, now: float) -> Patch | None:
    """Plan the conditions of a node that has stopped reporting; None if they are set already."""
    if ready_status(node) == "Unknown":
        return None
    conditions = [
        _unknown(node, find(node.status.conditions, type_), type_, rfc3339(now)) for type_ in _TYPES
    ]
    patch = {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "status": {"conditions": [each for each in conditions if each is not None]},
    }
    return Patch(NODES, node.name, patch, subresource="status", type=PatchType.STRATEGIC)


def _unknown(node: Node, known: Condition | None, type_: str, now: str) -> dict[str, Any] | None:
    if known is None:
        return {
            "type": type_,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.metadata.creation_timestamp,
            "lastTransitionTime": now,
        }
    if known.status == "Unknown":
        return None
    return {
        "type": type_,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": now,
    }


def _heartbeat(condition: Condition | None) -> tuple[str | None, bool]:
    heartbeat_time = condition.last_heartbeat_time if condition is not None else None
    return heartbeat_time, condition is None
