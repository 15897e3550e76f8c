"""NodeUnschedulable: cordoned nodes accept only pods that tolerate it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from holdfast.api.node import Node, Taint
from holdfast.api.tolerations import NO_SCHEDULE, tolerated
from holdfast.columns.cells import Cells, cells
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View

REASON = "node(s) were unschedulable"
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class _State:
    nodes: NodeTable
    unschedulable_at: Cells[bool]


class NodeUnschedulable:
    """Filter nodes with ``spec.unschedulable``."""

    name: ClassVar[str] = "NodeUnschedulable"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.NODE,
        events_to_register={
            "Node": ("Add", "UpdateNodeTaint"),
            "Pod": ("UpdatePodToleration",),
        },
        ignores_requests=True,
        accepts_slices=True,
    )

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def reads(self, pod: PodInfo, _view: View) -> bool:
        """Return whether the pod tolerates a cordon."""
        return tolerated(pod.pod.spec.tolerations, CORDON)

    def pre_filter(self, pod: PodInfo, view: View) -> _State | Skip:
        """Skip a pod that tolerates a cordon."""
        if self.reads(pod, view):
            return Skip()
        return _State(view.nodes, cells(view.nodes.unschedulable))

    def filter(self, state: _State, rows: AnyRows, _change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject cordoned nodes as unresolvable."""
        verdicts: Verdicts = state.nodes.unschedulable[rows].astype(np.int8)
        return verdicts * np.int8(Code.UNRESOLVABLE)

    def filter_and_score_row(self, state: _State, row: int) -> tuple[int, float]:
        """Return the same for one row."""
        return (2 if state.unschedulable_at[row] else 0), 0.0

    def reasons(self, _state: _State, _row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the only reason."""
        return (REASON,)

    def count_reasons(self, _state: _State, rows: Rows) -> Mapping[str, int]:
        """Count all rows under the only reason."""
        return {REASON: len(rows)}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
        """Requeue if a node is schedulable now, or the pod tolerates a cordon now."""
        if event.resource == "Node":
            return _became_schedulable(event.old, event.new)
        own = event.is_for_pod(pod) and event.action == "UpdatePodToleration"
        return own and tolerated(event.new.spec.tolerations, CORDON)


def _became_schedulable(old: Node | None, new: Node | None) -> bool:
    if new is None or new.spec.unschedulable:
        return False
    return old is None or old.spec.unschedulable
