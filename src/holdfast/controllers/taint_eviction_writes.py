"""Delete the pods whose time on a tainted node or device is over."""

from __future__ import annotations

from typing import Any

from holdfast.api.pod import Pod
from holdfast.api.scheme import PODS
from holdfast.api.timestamps import rfc3339
from holdfast.client.client import PatchType
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import NotFound
from holdfast.runtime.metric_types import CounterMetric, Histogram

LONGEST_WAIT_SECONDS = 86_400.0
_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


def disruption_target(pod: Pod, reason: str, message: str, now: float) -> dict[str, Any]:
    """Return the raw condition of a pod that is deleted by a controller."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
        **({"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}),
    }


class TaintEvictionWrites:
    """Evict pods for one controller: an event, a condition, the deletion and its metrics."""

    def __init__(
        self,
        controller: Reconciler,
        context: ControllerContext,
        *,
        subsystem: str,
        condition: tuple[str, str],
    ) -> None:
        self._controller = controller
        self._reason, self._message = condition
        self._deletions = CounterMetric(
            f"{subsystem}_pod_deletions_total", "Pods that the controller has deleted."
        )
        self._latency = Histogram(
            f"{subsystem}_pod_deletion_duration_seconds",
            "Time from the moment when a taint takes effect for a pod until its deletion.",
            _SECONDS,
        )
        context.metrics.add(self._deletions, self._latency)

    async def evict(self, pod: Pod, at: float, *, event: tuple[str, str]) -> bool:
        """Mark and delete a pod; return False if it is gone, replaced or terminating."""
        client, now = self._controller.client, self._controller.clock.now()
        condition = disruption_target(pod, self._reason, self._message, now)
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            stored: Pod = await client.get(PODS, pod.name, pod.namespace)
            if stored.uid != pod.uid or stored.terminating:
                return False
            self._controller.record_event(pod, "Normal", *event)
            await client.patch(
                PODS,
                pod.name,
                patch,
                pod.namespace,
                type=PatchType.STRATEGIC,
                subresource="status",
            )
            await client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except NotFound:
            return False
        self._deletions.add()
        self._latency.observe(self._controller.clock.now() - at)
        return True
