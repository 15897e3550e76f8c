"""The taint eviction controller: delete the pods of nodes with NoExecute taints.

A pod that tolerates a taint for some seconds is deleted when they are over, counted from the time
when the taint was added or the pod was assigned. Upstream counts from the time when its controller
notices, and again after a restart of the controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api.node import Node, Taint
from holdfast.api.pod import Pod
from holdfast.api.scheme import NODES, PODS
from holdfast.api.timestamps import seconds_of
from holdfast.api.tolerations import NO_EXECUTE, tolerates
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.conditions import find
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.controllers.taint_eviction_writes import LONGEST_WAIT_SECONDS, TaintEvictionWrites

_REASON = "TaintManagerEviction"
TimedTaint = tuple[Taint, float]
"""A NoExecute taint, and when it was added to the node, in seconds since the epoch."""


def plan_node_eviction(pod: Pod, taints: Iterable[TimedTaint]) -> float | None:
    """Return when a pod must leave its node, in seconds since the epoch; None if it may stay.

    If several tolerations tolerate a taint, the first counts, as upstream. A terminating pod leaves
    anyway.
    """
    if pod.terminating:
        return None
    times: list[float] = []
    assigned = _assigned_at(pod)
    for taint, since in taints:
        toleration = next((t for t in pod.spec.tolerations if tolerates(t, taint)), None)
        seconds = 0 if toleration is None else toleration.toleration_seconds
        if seconds is not None:
            times.append(max(since, assigned) + max(seconds, 0))
    return min(times, default=None)


def _assigned_at(pod: Pod) -> float:
    scheduled = find(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "True":
        return seconds_of(scheduled.last_transition_time) or 0.0
    return seconds_of(pod.metadata.creation_timestamp) or 0.0


class TaintEvictionController(Reconciler):
    """Watch nodes and pods; keys are pods."""

    name = "taint-eviction-controller"
    queue_name = "noexec_taint_pod"
    required_resources = (PODS, NODES)
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writes = TaintEvictionWrites(
            self,
            context,
            subsystem="taint_eviction_controller",
            condition=("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
        )
        self._taints: dict[str, tuple[TimedTaint, ...]] = {}
        self._pending: dict[str, str] = {}
        """Uids of pods that are going to be evicted, by key."""
        self._pods_on: ObjectIndex[Pod] = ObjectIndex(lambda pod: pod.spec.node_name)
        self._pods = context.informers.get(PODS)
        self._pods.add_handler(self._pods_on.on_change)
        self._pods.add_handler(self._on_pod)
        context.informers.get(NODES).add_handler(self._on_node)

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        either = new or old
        assert either is not None
        taints = self._timed_taints(new) if new is not None else ()
        if taints == self._taints.get(either.name, ()):
            return
        if taints:
            self._taints[either.name] = taints
        else:
            self._taints.pop(either.name, None)
        if new is not None:
            for pod in self._pods_on.of(new.name):
                self.queue.add(pod.key)

    def _timed_taints(self, node: Node) -> tuple[TimedTaint, ...]:
        """Return the NoExecute taints of a node; a time in the future counts as now."""
        known = dict(self._taints.get(node.name, ()))
        now = self.clock.now()

        def since(taint: Taint) -> float:
            added = seconds_of(taint.time_added)
            return now if added is None else min(added + 1.0, now)  # whole seconds, rounded down

        taints = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
        return tuple((taint, known.get(taint, since(taint))) for taint in taints)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._pending.pop(old.key, None)
        elif new.spec.node_name in self._taints and (old is None or _differs(old, new)):
            self.queue.add(new.key)

    async def reconcile(self, key: str) -> None:
        """Evict a pod if its time has come."""
        pod = self._pods.cache.get(key)
        if pod is None:
            return
        at = plan_node_eviction(pod, self._taints.get(pod.spec.node_name, ()))
        name = f"Pod {pod.key}"
        if at is None:
            if self._pending.pop(key, None) == pod.uid and not pod.terminating:
                self.record_event(pod, "Normal", _REASON, f"Cancelling deletion of {name}")
            return
        seconds = at - self.clock.now()
        if seconds > 0:
            self._pending[key] = pod.uid
            self.queue.add_after(key, min(seconds, LONGEST_WAIT_SECONDS))
            return
        await self._writes.evict(pod, at, event=(_REASON, f"Marking for deletion {name}"))
        self._pending.pop(key, None)


def _differs(old: Pod, new: Pod) -> bool:
    """Return whether a pod was assigned, or has other tolerations."""
    return old.spec.node_name != new.spec.node_name or old.spec.tolerations != new.spec.tolerations
