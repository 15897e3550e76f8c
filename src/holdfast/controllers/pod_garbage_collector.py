"""The pod garbage collector: delete pods that no node will remove.

These are pods of nodes that no longer exist, terminating pods of nodes that are out of service,
terminating pods without a node, and the oldest finished pods if there are too many.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.api.meta import Object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.scheme import NODES, PODS
from holdfast.client.client import PatchType
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.conditions import is_true
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.controllers.taint_eviction_writes import disruption_target
from holdfast.runtime.errors import NotFound
from holdfast.runtime.metric_types import CounterMetric

QUARANTINE_SECONDS = 40.0
"""How long a node must be missing; the pods of a node that is recreated earlier are kept."""
FINISHED_SECONDS = 20.0
"""How long to wait before finished pods are deleted, because more may finish."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_NODE, _POD, _FINISHED = "node:", "pod:", "finished"


def failed_status(pod: Pod, *conditions: dict[str, Any]) -> dict[str, Any] | None:
    """Return a patch that marks a pod as failed, or None if it has finished."""
    if pod.finished:
        return None
    status: dict[str, Any] = {"phase": "Failed"}
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    if conditions:
        status["conditions"] = list(conditions)
    return {"metadata": {"uid": pod.uid}, "status": status}


def is_out_of_service(node: Node) -> bool:
    """Return whether a node is not ready and has the taint ``out-of-service``."""
    tainted = any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)
    return tainted and not is_true(node.status.conditions, "Ready")


def plan_finished(finished: Iterable[Pod], limit: int) -> list[Pod]:
    """Return the finished pods above the limit: evicted ones first, then the oldest."""
    ordered = sorted(
        finished,
        key=lambda pod: (
            not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
            pod.metadata.creation_timestamp or "",
            pod.name,
        ),
    )
    return ordered[: max(0, len(ordered) - limit)]


class PodGarbageCollector(Reconciler):
    """Watch pods and nodes; keys are ``node:name``, ``pod:namespace/name`` or ``finished``."""

    name = "pod-garbage-collector"
    queue_name = "orphaned_pods_nodes"
    required_resources = (PODS, NODES)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._limit = context.settings.nodes.terminated_pods
        labels = ("namespace", "reason")
        self._deleted = CounterMetric(
            "pod_gc_collector_force_delete_pods_total", "Pods deleted without grace.", labels
        )
        self._errors = CounterMetric(
            "pod_gc_collector_force_delete_pod_errors_total", "Deletions that failed.", labels
        )
        context.metrics.add(self._deleted, self._errors)
        self._nodes = context.informers.get(NODES)
        self._pods = context.informers.get(PODS)
        self._pods_on: ObjectIndex[Pod] = ObjectIndex(lambda pod: pod.spec.node_name)
        self._finished: dict[str, Pod] = {}
        self._pods.add_handler(self._pods_on.on_change)
        self._pods.add_handler(self._on_pod)
        self._nodes.add_handler(self._on_node)

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            self.queue.add_after(_NODE + old.name, QUARANTINE_SECONDS)
        elif new is not None and is_out_of_service(new):
            self.queue.add(_NODE + new.name)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._finished.pop(old.uid, None)
        if new is None:
            return
        if new.finished:
            self._finished[new.uid] = new
            if 0 < self._limit < len(self._finished):
                self.queue.add_after(_FINISHED, FINISHED_SECONDS)
        if not new.spec.node_name:
            if _must_be_removed(new):
                self.queue.add(_POD + new.key)
            return
        node = self._nodes.cache.get(new.spec.node_name)
        if node is None:
            self.queue.add_after(_NODE + new.spec.node_name, QUARANTINE_SECONDS)
        elif _must_be_removed(new) and is_out_of_service(node):
            self.queue.add(_NODE + node.name)

    def object_for_key(self, key: str) -> Object | None:
        """Return the pod of a key; a node may no longer exist."""
        return self._pods.cache.get(key.removeprefix(_POD))

    async def reconcile(self, key: str) -> None:
        """Delete the pods of a node, one pod without a node, or finished pods."""
        if key == _FINISHED:
            for each in plan_finished(self._finished.values(), self._limit):
                await self._remove(each, "terminated")
        elif key.startswith(_POD):
            pod = self._pods.cache.get(key.removeprefix(_POD))
            if pod is not None and not pod.spec.node_name and _must_be_removed(pod):
                await self._remove(pod, "unscheduled")
        else:
            await self._reconcile_node(key.removeprefix(_NODE))

    async def _reconcile_node(self, name: str) -> None:
        """Delete the pods of a node, after the server confirmed that the node does not exist."""
        node, pods = self._nodes.cache.get(name), self._pods_on.of(name)
        if node is not None:
            for pod in pods:
                if is_out_of_service(node) and _must_be_removed(pod):
                    await self._remove(pod, "out-of-service")
            return
        if not pods:
            return
        try:
            await self.client.get(NODES, name)
        except NotFound:
            message, now = "PodGC: node no longer exists", self.clock.now()
            for pod in pods:
                condition = disruption_target(pod, "DeletionByPodGC", message, now)
                await self._remove(pod, "orphaned", condition)

    async def _remove(self, pod: Pod, reason: str, *conditions: dict[str, Any]) -> None:
        status = failed_status(pod, *conditions)
        try:
            if status is not None:
                await self.client.patch(
                    PODS, pod.name, status, pod.namespace,
                    type=PatchType.STRATEGIC, subresource="status",
                )  # fmt: skip
            await self.client.delete(PODS, pod.name, pod.namespace, grace_seconds=0, uid=pod.uid)
        except NotFound:
            return
        except Exception:
            self._errors.add(pod.namespace, reason)
            raise
        self._deleted.add(pod.namespace, reason)


def _must_be_removed(pod: Pod) -> bool:
    """Return whether a pod is terminating; one that waits only for finalizers is left alone."""
    return pod.terminating and not (
        pod.finished and pod.metadata.deletion_grace_period_seconds == 0
    )
