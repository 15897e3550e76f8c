"""NodeName: a pod with ``spec.nodeName`` runs on that node only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
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
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class OnlyNode(NodeFilter):
    """Reject all nodes but one."""

    nodes: NodeTable
    node: str

    reason = "node(s) didn't match the requested node name"

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject all other nodes as unresolvable."""
        verdicts = np.full(self.nodes.capacity, Code.UNRESOLVABLE, np.int8)
        row = self.nodes.row_of.get(self.node)
        if row is not None:
            verdicts[row] = Code.PASS
        return verdicts[rows]


class NodeName(Plugin):
    """Filter all nodes but ``spec.nodeName``, if that is set."""

    name = "NodeName"
    traits = Traits(
        scope=Scope.NODE,
        events_to_register={EventResource.NODE: (ActionType.ADD,)},
        ignores_requests=True,  # equal pods that request other amounts share their results
    )
    plan_classes = (OnlyNode,)

    def reads(self, pod: PodInfo, view: View) -> str:
        """Return the node's name."""
        return pod.pod.spec.node_name

    def pre_filter(self, pod: PodInfo, view: View) -> OnlyNode | Skip:
        """Skip a pod without a node name."""
        name = pod.pod.spec.node_name
        return OnlyNode(view.nodes, name) if name else Skip()
