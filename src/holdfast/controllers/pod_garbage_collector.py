"""The pod garbage collector: delete the pods of nodes that no longer exist."""

from __future__ import annotations

from typing import Any

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.scheme import NODES, PODS
from holdfast.api.timestamps import rfc3339
from holdfast.client.client import PatchType
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.errors import NotFound

QUARANTINE_SECONDS = 40.0
"""How long a node must be missing; the pods of a node that is recreated earlier are kept."""


def failed_status(pod: Pod, now: float) -> dict[str, Any] | None:
    """Return a patch that marks a pod as failed, or None if it has finished."""
    if pod.finished:
        return None
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists", "lastTransitionTime": rfc3339(now),
    }  # fmt: skip
    return {"metadata": {"uid": pod.uid}, "status": {"phase": "Failed", "conditions": [condition]}}


class PodGarbageCollector(Reconciler):
    """Watch pods and nodes; keys are node names."""

    name = "pod-garbage-collector"
    required_resources = (PODS, NODES)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = context.informers.get(NODES)
        self._pods_on: ObjectIndex[Pod] = ObjectIndex(lambda pod: pod.spec.node_name)
        pods = context.informers.get(PODS)
        pods.add_handler(self._pods_on.on_change)
        pods.add_handler(self._on_pod)
        self._nodes.add_handler(self._on_node)

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            self.queue.add_after(old.name, QUARANTINE_SECONDS)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.spec.node_name and new.spec.node_name not in self._nodes.cache:
            self.queue.add_after(new.spec.node_name, QUARANTINE_SECONDS)

    async def reconcile(self, key: str) -> None:
        """Delete the pods of a node, after the server confirmed that the node does not exist."""
        pods = self._pods_on.of(key)
        if key in self._nodes.cache or not pods:
            return
        try:
            await self.client.get(NODES, key)
        except NotFound:
            for pod in pods:
                await self._remove(pod)

    async def _remove(self, pod: Pod) -> None:
        status = failed_status(pod, self.clock.now())
        try:
            if status is not None:
                await self.client.patch(
                    PODS, pod.name, status, pod.namespace,
                    type=PatchType.STRATEGIC, subresource="status",
                )  # fmt: skip
            await self.client.delete(PODS, pod.name, pod.namespace, grace_seconds=0, uid=pod.uid)
        except NotFound:
            return
