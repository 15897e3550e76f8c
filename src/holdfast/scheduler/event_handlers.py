"""How news arrives: informer events into the world's columns and the queue.

Each object kind has one small handler. The world is always told first, then the queue, so that a
pod retried because of an event sees the world after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.requests import request_nanos
from holdfast.api.reservation_names import ALLOCATED
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import HoldfastError
from holdfast.framework.plugin import ClusterEvent
from holdfast.framework.waiting_pods import REMOVED
from holdfast.framework.world import World
from holdfast.scheduler.metrics import NO_DURATIONS, DurationRecorder
from holdfast.scheduler.scheduling_queue import SchedulingQueue

log = logging.getLogger(__name__)


class EventHandlers:
    """Keeps the world and the queue as the API server last said they are.

    ``is_responsible_for`` tells whether a scheduler name is one of our profiles.
    """

    def __init__(
        self,
        world: World,
        queue: SchedulingQueue,
        ours: Callable[[str], bool],
        now: Callable[[], float],
        watch: DurationRecorder = NO_DURATIONS,
    ) -> None:
        self.world = world
        self.queue = queue
        self.is_responsible_for = ours
        self.now = now
        self._watch = watch

    def on_pod(self, _kind: str, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went. A finished pod counts as gone."""
        if old is not None and new is not None and old.uid != new.uid:
            self.on_pod("deleted", old, None)
            old = None
        if old is not None and old.finished:
            old = None
        if new is not None and new.finished:
            new = None
        if new is None:
            if old is not None:
                self._pod_gone(old)
        elif new.spec.node_name:
            self._pod_on_node(old, new)
        elif self.is_responsible_for(new.spec.scheduler_name or "default-scheduler"):
            self._pod_waiting(old, new)

    def on_node(self, _kind: str, old: Node | None, new: Node | None) -> None:
        """A node came, changed or went."""
        if new is None:
            if old is not None:
                self.world.delete(old)
                self.notify_queue("Node", "Delete", old, None)
            return
        self.world.upsert(new)
        if old is None:
            self.notify_queue("Node", "Add", None, new)
            return
        for action in node_changes(old, new):
            self.notify_queue("Node", action, old, new)

    def handler_for(self, kind: str) -> Callable[[str, Object | None, Object | None], None]:
        """Make a handler for a kind that only the world cares about."""

        def handle(_kind: str, old: Object | None, new: Object | None) -> None:
            if new is not None:
                self.world.upsert(new)
            elif old is not None:
                self.world.delete(old)
            self.notify_queue(kind, _action(old, new), old, new)

        return handle

    def _pod_on_node(self, old: Pod | None, new: Pod) -> None:
        self.queue.delete(new.uid)
        self.world.upsert(new)
        if old is None or not old.spec.node_name:
            self.notify_queue("AssignedPod", "Add", None, new)
            promised = old is not None and old.status.nominated_node_name
            if promised and ALLOCATED in new.metadata.annotations:
                # It took what was held for it: those who counted its promise too counted twice.
                self.nomination_ended(self.world.pod_info(new), new.spec.node_name)
        else:
            for action in pod_changes(old, new):
                self.notify_queue("AssignedPod", action, old, new)

    def _pod_waiting(self, old: Pod | None, new: Pod) -> None:
        if self.world.nodes.is_assumed(new.uid):
            if new.terminating and (old is None or not old.terminating):
                self._assumed_gone(new)
            else:
                self.queue.update_in_flight(self.world.pod_info(new))
            return
        pod_info = self.world.pod_info(new)
        left = self._renominate(old, pod_info)
        changes = [] if old is None else pod_changes(old, new)
        events = [ClusterEvent("UnschedulablePod", action, old, new) for action in changes]
        self.queue.update(pod_info, self.now(), events)
        if left:
            self.nomination_ended(pod_info, left)

    def _renominate(self, old: Pod | None, pod_info: PodInfo) -> str:
        """Note where the pod is nominated; answers the node whose promise was taken back, or "".

        Our own nomination is known before the status tells: silence does not end it.
        """
        nominations = self.world.nominations
        said = old.status.nominated_node_name if old is not None else ""
        says = pod_info.pod.status.nominated_node_name
        node = says or ("" if said else nominations.node_of(pod_info.uid))
        if not node and not said:
            return ""
        nominations.set(pod_info, node)
        return said if said != node else ""

    def nomination_ended(self, pod_info: PodInfo, node: str) -> None:
        """A node is promised to a pod no longer: as good as a pod gone, for the less important."""
        gone = ClusterEvent("AssignedPod", "Delete", with_node_name(pod_info.pod, node), None)
        self.queue.requeue_for_event(
            gone, self.now(),
            lambda queued: queued.uid != pod_info.uid
            and queued.pod_info.priority <= pod_info.priority,
        )  # fmt: skip

    def _pod_gone(self, old: Pod) -> None:
        self.stop_scheduling(old.uid)
        if old.spec.node_name:
            self.world.delete(old)
            self.notify_queue("AssignedPod", "Delete", old, None)
            return
        if self.world.nodes.is_assumed(old.uid):
            self._assumed_gone(old)
            return
        promised = self.world.nominations.node_of(old.uid)
        self.world.delete(old)
        if promised:
            self.nomination_ended(self.world.pod_info(old), promised)

    def _assumed_gone(self, pod: Pod) -> None:
        """Free the room of a pod that will not be bound."""
        self.stop_scheduling(pod.uid)
        there = self._where_assumed(pod)
        self.world.delete(there)
        self.notify_queue("AssignedPod", "Delete", there, None)

    def stop_scheduling(self, uid: str) -> None:
        """Let a pod (or reservation) queue and wait no longer."""
        self.queue.delete(uid)
        waiting = self.world.waiting.get(uid)
        if waiting is not None:
            waiting.reject("", REMOVED)

    def _where_assumed(self, pod: Pod) -> Pod:
        standing = self.world.nodes.pod(pod.uid)
        return pod if standing is None else with_node_name(pod, self.world.nodes.names[standing[1]])

    def notify_queue(self, resource: str, action: str, old: Any, new: Any) -> None:
        """Tell whoever waits for it that something happened."""
        event = ClusterEvent(resource, action, old, new)
        began = self._watch.read()
        self.queue.requeue_for_event(event, self.now())
        self._watch.tell(self._watch.read() - began, event.label)


