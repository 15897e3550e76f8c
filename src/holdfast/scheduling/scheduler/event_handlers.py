"""Event handlers: apply the informers' events to the world and the scheduling queue.

Each kind of object has one handler. A handler updates the world before the queue, so that a pod
requeued by an event is scheduled against the world after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.api.devices import DeviceTaintRule
from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.requests import request_nanos
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_names import ALLOCATED
from holdfast.runtime.errors import HoldfastError
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.framework.waiting_pods import REMOVED
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.metrics import NO_DURATIONS, DurationRecorder
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.operating_pods import operating_reservation
from holdfast.state.reservations.reservation_info import holds_the_same

log = logging.getLogger(__name__)


class EventHandlers:
    """Keeps the world and the scheduling queue in step with the API server.

    ``is_responsible_for`` tells whether a scheduler name is that of one of our profiles;
    ``on_unclaimed`` is called with new pods and reservations of other names, and the time.
    """

    def __init__(
        self,
        world: World,
        queue: SchedulingQueue,
        is_responsible_for: Callable[[str], bool],
        now: Callable[[], float],
        durations: DurationRecorder = NO_DURATIONS,
        *,
        on_unclaimed: Callable[[Pod | Reservation, float], None] = lambda _obj, _now: None,
    ) -> None:
        self.world = world
        self.queue = queue
        self.is_responsible_for = is_responsible_for
        self.now = now
        self._durations = durations
        self.on_unclaimed = on_unclaimed

    def on_pod(self, _kind: str, old: Pod | None, new: Pod | None) -> None:
        """Handle a pod that was added, updated or deleted; a finished pod counts as deleted."""
        if old is not None and new is not None and old.uid != new.uid:
            self.on_pod("deleted", old, None)
            old = None
        if old is not None and old.finished:
            old = None
        if new is not None and new.finished:
            new = None
        if new is None:
            if old is not None:
                self._on_deleted_pod(old)
        elif new.spec.node_name:
            self._on_assigned_pod(old, new)
        elif self.is_responsible_for(new.spec.scheduler_name or "default-scheduler"):
            self._on_unassigned_pod(old, new)
        elif old is None:
            self.on_unclaimed(new, self.now())

    def on_node(self, _kind: str, old: Node | None, new: Node | None) -> None:
        """Handle a node that was added, updated or deleted."""
        if new is None:
            if old is not None:
                self.world.delete(old)
                self.notify_queue(EventResource.NODE, ActionType.DELETE, old, None)
            return
        self.world.upsert(new)
        new = self.world.nodes.completed(new)
        if old is None:
            self.notify_queue(EventResource.NODE, ActionType.ADD, None, new)
            return
        old = self.world.nodes.completed(old)
        for action in node_changes(old, new):
            self.notify_queue(EventResource.NODE, action, old, new)

    def on_device_taint_rule(
        self, _kind: str, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> None:
        """Handle a rule that was added, updated or deleted: devices of slices are changed."""
        if new is not None:
            self.world.upsert(new)
        elif old is not None:
            self.world.delete(old)
        self.notify_queue(EventResource.RESOURCE_SLICE, ActionType.UPDATE, None, None)

    def handler_for(self, kind: str) -> Callable[[str, Object | None, Object | None], None]:
        """Return the handler of a kind whose objects are never in the queue."""

        def handle(_kind: str, old: Object | None, new: Object | None) -> None:
            changed = new if new is not None else old
            before = None if changed is None else self.world.node_given_amounts(changed)
            if new is not None:
                self.world.upsert(new)
            elif old is not None:
                self.world.delete(old)
            self.notify_queue(kind, _action(old, new), old, new)
            if changed is not None and before is not None:
                after = self.world.node_given_amounts(changed)
                if after is not None and after.status.allocatable != before.status.allocatable:
                    self.notify_queue(
                        EventResource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE, before, after
                    )

        return handle

    def _on_assigned_pod(self, old: Pod | None, new: Pod) -> None:
        self.queue.delete(new.uid)
        self.world.upsert(new)
        if old is None or not old.spec.node_name:
            self.notify_queue(EventResource.ASSIGNED_POD, ActionType.ADD, None, new)
            nominated = old is not None and old.status.nominated_node_name
            if nominated and ALLOCATED in new.metadata.annotations:
                # The pod uses reserved resources: pods that were rejected because its nomination
                # was counted as well may fit now.
                self.nomination_ended(self.world.pod_info(new), new.spec.node_name)
        else:
            for action in pod_changes(old, new):
                before = (
                    self._as_believed(old) if action == ActionType.UPDATE_POD_SCALE_DOWN else old
                )
                self.notify_queue(EventResource.ASSIGNED_POD, action, before, new)
        self._notify_of_acting_pod(old, new)

    def _notify_of_acting_pod(self, old: Pod | None, new: Pod) -> None:
        """Requeue pods if a pod that acts as a reservation accepts other owners than before."""
        after = operating_reservation(new)
        if after is None:
            return
        before = None if old is None else operating_reservation(old)
        if before is None or not holds_the_same(before, after):
            self.notify_queue(EventResource.RESERVATION, _action(before, after), before, after)

    def _on_unassigned_pod(self, old: Pod | None, new: Pod) -> None:
        if self.world.nodes.is_assumed(new.uid):
            if new.terminating and (old is None or not old.terminating):
                self._on_deleted_assumed_pod(new)
            else:
                self._update_assumed_pod(old, new)
            return
        pod_info = self.world.pod_info(new)
        old_node = self._update_nomination(old, pod_info)
        self.queue.update(pod_info, self.now(), _pod_events(old, new))
        if old_node:
            self.nomination_ended(pod_info, old_node)

    def _update_assumed_pod(self, old: Pod | None, new: Pod) -> None:
        """Store the newest version of an assumed pod; other pods count it by its new labels.

        When a pod was counted by the labels that it had at its decision, and was relabelled since,
        a unit of a resource policy got one pod more than its cap.
        """
        if self.queue.is_in_flight(new.uid):
            self.queue.update(self.world.pod_info(new), self.now(), _pod_events(old, new))
        if old is None or old.metadata.labels == new.metadata.labels or old.spec != new.spec:
            return
        pod_info = self.world.pod_info(new)
        entry = self.world.nodes.pod(new.uid)
        if entry is not None:
            self.world.forget(new.uid)
            self.world.assume(pod_info, entry[1])
            before, after = self._as_assigned(old), self._as_assigned(new)
            self.notify_queue(
                EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL, before, after
            )

    def _update_nomination(self, old: Pod | None, pod_info: PodInfo) -> str:
        """Store the pod's nominated node; return the node it is no longer nominated to, or "".

        Our own nomination is stored before it is in the status: a status that never had a
        nomination does not clear it.
        """
        nominations = self.world.nominations
        old_nominated = old.status.nominated_node_name if old is not None else ""
        new_nominated = pod_info.pod.status.nominated_node_name
        node = new_nominated or ("" if old_nominated else nominations.node_of(pod_info.uid))
        if not node and not old_nominated:
            return ""
        nominations.set(pod_info, node)
        return old_nominated if old_nominated != node else ""

    def nomination_ended(self, pod_info: PodInfo, node: str) -> None:
        """Requeue pods of at most its priority after a nomination, as if the pod were deleted."""
        deleted = ClusterEvent(
            EventResource.ASSIGNED_POD, ActionType.DELETE, with_node_name(pod_info.pod, node), None
        )
        self.queue.requeue_for_event(
            deleted, self.now(),
            lambda queued: queued.uid != pod_info.uid
            and queued.pod_info.priority <= pod_info.priority,
        )  # fmt: skip

    def _on_deleted_pod(self, old: Pod) -> None:
        self.stop_scheduling(old.uid)
        if old.spec.node_name:
            believed = self._as_believed(old)
            self.world.delete(old)
            self._notify_of_deletion(believed)
            return
        if self.world.nodes.is_assumed(old.uid):
            self._on_deleted_assumed_pod(old)
            return
        nominated = self.world.nominations.node_of(old.uid)
        self.world.delete(old)
        if nominated:
            self.nomination_ended(self.world.pod_info(old), nominated)

    def _as_believed(self, pod: Pod) -> Pod:
        """Return a pod with the annotations that the ledgers read: hints read what it had.

        A user may remove them before the pod is deleted. Then no hint saw that CPUs became free,
        and pods that waited for them were tried again only by the flush, five minutes later.
        """
        entry = self.world.nodes.pod(pod.uid)
        known = pod if entry is None else entry[0].pod
        if known.metadata.annotations == pod.metadata.annotations:
            return pod
        meta = msgspec.structs.replace(pod.metadata, annotations=known.metadata.annotations)
        return msgspec.structs.replace(pod, metadata=meta)

    def _on_deleted_assumed_pod(self, pod: Pod) -> None:
        """Remove an assumed pod that will not be bound, and requeue pods for its resources."""
        self.stop_scheduling(pod.uid)
        assigned = self._as_assigned(pod)
        self.world.delete(assigned)
        self._notify_of_deletion(assigned)

    def _notify_of_deletion(self, assigned: Pod) -> None:
        """Requeue pods after the deletion of an assigned pod.

        It may be a victim whose deletion itself helps no filter, such as one that used devices:
        these become free later. The preemptor still stops waiting for its eviction. When only hints
        opened its gate, one of 40 runs of a test with two users of a claim did not end.
        """
        self.notify_queue(EventResource.ASSIGNED_POD, ActionType.DELETE, assigned, None)
        for preemptor in self.world.evictions.preemptors_of(assigned.uid):
            self.queue.recheck_gate(preemptor, "AssignedPodDelete", self.now())

    def stop_scheduling(self, uid: str) -> None:
        """Remove a pod or reservation from the queue and from the pods that wait on Permit."""
        self.queue.delete(uid)
        waiting = self.world.waiting.get(uid)
        if waiting is not None:
            waiting.reject("", REMOVED)

    def _as_assigned(self, pod: Pod) -> Pod:
        entry = self.world.nodes.pod(pod.uid)
        return pod if entry is None else with_node_name(pod, self.world.nodes.names[entry[1]])

    def notify_queue(self, resource: str, action: str, old: Any, new: Any) -> None:
        """Make a cluster event and requeue the pods that it may help."""
        # Most events occur while no pod waits: then the event is not even created.
        if not self.queue.awaits_events:
            self._durations.record(0.0, f"{resource}{action}")
            return
        event = ClusterEvent(resource, action, old, new)
        began = self._durations.now()
        self.queue.requeue_for_event(event, self.now())
        self._durations.record(self._durations.now() - began, event.label)


def with_node_name(pod: Pod, node: str) -> Pod:
    """Return a copy of the pod with ``spec.nodeName`` set."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def node_changes(old: Node, new: Node) -> list[ActionType]:
    """Return the actions of an update of a node, in upstream's order."""
    changes: list[ActionType] = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        changes.append(ActionType.UPDATE_NODE_TAINT)
    if old.status.allocatable != new.status.allocatable:
        changes.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        changes.append(ActionType.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints and ActionType.UPDATE_NODE_TAINT not in changes:
        changes.append(ActionType.UPDATE_NODE_TAINT)
    if _condition_states(old) != _condition_states(new):
        changes.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        changes.append(ActionType.UPDATE_NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        changes.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return changes


def _pod_events(old: Pod | None, new: Pod) -> list[ClusterEvent]:
    changes = [] if old is None else pod_changes(old, new)
    return [ClusterEvent(EventResource.UNSCHEDULABLE_POD, action, old, new) for action in changes]


def pod_changes(old: Pod, new: Pod) -> list[ActionType]:
    """Return the actions of an update of a pod; "Update" for other changes of spec or annotations.

    Other changes of the status are no action: our own PodScheduled condition would requeue the pod
    again and again.
    """
    changes: list[ActionType] = []
    if old.metadata.labels != new.metadata.labels:
        changes.append(ActionType.UPDATE_POD_LABEL)
    if _requests_less(old, new):
        changes.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        changes.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        changes.append(ActionType.UPDATE_POD_TOLERATION)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        changes.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    if old.terminating != new.terminating:
        changes.append(ActionType.UPDATE_POD_TERMINATING)
    plain = old.spec != new.spec or old.metadata.annotations != new.metadata.annotations
    return changes or ([ActionType.UPDATE] if plain else [])


def _requests_less(old: Pod, new: Pod) -> bool:
    """Tell whether a request was reduced or removed, counting resizes in progress."""
    if old.spec == new.spec and old.status == new.status:
        return False
    try:
        before, after = request_nanos(old), request_nanos(new)
    except HoldfastError:
        # One version has invalid amounts: any of them may have been reduced.
        return True
    return any(amount > after.get(name, -1) for name, amount in before.items())


def _condition_states(node: Node) -> dict[str, str]:
    return {c.type: c.status for c in node.status.conditions}


def _action(old: Object | None, new: Object | None) -> ActionType:
    if old is None:
        return ActionType.ADD
    return ActionType.DELETE if new is None else ActionType.UPDATE
