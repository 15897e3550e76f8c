"""Plan the taints of a node from its conditions and its cordon."""

from __future__ import annotations

from enum import Enum
from typing import Any

from holdfast.api.node import Node, Taint
from holdfast.api.scheme import NODES
from holdfast.api.timestamps import rfc3339
from holdfast.api.tolerations import NO_EXECUTE, NO_SCHEDULE
from holdfast.controllers import conditions
from holdfast.controllers.planned_writes import Patch

PREFIX = "node.kubernetes.io/"
UNSCHEDULABLE = f"{PREFIX}unschedulable"
_PRESSURES = {
    "MemoryPressure": f"{PREFIX}memory-pressure",
    "DiskPressure": f"{PREFIX}disk-pressure",
    "PIDPressure": f"{PREFIX}pid-pressure",
    "NetworkUnavailable": f"{PREFIX}network-unavailable",
}
_BY_READINESS = {"False": f"{PREFIX}not-ready", "Unknown": f"{PREFIX}unreachable"}
_READINESS = frozenset(_BY_READINESS.values())
_NO_SCHEDULE_KEYS = {UNSCHEDULABLE, *_PRESSURES.values(), *_READINESS}


class Evicting(Enum):
    """What to do with the NoExecute taint of a node that is not ready."""

    KEEP = 0
    """Replace an existing taint; a node without one waits for its turn."""
    ADD = 1
    REMOVE = 2


def wanted_taints(node: Node) -> set[str]:
    """Return the keys of the NoSchedule taints that the node should have.

    A node without a Ready condition keeps its not-ready and unreachable taints.
    """
    node_conditions = node.status.conditions
    wanted = {
        key for type_, key in _PRESSURES.items() if conditions.is_true(node_conditions, type_)
    }
    ready = conditions.find(node_conditions, "Ready")
    if ready is not None and ready.status in _BY_READINESS:
        wanted.add(_BY_READINESS[ready.status])
    if ready is None:
        wanted |= {t.key for t in node.spec.taints if t.key in _BY_READINESS.values()}
    return wanted | ({UNSCHEDULABLE} if node.spec.unschedulable else set())


def evicting_taint(node: Node) -> str:
    """Return the key of the NoExecute taint for a node's readiness, "" for a ready node."""
    ready = conditions.find(node.status.conditions, "Ready")
    return _BY_READINESS.get(ready.status, "") if ready is not None else ""


def has_evicting_taint(node: Node) -> bool:
    """Return whether a node has a NoExecute taint for its readiness."""
    return any(t.effect == NO_EXECUTE and t.key in _READINESS for t in node.spec.taints)


def plan_node_taints(node: Node, now: float, evicting: Evicting = Evicting.KEEP) -> Patch | None:
    """Plan the taints of one node; taints that are not managed here are kept."""
    wanted = {(key, NO_SCHEDULE) for key in wanted_taints(node)}
    wanted |= _wanted_evicting(node, evicting)
    have = {(t.key, t.effect) for t in node.spec.taints if _managed(t)}
    if wanted == have:
        return None
    kept = [_raw(t) for t in node.spec.taints if not _managed(t) or (t.key, t.effect) in wanted]
    added = [
        {"key": key, "effect": effect, "timeAdded": rfc3339(now)}
        for key, effect in sorted(wanted - have)
    ]
    patch = {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": [*kept, *added] or None},
    }
    return Patch(NODES, node.name, patch)


def _wanted_evicting(node: Node, evicting: Evicting) -> set[tuple[str, str]]:
    if evicting is Evicting.REMOVE:
        return set()
    if conditions.find(node.status.conditions, "Ready") is None:
        return {
            (t.key, t.effect)
            for t in node.spec.taints
            if t.key in _READINESS and t.effect == NO_EXECUTE
        }
    key = evicting_taint(node)
    if key and (evicting is Evicting.ADD or has_evicting_taint(node)):
        return {(key, NO_EXECUTE)}
    return set()


def _managed(taint: Taint) -> bool:
    if taint.effect == NO_EXECUTE:
        return taint.key in _READINESS
    return taint.effect == NO_SCHEDULE and taint.key in _NO_SCHEDULE_KEYS


def _raw(taint: Taint) -> dict[str, Any]:
    parts = (
        ("key", taint.key), ("value", taint.value), ("effect", taint.effect),
        ("timeAdded", taint.time_added),
    )  # fmt: skip
    return {name: value for name, value in parts if value}
