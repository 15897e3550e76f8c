"""The disruption controller: the status of PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.api.labels import Selector, selector_or_nothing
from holdfast.api.meta import Condition, OwnerReference, controller_of
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.api.scheme import DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, REPLICASETS
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    resolve_int_or_percent,
)
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers import conditions
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.planned_writes import Patch, Plan, execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler

DELETION_TIMEOUT = 120.0


def budget_selector(budget: PodDisruptionBudget) -> Selector:
    """Return a budget's selector; an invalid selector matches no pod."""
    return selector_or_nothing(budget.spec.selector)


class FullBudgetStatus(PodDisruptionBudgetStatus, frozen=True):
    """The complete status of a PodDisruptionBudget."""

    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class FullBudget(PodDisruptionBudget, frozen=True):
    """A PodDisruptionBudget with its complete status."""

    status: FullBudgetStatus = FullBudgetStatus()


BUDGETS = Resource(
    DISRUPTION_BUDGETS.group, DISRUPTION_BUDGETS.version, DISRUPTION_BUDGETS.plural,
    DISRUPTION_BUDGETS.kind, FullBudget, subresources=("status",),
)  # fmt: skip
ScaleOf = Callable[[OwnerReference, str], int | None]


@dataclass(frozen=True, slots=True)
class BudgetCounts:
    """Expected pods, desired and current healthy pods of a budget."""

    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        """How many pods may be disrupted; 0 if no pod is expected, to protect the first pod."""
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


def plan_budget(budget: FullBudget, pods: Iterable[Pod], scale_of: ScaleOf, now: float) -> Plan:
    """Plan the status of one budget.

    ``pods`` are the pods it selects; ``scale_of`` returns the replicas of a pod's controller, or
    None if they are unknown.
    """
    pods = list(pods)
    disrupted_pods, requeue_after = _disrupted_pods(budget, pods, now)
    healthy = sum(
        conditions.is_true(p.status.conditions, "Ready")
        for p in pods
        if not p.terminating and p.name not in disrupted_pods
    )
    counts = _count(budget, pods, healthy, scale_of)
    condition = _condition(budget, counts.allowed, now)
    current = conditions.find(budget.status.conditions, "DisruptionAllowed")
    old = budget.status
    same = (
        old.current_healthy, old.desired_healthy, old.expected_pods, old.disruptions_allowed,
        old.observed_generation, dict(old.disrupted_pods), current and current.status,
    ) == (
        counts.healthy, counts.desired, counts.expected, counts.allowed,
        budget.metadata.generation, disrupted_pods, condition["status"],
    )  # fmt: skip
    if same:
        return Plan(requeue_after=requeue_after)
    gone = dict.fromkeys(old.disrupted_pods.keys() - disrupted_pods.keys())
    status = {
        "currentHealthy": counts.healthy, "desiredHealthy": counts.desired,
        "expectedPods": counts.expected, "disruptionsAllowed": counts.allowed,
        "observedGeneration": budget.metadata.generation,
        "disruptedPods": {**disrupted_pods, **gone},
        "conditions": conditions.with_condition(budget.status.conditions, condition),
    }  # fmt: skip
    # Evictions also write the status; a stale plan must not restore allowed disruptions.
    guard = {"resourceVersion": budget.metadata.resource_version}
    patch = {"metadata": guard, "status": status}
    return Plan((Patch(BUDGETS, budget.name, patch, budget.namespace, "status"),), requeue_after)


def _disrupted_pods(
    budget: FullBudget, pods: list[Pod], now: float
) -> tuple[dict[str, str], float | None]:
    """Return the evicted pods that are not yet terminating, for at most two minutes each."""
    kept: dict[str, str] = {}
    waits = []
    for pod in pods:
        since = budget.status.disrupted_pods.get(pod.name)
        if since is None or pod.terminating:
            continue
        left = parse_rfc3339(since) + DELETION_TIMEOUT - now
        if left >= 0:
            kept[pod.name] = since
            waits.append(left + 1.0)
    return kept, min(waits, default=None)


