"""The resource policy controller: pod deletion costs, and the status of policies."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.api.scheme import EVENTS, NODES, PODS, RESOURCE_POLICIES
from holdfast.client.informer import YIELD_AFTER_SECONDS
from holdfast.client.informer_cache import ChangeType
from holdfast.client.workqueue import WorkQueue, run_workers
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.planned_writes import Plan, PlannedEvent, execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.controllers.resource_policy.index import PolicyEntry, PolicyIndex
from holdfast.controllers.resource_policy.plan import (
    DELETION_COST_MANUAL,
    find_excess,
    find_overwritten_cost,
    is_managed,
    plan_policy_status,
    plan_users_cost,
)
from holdfast.runtime.errors import HoldfastError

STATUS_INTERVAL_SECONDS = 1.0
"""The shortest time between two computations of a policy's status while pods and nodes change."""
MAX_COST_WRITES = 20
"""The cost of a pod is written at most this often a minute.

More writes are a sign that another controller with other settings changes each value back.
"""

log = logging.getLogger(__name__)


class ResourcePolicyController(Reconciler):
    """Writes the deletion costs of the pods that policies select, and the status of policies.

    Annotations of the pods say what was written for them, so a restart continues where the last run
    stopped. Pods of a policy that was deleted in between are cleaned up as well.
    """

    name = "resourcepolicy-controller"
    required_resources = (RESOURCE_POLICIES, PODS, NODES)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._settings = context.settings.resource_policies
        self._index = PolicyIndex()
        costs = context.metrics.queues.queue(f"{self.name}-pods")
        self._costs = WorkQueue(context.clock, observer=costs)
        """Pods whose deletion cost may have to be written."""
        self._counting = asyncio.Lock()
        """Held while pods are counted for changed policies. So no status is partial, and no cost is
        planned before the pods above a cap are known."""
        self._users_costs: dict[str, str] = {}
        """Costs of users that a Binding has replaced, by the uid of the pod."""
        self._cost_writes: Counter[str] = Counter()
        """The writes of each pod's cost since the start of the minute, by uid."""
        self._minute_ends = 0.0
        self._computed_at: dict[str, float] = {}
        """The time when the status of each policy was computed last."""
        self._manual: set[str] = set()
        """The uids of the pods that an event was recorded about."""
        self._manual_before: dict[str, frozenset[str]] = {}
        """The uids of such pods from earlier runs, by namespace; read when they are needed."""
        self._policies = context.informers.get(RESOURCE_POLICIES)
        self._pods = context.informers.get(PODS)
        self._policies_in: ObjectIndex[ResourcePolicy] = ObjectIndex(lambda p: p.namespace)
        self._policies.add_handler(self._policies_in.on_change)
        self._policies.add_handler(self._on_policy)
        self._pods.add_handler(self._on_pod)
        context.informers.get(NODES).add_handler(self._on_node)

    async def run(self) -> None:
        """Count all pods, then process both queues until ``stop``."""
        self._running = True
        costs: asyncio.Task[None] | None = None
        try:
            await self.wait_for_sync()
            # No cost may be removed before all policies are known.
            async with self._counting:
                namespaces = {policy.namespace for policy in self._policies.cache.values()}
                for namespace in namespaces:
                    self._index.set_policies(namespace, self._policies_in.of(namespace))
                await self._count(tuple(self._pods.cache.values()))
                for namespace in namespaces:
                    self._find_excess(*self._index.entries(namespace))
            costs = asyncio.create_task(self._process_costs())
            await super().run()
        finally:
            self._running = False
            if costs is not None:
                costs.cancel()
                await asyncio.gather(costs, return_exceptions=True)

    async def _process_costs(self) -> None:
        await run_workers(
            self._costs,
            self._reconcile_pod,
            workers=self.workers,
            name=self.name,
            failed=self._record_cost_failure,
        )

    def stop(self) -> None:
        """Accept no more keys; ``run`` ends when the queued ones are processed."""
        super().stop()
        self._costs.shutdown()

    def _on_policy(
        self, kind: ChangeType, old: ResourcePolicy | None, new: ResourcePolicy | None
    ) -> None:
        either = new or old
        assert either is not None
        if old is not None and new is not None and old.spec == new.spec:
            self._queue_status(new.key)
        else:
            self.queue.add(either.key)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            if old is not None and (cost := find_overwritten_cost(old, new)) is not None:
                self._users_costs[new.uid] = cost
            self._put_pod(new)
        elif old is not None:
            self._manual.discard(old.uid)
            self._users_costs.pop(old.uid, None)
            self._queue_statuses(self._index.remove_pod(old))

    def _on_node(self, kind: ChangeType, old: Node | None, new: Node | None) -> None:
        either = new or old
        assert either is not None
        labels = None if new is None else new.metadata.labels
        if old is not None and old.metadata.labels == labels:
            return
        changed, pods = self._index.put_node(either.name, labels)
        self._queue_statuses(changed)
        for pod in pods:
            self._queue_cost(pod)

    def _put_pod(self, pod: Pod) -> None:
        self._queue_statuses(self._index.put_pod(pod))
        self._queue_cost(pod)

    def _queue_cost(self, pod: Pod) -> None:
        if not self._index.may_change(pod):
            return
        plan = self._plan_cost(pod)
        if plan.writes or (plan.events and pod.uid not in self._manual):
            self._costs.add(pod.key)

    def _plan_cost(self, pod: Pod) -> Plan:
        if (users := self._users_costs.get(pod.uid)) is not None:
            if is_managed(pod):
                return plan_users_cost(pod, users)
            del self._users_costs[pod.uid]
        return self._index.plan(pod)

    def _queue_statuses(self, entries: list[PolicyEntry]) -> None:
        for entry in entries:
            self._queue_status(entry.policy.key)

    def _queue_status(self, key: str) -> None:
        computed = self._computed_at.get(key)
        wait = 0.0
        if computed is not None:
            wait = computed + STATUS_INTERVAL_SECONDS - self.clock.monotonic()
        if wait > 0:
            self.queue.add_after(key, wait)
        else:
            self.queue.add(key)

    async def reconcile(self, key: str) -> None:
        """Bring one policy's status up to date, and queue pods whose cost it changes."""
        policy = self._policies.cache.get(key)
        namespace, _, name = key.partition("/")
        async with self._counting:
            if not self._index.knows(namespace, name, policy):
                self._index.set_policies(namespace, self._policies_in.of(namespace))
                pods = self._pods.cache.values()
                await self._count([pod for pod in pods if pod.namespace == namespace])
                self._find_excess(*self._index.entries(namespace))
        if policy is None:
            self._computed_at.pop(key, None)
            return
        self._computed_at[key] = self.clock.monotonic()
        plan = self._plan_status(policy)
        await execute_writes(self.client, plan.writes)

    def _plan_status(self, policy: ResourcePolicy) -> Plan:
        now = self.clock.now()
        entry = self._index.entry(policy)
        if entry is None:
            error = self._index.error(policy)
            return plan_policy_status(policy, None, None, now, error=error)
        self._find_excess(entry)
        return plan_policy_status(policy, entry.usage(), entry.conflict(), now)

    def _find_excess(self, *entries: PolicyEntry) -> None:
        """Find the pods above the caps of policies that drain excess; queue those that changed."""
        for entry in entries if self._settings.drain_excess else ():
            before, entry.excess = entry.excess, find_excess(entry.usage())
            for _, pod in before.items() ^ entry.excess.items():
                self._costs.add(pod)

    async def _count(self, pods: Iterable[Pod]) -> None:
        """Count pods again, after a change of their policies."""
        now = asyncio.get_running_loop().time
        yield_at = now() + YIELD_AFTER_SECONDS
        for pod in pods:
            current = self._pods.cache.get(pod.key)
            if current is not None:
                self._put_pod(current)
            if now() > yield_at:
                await asyncio.sleep(0)
                yield_at = now() + YIELD_AFTER_SECONDS

    async def _reconcile_pod(self, key: str) -> None:
        """Write the deletion cost of one pod."""
        pod = self._pods.cache.get(key)
        if pod is None:
            return
        async with self._counting:
            plan = self._plan_cost(pod)
        if plan.writes and (wait := self._wait_before_write(pod)):
            self._costs.add_after(key, wait)
            return
        await execute_writes(self.client, plan.writes)
        for event in plan.events:
            await self._record_once(pod, event)

    def _wait_before_write(self, pod: Pod) -> float:
        """Return the seconds to wait before the cost of a pod is written again."""
        now = self.clock.monotonic()
        if now >= self._minute_ends:
            self._cost_writes.clear()
            self._minute_ends = now + 60
        self._cost_writes[pod.uid] += 1
        writes = self._cost_writes[pod.uid]
        if writes == MAX_COST_WRITES + 1:
            log.warning(
                "the deletion cost of pod %s was written %d times in a minute; does another "
                "controller with other settings write it too?",
                pod.key,
                MAX_COST_WRITES,
            )
        return self._minute_ends - now if writes > MAX_COST_WRITES else 0.0

    def _record_cost_failure(self, key: str, failure: Exception, failures: int) -> None:
        self.record_failure(self._pods.cache.get(key), failure, failures)

    async def _record_once(self, pod: Pod, event: PlannedEvent) -> None:
        """Record an event about a pod, unless this or an earlier run did."""
        if pod.uid in self._manual:
            return
        self._manual.add(pod.uid)
        if pod.namespace not in self._manual_before:
            self._manual_before[pod.namespace] = await self._recorded_before(pod.namespace)
        if pod.uid not in self._manual_before[pod.namespace]:
            self.record_event(pod, event.type, event.reason, event.message)

    async def _recorded_before(self, namespace: str) -> frozenset[str]:
        try:
            listing = await self.client.list(
                EVENTS, namespace, fields=f"reason={DELETION_COST_MANUAL}", unreadable=_ignore
            )
        except HoldfastError as failure:
            log.warning("events cannot be listed: %s; some may be recorded again", failure)
            return frozenset()
        return frozenset(event.involved_object.uid for event in listing.items)


def _ignore(_unreadable: object) -> None:
    pass
