"""DefaultBinder: create the Binding of a pod to its node."""

from __future__ import annotations

from typing import Any

from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.plugin import ApiCall, ApiCalls, Placement, Plugin, Skip


class DefaultBinder(Plugin):
    """Bind a pod, with the annotations of other plugins in the same write."""

    name = "DefaultBinder"

    def bind(self, placement: Placement) -> ApiCalls | Skip:
        """Skip a reserve pod, which the Reservation plugin binds."""
        if placement.pod.is_reserve_pod:
            return Skip()
        return self._write(placement)

    def _write(self, placement: Placement) -> ApiCalls:
        pod = placement.pod
        metadata: dict[str, Any] = {"namespace": pod.namespace, "name": pod.name}
        if pod.pod.uid:
            metadata["uid"] = pod.pod.uid
        if placement.annotations:
            metadata["annotations"] = dict(placement.annotations)
        body = {
            "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
            "target": {"kind": "Node", "name": placement.node},
        }  # fmt: skip
        yield ApiCall("bind", PODS.path(pod.namespace, pod.name, "binding"), body, returns=None)
