"""NodeUnschedulable: cordoned nodes accept only pods that tolerate it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.api.node import Node, Taint
from holdfast.api.tolerations import NO_SCHEDULE, tolerated
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeFilter,
    Plugin,
    PodChange,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.cells import Cells, cells
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class UncordonedNodes(NodeFilter):
    """Reject cordoned nodes."""

    nodes: NodeTable
    unschedulable_at: Cells[bool]

    reason = "node(s) were unschedulable"

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject cordoned nodes as unresolvable."""
        verdicts: Verdicts = self.nodes.unschedulable[rows].astype(np.int8)
        return verdicts * np.int8(Code.UNRESOLVABLE)

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the same for one row."""
        return 2 if self.unschedulable_at[row] else 0


class NodeUnschedulable(Plugin):
    """Filter nodes with ``spec.unschedulable``."""

    name = "NodeUnschedulable"
    traits = Traits(
        scope=Scope.NODE,
        events_to_register={
            EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_TAINT),
            EventResource.POD: (ActionType.UPDATE_POD_TOLERATION,),
        },
        ignores_requests=True,
        accepts_slices=True,
    )
    plan_classes = (UncordonedNodes,)

    def reads(self, pod: PodInfo, view: View) -> bool:
        """Return whether the pod tolerates a cordon."""
        return tolerated(pod.pod.spec.tolerations, CORDON)

    def pre_filter(self, pod: PodInfo, view: View) -> UncordonedNodes | Skip:
        """Skip a pod that tolerates a cordon."""
        if self.reads(pod, view):
            return Skip()
        return UncordonedNodes(view.nodes, cells(view.nodes.unschedulable))

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a node is schedulable now, or the pod tolerates a cordon now."""
        if event.resource == EventResource.NODE:
            return _became_schedulable(event.old, event.new)
        own = event.is_for_pod(pod) and event.action == ActionType.UPDATE_POD_TOLERATION
        return own and tolerated(event.new.spec.tolerations, CORDON)


def _became_schedulable(old: Node | None, new: Node | None) -> bool:
    if new is None or new.spec.unschedulable:
        return False
    return old is None or old.spec.unschedulable
