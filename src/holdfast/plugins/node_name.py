"""NodeName: a pod with ``spec.nodeName`` runs on that node only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

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

REASON = "node(s) didn't match the requested node name"


@dataclass(frozen=True, slots=True)
class _State:
    nodes: NodeTable
    node: str


class NodeName:
    """Filter all nodes but ``spec.nodeName``, if that is set."""

    name: ClassVar[str] = "NodeName"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.NODE,
        events_to_register={"Node": ("Add",)},
        ignores_requests=True,
        accepts_slices=True,
    )

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def reads(self, pod: PodInfo, _view: View) -> str:
        """Return the node's name."""
        return pod.pod.spec.node_name

    def pre_filter(self, pod: PodInfo, view: View) -> _State | Skip:
        """Skip a pod without a node name."""
        name = pod.pod.spec.node_name
        return _State(view.nodes, name) if name else Skip()

    def filter(self, state: _State, rows: AnyRows, _change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject all other nodes as unresolvable."""
        verdicts = np.full(state.nodes.capacity, Code.UNRESOLVABLE, np.int8)
        row = state.nodes.row_of.get(state.node)
        if row is not None:
            verdicts[row] = Code.PASS
        return verdicts[rows]

    def filter_and_score_row(self, state: _State, row: int) -> tuple[int, float]:
        """Return the verdict and the score of one row."""
        return (0 if state.nodes.names[row] == state.node else 2), 0.0

    def reasons(self, _state: _State, _row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the only reason."""
        return (REASON,)

    def count_reasons(self, _state: _State, rows: Rows) -> Mapping[str, int]:
        """Count all rows under the only reason."""
        return {REASON: len(rows)}

    def queueing_hint(self, event: ClusterEvent, _pod: PodInfo, _view: View) -> bool:
        """Requeue for every added node: it may be the one."""
        return event.resource == "Node" and event.action == "Add"
