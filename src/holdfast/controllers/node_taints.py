"""The node taint controller: NoSchedule taints from node conditions and cordons."""

from __future__ import annotations

from typing import Any

from holdfast.api.node import Node, Taint
from holdfast.api.scheme import NODES
from holdfast.api.timestamps import rfc3339
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers import conditions
from holdfast.controllers.planned_writes import Patch, execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler

PREFIX = "node.kubernetes.io/"
UNSCHEDULABLE = f"{PREFIX}unschedulable"
_PRESSURES = {
    "MemoryPressure": f"{PREFIX}memory-pressure",
    "DiskPressure": f"{PREFIX}disk-pressure",
    "PIDPressure": f"{PREFIX}pid-pressure",
    "NetworkUnavailable": f"{PREFIX}network-unavailable",
}
_BY_READINESS = {"False": f"{PREFIX}not-ready", "Unknown": f"{PREFIX}unreachable"}
MANAGED = {UNSCHEDULABLE, *_PRESSURES.values(), *_BY_READINESS.values()}


def wanted_taints(node: Node) -> set[str]:
    """Return the keys of the NoSchedule taints that the node should have.

    A node without a Ready condition keeps its not-ready and unreachable taints.
    """
    found = node.status.conditions
    wanted = {key for type_, key in _PRESSURES.items() if conditions.is_true(found, type_)}
    ready = conditions.find(found, "Ready")
    if ready is not None and ready.status in _BY_READINESS:
        wanted.add(_BY_READINESS[ready.status])
    if ready is None:
        wanted |= {t.key for t in node.spec.taints if t.key in _BY_READINESS.values()}
    return wanted | ({UNSCHEDULABLE} if node.spec.unschedulable else set())


def plan_node_taints(node: Node, now: float) -> Patch | None:
    """Plan the taints of one node; taints that are not managed here are kept."""
    wanted = wanted_taints(node)
    have = {t.key for t in node.spec.taints if _managed(t)}
    if wanted == have:
        return None
    kept = [_raw(t) for t in node.spec.taints if not _managed(t) or t.key in wanted]
    added = [
        {"key": key, "effect": "NoSchedule", "timeAdded": rfc3339(now)}
        for key in sorted(wanted - have)
    ]
    patch = {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": [*kept, *added] or None},
    }
    return Patch(NODES, node.name, patch)


def _managed(taint: Taint) -> bool:
    return taint.key in MANAGED and taint.effect == "NoSchedule"


def _raw(taint: Taint) -> dict[str, Any]:
    parts = (
        ("key", taint.key), ("value", taint.value), ("effect", taint.effect),
        ("timeAdded", taint.time_added),
    )  # fmt: skip
    return {name: value for name, value in parts if value}


class NodeTaintController(Reconciler):
    """Watch nodes and update their taints."""

    name = "node-controller"
    required_resources = (NODES,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = context.informers.get(NODES)
        self._nodes.add_handler(self._on_node)

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> None:
        """Update the taints of one node."""
        node = self._nodes.cache.get(key)
        patch = plan_node_taints(node, self.clock.now()) if node is not None else None
        if patch is not None:
            await execute_writes(self.client, (patch,))
