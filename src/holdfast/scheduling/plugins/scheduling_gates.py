"""SchedulingGates: pods with scheduling gates are not queued."""

from __future__ import annotations

from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import ClusterEvent, Code, Plugin, Reject, Traits
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.pod_info import PodInfo


class SchedulingGates(Plugin):
    """Keep pods out of the queue while ``spec.schedulingGates`` is not empty."""

    name = "SchedulingGates"
    traits = Traits(
        events_to_register={EventResource.POD: (ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,)}
    )

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Reject a pod with gates; the reason names them."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Reject(Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{names}]",))

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue the pod when it loses its last gate."""
        return (
            event.is_for_pod(pod)
            and event.action == ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        )