def _count(budget: FullBudget, pods: list[Pod], healthy: int, scale_of: ScaleOf) -> BudgetCounts:
    spec = budget.spec
    if spec.max_unavailable is not None:
        expected = _expected(pods, scale_of)
        max_unavailable = resolve_int_or_percent(spec.max_unavailable, expected, up=True)
        return BudgetCounts(expected, max(0, expected - max_unavailable), healthy)
    if isinstance(spec.min_available, str):
        expected = _expected(pods, scale_of)
        return BudgetCounts(
            expected, resolve_int_or_percent(spec.min_available, expected, up=True), healthy
        )
    return BudgetCounts(len(pods), spec.min_available or 0, healthy)


def _expected(pods: list[Pod], scale_of: ScaleOf) -> int:
    """Add up the replicas of the pods' controllers; pods without a controller do not count."""
    scales: dict[str, int] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or owner.uid in scales:
            continue
        scale = scale_of(owner, pod.namespace)
        if scale is None:
            same = (o for p in pods if (o := controller_of(p)) is not None)
            scale = sum(o.uid == owner.uid for o in same)
        scales[owner.uid] = scale
    return sum(scales.values())


def _condition(budget: FullBudget, allowed: int, now: float) -> dict[str, Any]:
    status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    old = conditions.find(budget.status.conditions, "DisruptionAllowed")
    same = old is not None and old.status == status
    since = old.last_transition_time if old is not None and same else rfc3339(now)
    return {
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
        "observedGeneration": budget.metadata.generation, "lastTransitionTime": since,
    }  # fmt: skip


class DisruptionController(Reconciler):
    """Watch budgets, pods and the workloads whose scale counts."""

    name = "disruption-controller"
    required_resources = (BUDGETS, PODS, REPLICASETS, DEPLOYMENTS)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._budgets = context.informers.get(BUDGETS)
        self._replicasets = context.informers.get(REPLICASETS)
        self._deployments = context.informers.get(DEPLOYMENTS)
        self._budgets_in: ObjectIndex[FullBudget] = ObjectIndex(lambda b: b.namespace)
        self._pods_in: ObjectIndex[Pod] = ObjectIndex(lambda p: p.namespace)
        self._budgets.add_handler(self._budgets_in.on_change)
        self._budgets.add_handler(self._on_budget)
        pods = context.informers.get(PODS)
        pods.add_handler(self._pods_in.on_change)
        pods.add_handler(self._on_pod)
        self._deployments.add_handler(self._on_workload)
        self._replicasets.add_handler(self._on_workload)

    def _on_budget(self, kind: ChangeType, old: FullBudget | None, new: FullBudget | None) -> None:
        if new is not None:
            self.queue.add(new.key)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        either = new or old
        assert either is not None
        for budget in self._budgets_in.of(either.namespace):
            selector = budget_selector(budget)
            if any(p is not None and selector.matches(p.metadata.labels) for p in (old, new)):
                self.queue.add(budget.key)

    def _on_workload(self, kind: ChangeType, old: Any, new: Any) -> None:
        if old is not None and new is not None and old.spec.replicas != new.spec.replicas:
            for budget in self._budgets_in.of(new.namespace):
                self.queue.add(budget.key)

    async def reconcile(self, key: str) -> None:
        """Update the status of one budget."""
        budget = self._budgets.cache.get(key)
        if budget is None:
            return
        selector = budget_selector(budget)
        pods = [
            p for p in self._pods_in.of(budget.namespace)
            if not p.finished and selector.matches(p.metadata.labels)
        ]  # fmt: skip
        plan = plan_budget(budget, pods, self._scale_of, self.clock.now())
        await execute_writes(self.client, plan.writes)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)

    def _scale_of(self, owner: OwnerReference, namespace: str) -> int | None:
        if owner.kind != "ReplicaSet":
            return None
        replicaset = self._replicasets.cache.get(f"{namespace}/{owner.name}")
        if replicaset is None or replicaset.uid != owner.uid:
            return None
        parent = controller_of(replicaset)
        deployment = self._deployments.cache.get(f"{namespace}/{parent.name}") if parent else None
        return deployment.spec.replicas if deployment is not None else replicaset.spec.replicas
