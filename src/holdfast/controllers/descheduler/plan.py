"""Plan one cycle: which pods move, within the limits, and the jobs to write for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.durations import SECOND, format_nanoseconds
from holdfast.api.koordinator_names import EVICT_REASON, EVICT_TRIGGER, JOB_CREATED_BY
from holdfast.api.pod import Pod
from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.controllers.descheduler.configuration import NAME, DeschedulerConfiguration
from holdfast.controllers.descheduler.policies.policy import CandidatePod, DeschedulerPolicy
from holdfast.controllers.descheduler.simulation import Simulation
from holdfast.runtime.settings import MigrationSettings


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A pod that should move."""

    pod: Pod
    target: str
    """The node that the scheduler would choose, "" if that was not asked."""
    policy: str
    profile: str
    reason: str
    dry_run: bool = False

    @property
    def node(self) -> str:
        """The node of the pod."""
        return self.pod.spec.node_name


@dataclass(slots=True)
class CycleLimits:
    """How many pods may still move in this cycle; None: any number."""

    total: int | None = None
    per_node: int | None = None
    per_namespace: int | None = None
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def allows(self, pod: Pod) -> bool:
        """Return whether a pod may move."""
        return all(most is None or self._counts[key] < most for key, most in self._of(pod))

    def add(self, pod: Pod) -> None:
        """Count a pod that moves."""
        self._counts.update(key for key, _ in self._of(pod))

    def _of(self, pod: Pod) -> tuple[tuple[tuple[str, str], int | None], ...]:
        return (
            (("total", ""), self.total),
            (("node", pod.spec.node_name), self.per_node),
            (("namespace", pod.namespace), self.per_namespace),
        )


def plan_moves(
    cluster: Simulation, configuration: DeschedulerConfiguration
) -> Iterator[PlannedMove | None]:
    """Return the moves of a cycle one after another; None is a pause.

    Policies run in the order of the profiles; in a profile, deschedule policies run before balance
    policies. Later candidates are judged as if the earlier moves had happened.
    """
    yield from cluster.load()
    limits = CycleLimits(
        configuration.max_per_cycle, configuration.max_per_node, configuration.max_per_namespace
    )
    allowed = frozenset(cluster.rows(configuration.target_selector))
    for profile in configuration.profiles:
        rows = cluster.rows(configuration.node_selector, profile.node_selector)
        policies = [each.policy(each.args, cluster, rows) for each in profile.policies]
        for policy in policies:
            # A pod that breaks a rule moves even if the nodes become less balanced by that.
            others = [p for p in policies if policy.balances and p.balances and p is not policy]
            for candidate in policy.candidates():
                yield None
                if candidate is not None and limits.allows(candidate.pod.pod):
                    targets = _targets(
                        cluster, policy, others, candidate, must_fit=configuration.node_fit
                    )
                    if targets is not None and allowed.issuperset(targets):
                        move = _move(cluster, policy, candidate, targets, profile.name)
                        limits.add(move.pod)
                        yield move


def _targets(
    cluster: Simulation,
    policy: DeschedulerPolicy,
    others: list[DeschedulerPolicy],
    candidate: CandidatePod,
    *,
    must_fit: bool,
) -> list[int] | None:
    """Return where a candidate would go, [] if that does not matter, None if it should stay.

    The scheduler chooses at random among equal nodes, so all of them must be better.
    """
    pod, row, _ = candidate
    if cluster.find_obstacle(pod.pod):
        return None
    if not policy.node_fit and not must_fit:
        return []
    targets = cluster.targets(pod, row)
    for target in targets:
        if not policy.improves(candidate, target):
            return None
        if not all(other.permits(candidate, target) for other in others):
            return None
    return targets or None


def _move(
    cluster: Simulation,
    policy: DeschedulerPolicy,
    candidate: CandidatePod,
    targets: list[int],
    profile: str,
) -> PlannedMove:
    pod, row, reason = candidate
    target = targets[0] if targets else None
    cluster.move(pod, row, target)
    name = "" if target is None else cluster.node(target).name
    return PlannedMove(pod.pod, name, policy.name, profile, reason, policy.dry_run)


def job_body(move: PlannedMove, settings: MigrationSettings) -> dict[str, Any]:
    """Return the PodMigrationJob of a move.

    The job is named after the pod's uid, so a pod has at most one job of the descheduler. After a
    failed job the next one is created only when the failed one has been removed.
    """
    pod = move.pod
    spec: dict[str, Any] = {
        "mode": settings.default_mode,
        "podRef": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }
    if settings.default_ttl_seconds > 0:
        spec["ttl"] = format_nanoseconds(round(settings.default_ttl_seconds * SECOND))
    return {
        "apiVersion": POD_MIGRATION_JOBS.api_version,
        "kind": POD_MIGRATION_JOBS.kind,
        "metadata": {
            "name": job_name(pod),
            "annotations": {
                EVICT_REASON: move.reason,
                EVICT_TRIGGER: move.policy,
                JOB_CREATED_BY: NAME,
            },
        },
        "spec": spec,
    }


def job_name(pod: Pod) -> str:
    """Return the name of the job for a pod."""
    return f"descheduler-{pod.uid}"
