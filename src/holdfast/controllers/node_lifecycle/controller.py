"""The node lifecycle controller: conditions and taints of nodes that have stopped reporting.

Upstream checks all nodes every 5 s. Here each node has a timer that ends with its grace period, and
a renewed lease costs the write of one number: a quiet cluster of 5,000 nodes costs 100 short checks
in a second.

A mistake here evicts all pods of a node, so a node gets more time in case of doubt. An outage of
the API server is not a failure of the nodes: informers reconnect later than the controller writes,
and after 60 s without a server all nodes were reported as unreachable. So the lease is read from
the server before a node is reported as unreachable, and after a start the grace period grows with
the number of nodes.

A write that leads to a further step ends the reconcile; the event of the write starts the next one.
Before, two writes in a row to one node caused a conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.meta import Object
from holdfast.api.node import Lease, Node
from holdfast.api.node_names import LEASE_NAMESPACE
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.api.scheme import LEASES, NODES, PODS
from holdfast.api.timestamps import rfc3339, seconds_of
from holdfast.client.client import PatchType
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.conditions import is_true
from holdfast.controllers.node_lifecycle.heartbeats import (
    NodeHeartbeats,
    plan_unknown_status,
    ready_status,
)
from holdfast.controllers.node_lifecycle.taints import (
    Evicting,
    evicting_taint,
    has_evicting_taint,
    plan_node_taints,
)
from holdfast.controllers.node_lifecycle.zones import Disruption, NodeZone, NodeZones, zone_key
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.planned_writes import execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import NotFound, Unavailable
from holdfast.runtime.metric_types import CallbackMetric, CounterMetric

START_SECONDS_PER_NODE = 0.02
"""This much per node is added to the first grace period after a start: agents that start at the
same time as the controllers renew thousands of leases one after another."""
_NODE, _POD, _ZONE = "node:", "pod:", "zone:"
_RATES = "rates"


class NodeLifecycleController(Reconciler):
    """Watch nodes, their leases and their pods.

    Keys are ``node:name``, ``pod:namespace/name``, ``zone:key`` for the next NoExecute taint of a
    zone, and ``rates`` for the states of all zones.
    """

    name = "node-controller"
    queue_name = "node_lifecycle_controller"
    required_resources: tuple[Resource[Any], ...] = (NODES, PODS, LEASES)
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        settings = context.settings.nodes
        self._heartbeats = NodeHeartbeats(settings)
        self._zones = NodeZones(settings)
        self._expired: set[str] = set()
        """Nodes whose grace period is over; their timers do not run."""
        self._pods_to_mark: dict[str, bool] = {}
        """Nodes whose pods must be reported as not ready, and whether the node also gets an
        event."""
        self._pods_on: ObjectIndex[Pod] = ObjectIndex(lambda pod: pod.spec.node_name)
        self._evictions = CounterMetric(
            "node_collector_evictions_total",
            "Nodes that got a NoExecute taint because they were not ready.",
            ("zone",),
        )
        context.metrics.add(self._evictions, *self._zone_metrics())
        self._nodes = context.informers.get(NODES)
        self._pods = context.informers.get(PODS)
        self._pods.add_handler(self._pods_on.on_change)
        self._pods.add_handler(self._on_pod)
        self._nodes.add_handler(self._on_node)
        self._leases = context.informers.get(LEASES)
        self._leases.add_handler(self._on_lease)

    def _zone_metrics(self) -> tuple[CallbackMetric, ...]:
        zones = self._zones.zones

        def metric(name: str, text: str, of: Callable[[NodeZone], float]) -> CallbackMetric:
            return CallbackMetric(
                f"node_collector_{name}", text, ("zone",),
                lambda: {key: of(zone) for key, zone in zones.items()},
            )  # fmt: skip

        return (
            metric("zone_size", "Nodes of a zone.", lambda zone: len(zone.nodes)),
            metric(
                "unhealthy_nodes_in_zone",
                "Nodes of a zone that are not ready.",
                lambda zone: len(zone.not_ready),
            ),
            metric(
                "zone_health",
                "Percentage of ready nodes of a zone.",
                lambda zone: 100 - 100 * len(zone.not_ready) / max(1, len(zone.nodes)),
            ),
        )

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        if self._zones.update(old, new):
            self.queue.add(_RATES)
        if new is None:
            if old is not None:
                self._heartbeats.forget(old.name)
                self._pods_to_mark.pop(old.name, None)
                self._expired.discard(old.name)
            return
        created = seconds_of(new.metadata.creation_timestamp)
        age = self.clock.now() - created if created is not None else 0.0
        if self._heartbeats.node_changed(old, new, self.clock.monotonic(), age):
            self._expired.discard(new.name)
        if old is None and ready_status(new) not in ("True", ""):
            self._pods_to_mark[new.name] = False
        self.queue.add(_NODE + new.name)

    def _on_lease(self, kind: ChangeType, old: Lease | None, new: Lease | None) -> None:
        if new is None or new.namespace != LEASE_NAMESPACE:
            return
        renewed = self._heartbeats.lease_changed(old, new, self.clock.monotonic())
        if renewed and new.name in self._expired:
            self._expired.discard(new.name)
            self.queue.add(_NODE + new.name)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        """Queue a pod that was assigned to a node that is not ready."""
        if new is None or (old is not None and old.spec.node_name == new.spec.node_name):
            return
        node = self._nodes.cache.get(new.spec.node_name)
        if node is not None and ready_status(node) not in ("True", ""):
            self.queue.add(_POD + new.key)

    async def wait_for_sync(self) -> None:
        """Wait for the informers, then count the grace periods of the nodes that exist."""
        await super().wait_for_sync()
        start = self.clock.monotonic() + START_SECONDS_PER_NODE * len(self._nodes.cache)
        self._heartbeats.restart(start)

    def object_for_key(self, key: str) -> Object | None:
        """Return the node or the pod of a key."""
        if key.startswith(_POD):
            return self._pods.cache.get(key.removeprefix(_POD))
        return self._nodes.cache.get(key.removeprefix(_NODE))

    async def reconcile(self, key: str) -> None:
        """Check a node, report a pod as not ready, taint the next node of a zone or set rates."""
        if key == _RATES:
            self._update_rates()
        elif key.startswith(_ZONE):
            await self._taint_next(key.removeprefix(_ZONE))
        elif key.startswith(_POD):
            pod = self._pods.cache.get(key.removeprefix(_POD))
            node = self._nodes.cache.get(pod.spec.node_name) if pod is not None else None
            if pod is not None and node is not None and ready_status(node) not in ("True", ""):
                await self._mark_not_ready(pod)
        elif (node := self._nodes.cache.get(key.removeprefix(_NODE))) is not None:
            await self._check_node(node)

    async def _check_node(self, node: Node) -> None:
        left = self._heartbeats.seconds_left(node, self.clock.monotonic())
        patch = plan_unknown_status(node, self.clock.now()) if left <= 0 else None
        if patch is not None and await self._has_renewed(node):
            left, patch = self._heartbeats.seconds_left(node, self.clock.monotonic()), None
        if left > 0:
            self.queue.add_after(_NODE + node.name, left)
        else:
            self._expired.add(node.name)
            if patch is not None:
                if is_true(node.status.conditions, "Ready"):
                    self._pods_to_mark[node.name] = True
                await execute_writes(self.client, (patch,))
                return  # the event of the new status starts the next reconcile
        await self._mark_pods(node)
        await self._update_taints(node)

    async def _has_renewed(self, node: Node) -> bool:
        """Return whether the server has a newer lease than the informer, which may be behind.

        While the server does not respond no node can renew its lease: all nodes get more time.
        """
        try:
            stored = await self.client.get(LEASES, node.name, LEASE_NAMESPACE)
        except NotFound:
            return False
        except Unavailable:
            self._heartbeats.restart(self.clock.monotonic())
            raise
        known = self._leases.cache.get(stored.key)
        return self._heartbeats.lease_changed(known, stored, self.clock.monotonic())

    async def _mark_pods(self, node: Node) -> None:
        """Report the pods of a node that has become not ready."""
        if node.name not in self._pods_to_mark:
            return
        if ready_status(node) != "True":
            if self._pods_to_mark[node.name]:
                message = f"Node {node.name} status is now: NodeNotReady"
                self.record_event(node, "Normal", "NodeNotReady", message)
                self._pods_to_mark[node.name] = False
            for pod in self._pods_on.of(node.name):
                await self._mark_not_ready(pod)
        self._pods_to_mark.pop(node.name, None)

    async def _mark_not_ready(self, pod: Pod) -> None:
        """Report a pod as not ready in place of its node."""
        if not is_true(pod.status.conditions, "Ready"):
            return
        ready = {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [ready]}}
        try:
            await self.client.patch(
                PODS, pod.name, patch, pod.namespace,
                type=PatchType.STRATEGIC, subresource="status",
            )  # fmt: skip
        except NotFound:
            return
        self.record_event(pod, "Warning", "NodeNotReady", "Node is not ready")

    async def _update_taints(self, node: Node) -> None:
        evicting = Evicting.REMOVE if self._zones.all_failed else Evicting.KEEP
        patch = plan_node_taints(node, self.clock.now(), evicting)
        if patch is not None:
            await execute_writes(self.client, (patch,))
            return  # the event of the new taints starts the next reconcile
        if not evicting_taint(node) or (has_evicting_taint(node) and evicting is Evicting.KEEP):
            self._zones.remove_waiting(node)
        else:
            self._zones.add_waiting(node)
            self._queue_zone(zone_key(node))

    def _queue_zone(self, key: str) -> None:
        """Queue a zone for the time when its next node may be tainted."""
        wait = self._zones.wait(key, self.clock.monotonic())
        if wait is not None:
            self.queue.add_after(_ZONE + key, wait)

    def _update_rates(self) -> None:
        change = self._zones.update_rates(self.clock.monotonic())
        if change is Disruption.ENTERED:
            for node in self._nodes.cache.values():
                if has_evicting_taint(node):
                    self.queue.add(_NODE + node.name)
        elif change is Disruption.LEFT:
            self._heartbeats.restart(self.clock.monotonic())
            for name in self._expired:
                self.queue.add(_NODE + name)
            self._expired.clear()
        for key in self._zones.zones:
            self._queue_zone(key)

    async def _taint_next(self, key: str) -> None:
        """Add a NoExecute taint to the node of a zone that has waited longest."""
        if self._zones.changed:
            self._update_rates()
        zone, now = self._zones.zones.get(key), self.clock.monotonic()
        if zone is None or self._zones.wait(key, now) != 0.0:
            # A write with a conflict is retried after 5 ms, earlier than the rate permits. Without
            # this the retry did nothing and was the last one, so the node kept its pods.
            self._queue_zone(key)
            return
        name = next(iter(zone.waiting))
        node = self._nodes.cache.get(name)
        patch = None
        if node is not None and zone_key(node) == key and evicting_taint(node):
            patch = plan_node_taints(node, self.clock.now(), Evicting.ADD)
        if patch is not None:
            zone.limiter.take(now)
            await execute_writes(self.client, (patch,))
            self._evictions.add(key)
        zone.waiting.pop(name, None)
        self._queue_zone(key)
