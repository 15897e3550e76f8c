"""NodePorts: two pods on a node cannot use the same host port."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeFilter,
    Plugin,
    PodChange,
    PodLimit,
    PodLimits,
    PreemptionRules,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.hidden_reserve_pods import (
    HiddenReservePods,
    hidden_with_ports_or_volumes,
)
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.ports import HostPort, count_conflicts, ports_conflict


@dataclass(frozen=True, slots=True)
class FreePorts(NodeFilter, PreemptionRules):
    """Reject nodes where a wanted host port is in use."""

    nodes: NodeTable
    wanted: frozenset[HostPort]
    hidden_pods: HiddenReservePods | None
    """Reserve pods whose ports do not count for this pod."""

    reason = "node(s) didn't have free ports for the requested pod ports"

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes where a port is in use as unschedulable."""
        verdicts = np.zeros(self.nodes.capacity, np.int8)
        taken = list(self.nodes.ports.rows_taken(self.wanted))
        verdicts[taken] = [self.filter_row(row) for row in taken]
        answer: Verdicts = verdicts[rows]
        for position, row in change.positions_in(rows):
            answer[position] = self.filter_row(row, change)
        return answer

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row after a change."""
        gone = (*change.removed.get(row, ()), *hidden_with_ports_or_volumes(self.hidden_pods, row))
        less = [port for pod in gone for port in pod.host_ports]
        if self.nodes.ports.taken_at(row, self.wanted, less):
            return Code.UNSCHEDULABLE
        added = [port for pod in change.added.get(row, ()) for port in pod.host_ports]
        return Code.UNSCHEDULABLE if ports_conflict(self.wanted, added) else Code.PASS

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows where a port is in use."""
        taken = np.zeros(self.nodes.capacity, np.bool_)
        taken[list(self.nodes.ports.rows_taken(self.wanted))] = True
        return taken

    def pod_limits(self) -> PodLimits:
        """Return a limit: no pod may stay that uses a wanted port."""
        left = -self.nodes.ports.count(self.wanted, self.nodes.capacity)
        unknown = None
        if self.hidden_pods is not None:
            unknown = np.zeros(self.nodes.capacity, np.bool_)
            unknown[[*self.hidden_pods.with_ports_or_volumes]] = True
        counts = partial(_conflicts, self.wanted)
        return PodLimits((PodLimit((NodePorts.name, self.wanted), left, counts),), unknown)


class NodePorts(Plugin):
    """Filter nodes where a wanted host port is in use."""

    name = "NodePorts"
    traits = Traits(
        scope=Scope.ROW,
        events_to_register={
            EventResource.NODE: (ActionType.ADD,),
            EventResource.POD: (ActionType.DELETE,),
        },
        ignores_requests=True,
        accepts_slices=True,
    )
    plan_classes = (FreePorts,)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the ports, and the reserve pods that do not count."""
        return (pod.host_ports, view.hidden_pods) if pod.host_ports else None

    def pre_filter(self, pod: PodInfo, view: View) -> FreePorts | Skip:
        """Skip a pod without host ports."""
        return FreePorts(view.nodes, pod.host_ports, view.hidden_pods) if pod.host_ports else Skip()

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a node was added, or a pod deleted that used one of the ports."""
        if event.resource == EventResource.NODE:
            return event.action == ActionType.ADD
        if not event.is_pod_event or event.action != ActionType.DELETE or event.old is None:
            return False
        gone = view.world.pod_info(event.old)
        placed = gone.pod.spec.node_name or gone.pod.status.nominated_node_name
        return bool(placed) and ports_conflict(pod.host_ports, gone.host_ports)


def _conflicts(wanted: frozenset[HostPort], pod: PodInfo) -> int:
    return count_conflicts(wanted, pod.host_ports) if pod.host_ports else 0
