"""NodePorts: two pods on a node cannot use the same host port."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.hidden_reserve_pods import HiddenReservePods, hidden_with_ports_or_volumes
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.ports import HostPort, count_conflicts, ports_conflict
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    PodLimit,
    PodLimits,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View

REASON = "node(s) didn't have free ports for the requested pod ports"


@dataclass(frozen=True, slots=True)
class _State:
    nodes: NodeTable
    wanted: frozenset[HostPort]
    hidden_pods: HiddenReservePods | None
    """Reserve pods whose ports do not count for this pod."""


class NodePorts:
    """Filter nodes where a wanted host port is in use."""

    name: ClassVar[str] = "NodePorts"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.ROW,
        events_to_register={"Node": ("Add",), "Pod": ("Delete",)},
        ignores_requests=True,
        accepts_slices=True,
    )

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the ports, and the reserve pods that do not count."""
        return (pod.host_ports, view.hidden_pods) if pod.host_ports else None

    def pre_filter(self, pod: PodInfo, view: View) -> _State | Skip:
        """Skip a pod without host ports."""
        return _State(view.nodes, pod.host_ports, view.hidden_pods) if pod.host_ports else Skip()

    def filter(self, state: _State, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes where a port is in use as unschedulable."""
        verdicts = np.zeros(state.nodes.capacity, np.int8)
        taken = list(state.nodes.ports.rows_taken(state.wanted))
        verdicts[taken] = [self.filter_row(state, row, NO_CHANGE) for row in taken]
        answer: Verdicts = verdicts[rows]
        for position, row in change.positions_in(rows):
            answer[position] = self.filter_row(state, row, change)
        return answer

    def filter_row(self, state: _State, row: int, change: PodChange) -> int:
        """Return the verdict of one row after a change."""
        gone = (*change.removed.get(row, ()), *hidden_with_ports_or_volumes(state.hidden_pods, row))
        less = [port for pod in gone for port in pod.host_ports]
        if state.nodes.ports.taken_at(row, state.wanted, less):
            return Code.UNSCHEDULABLE
        added = [port for pod in change.added.get(row, ()) for port in pod.host_ports]
        return Code.UNSCHEDULABLE if ports_conflict(state.wanted, added) else Code.PASS

    def depends_on_pods(self, state: _State) -> NDArray[np.bool_]:
        """Return the rows where a port is in use."""
        taken = np.zeros(state.nodes.capacity, np.bool_)
        taken[list(state.nodes.ports.rows_taken(state.wanted))] = True
        return taken

    def pod_limits(self, state: _State) -> PodLimits:
        """Return a limit: no pod may stay that uses a wanted port."""
        left = -state.nodes.ports.count(state.wanted, state.nodes.capacity)
        unknown = None
        if state.hidden_pods is not None:
            unknown = np.zeros(state.nodes.capacity, np.bool_)
            unknown[[*state.hidden_pods.with_ports_or_volumes]] = True
        counts = partial(_conflicts, state.wanted)
        return PodLimits((PodLimit((self.name, state.wanted), left, counts),), unknown)

    def filter_and_score_row(self, state: _State, row: int) -> tuple[int, float]:
        """Return the same for one row."""
        return self.filter_row(state, row, NO_CHANGE), 0.0

    def reasons(self, _state: _State, _row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the only reason."""
        return (REASON,)

    def count_reasons(self, _state: _State, rows: Rows) -> Mapping[str, int]:
        """Count all rows under the only reason."""
        return {REASON: len(rows)}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a node was added, or a pod deleted that used one of the ports."""
        if event.resource == "Node":
            return event.action == "Add"
        if not event.is_pod_event or event.action != "Delete" or event.old is None:
            return False
        gone = view.world.pod_info(event.old)
        placed = gone.pod.spec.node_name or gone.pod.status.nominated_node_name
        return bool(placed) and ports_conflict(pod.host_ports, gone.host_ports)


def _conflicts(wanted: frozenset[HostPort], pod: PodInfo) -> int:
    return count_conflicts(wanted, pod.host_ports) if pod.host_ports else 0