def with_node_name(pod: Pod, node: str) -> Pod:
    """Show an assumed pod as standing where it was assumed."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def node_changes(old: Node, new: Node) -> list[str]:
    """Name what changed about a node, in the order upstream tells it."""
    changes = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        changes.append("UpdateNodeTaint")
    if old.status.allocatable != new.status.allocatable:
        changes.append("UpdateNodeAllocatable")
    if old.metadata.labels != new.metadata.labels:
        changes.append("UpdateNodeLabel")
    if old.spec.taints != new.spec.taints and "UpdateNodeTaint" not in changes:
        changes.append("UpdateNodeTaint")
    if _condition_states(old) != _condition_states(new):
        changes.append("UpdateNodeCondition")
    if old.metadata.annotations != new.metadata.annotations:
        changes.append("UpdateNodeAnnotation")
    if old.status.declared_features != new.status.declared_features:
        changes.append("UpdateNodeDeclaredFeature")
    return changes


def pod_changes(old: Pod, new: Pod) -> list[str]:
    """Name what changed about a pod.

    A change of no particular kind is a plain Update; one of status or bookkeeping alone, such as
    our own PodScheduled condition, is no news: it would send the pod round in circles.
    """
    changes = []
    if old.metadata.labels != new.metadata.labels:
        changes.append("UpdatePodLabel")
    if _asks_for_less(old, new):
        changes.append("UpdatePodScaleDown")
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        changes.append("UpdatePodSchedulingGatesEliminated")
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        changes.append("UpdatePodToleration")
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        changes.append("UpdatePodGeneratedResourceClaim")
    if old.terminating != new.terminating:
        changes.append("UpdatePodTerminating")
    plain = old.spec != new.spec or old.metadata.annotations != new.metadata.annotations
    return changes or (["Update"] if plain else [])


def _asks_for_less(old: Pod, new: Pod) -> bool:
    """Tell whether any request was reduced or taken away, resizes still under way included."""
    if old.spec == new.spec and old.status == new.status:
        return False
    try:
        asked, asks = request_nanos(old), request_nanos(new)
    except HoldfastError:
        # An old version that made no sense: anything may have changed.
        return True
    return any(amount > asks.get(name, -1) for name, amount in asked.items())


def _condition_states(node: Node) -> dict[str, str]:
    return {c.type: c.status for c in node.status.conditions}


def _action(old: Object | None, new: Object | None) -> str:
    if old is None:
        return "Add"
    return "Delete" if new is None else "Update"
