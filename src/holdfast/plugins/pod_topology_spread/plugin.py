"""The plugin: read the constraints of a pod, and find what they count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from holdfast.api.node_selection import required_nodes
from holdfast.api.pod import Pod
from holdfast.columns.affinity_terms import PodSelector
from holdfast.columns.counters import PodSelectors
from holdfast.columns.epochs import Epoch
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import BadRequest, Invalid
from holdfast.framework.events import EventResource
from holdfast.framework.plugin import (
    ClusterEvent,
    Code,
    Plugin,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
)
from holdfast.framework.view import View
from holdfast.plugins.pod_topology_spread.arguments import read_args
from holdfast.plugins.pod_topology_spread.constraint_counts import ConstraintCounts
from holdfast.plugins.pod_topology_spread.constraints import (
    NO_CONSTRAINTS,
    Constraint,
    Constraints,
    Eligibility,
    own_constraints,
    selector_keys,
)
from holdfast.plugins.pod_topology_spread.hard_constraints import HardConstraints
from holdfast.plugins.pod_topology_spread.hints import (
    NODE_ACTIONS,
    POD_ACTIONS,
    event_helps,
    may_help,
)
from holdfast.plugins.pod_topology_spread.soft_constraints import (
    HOSTNAME,
    SoftConstraint,
    SoftConstraints,
)


@dataclass
class HardAndSoftConstraints(HardConstraints, SoftConstraints):
    """Do both, for pods with constraints of both kinds."""


Eligibilities = Callable[[bool, bool], Eligibility]
"""Returns the eligibility for a constraint by whether it honors affinity, and taints."""


class PodTopologySpread(Plugin):
    """Filter by hard constraints, score by soft ones."""

    name = "PodTopologySpread"
    traits = Traits(
        scope=Scope.DOMAIN,
        epochs=(Epoch.COUNTERS, Epoch.SELECTORS),
        events_to_register={
            EventResource.NODE: NODE_ACTIONS,
            EventResource.ASSIGNED_POD: POD_ACTIONS,
            EventResource.UNSCHEDULABLE_POD: POD_ACTIONS,
        },
        reads_outside_spec=True,  # Services and the pod's owner decide the default selector
        ignores_requests=True,
        comparable_plans=True,
        accepts_slices=True,
        bounded_scores=True,
    )
    plan_classes = (HardConstraints, SoftConstraints, HardAndSoftConstraints)

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._defaults = read_args(self.name, args)

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return the default selector, which Services and the pod's owner decide."""
        if pod.pod.spec.topology_spread_constraints or not self._defaults.constraints:
            return None
        return view.world.selectors.number_of(pod)

    def constraints(self, pod: PodInfo, view: View) -> Constraints:
        """Return a pod's own constraints, or the defaults if it has none."""
        if pod.pod.spec.topology_spread_constraints:
            return own_constraints(pod.pod)
        if not self._defaults.constraints:
            return NO_CONSTRAINTS
        return self._defaults.apply_to(pod.pod, view.world.selectors.of(pod))

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the constraints, and what decides which nodes and pods count."""
        try:
            constraints = self.constraints(pod, view)
        except (BadRequest, Invalid) as wrong:
            return str(wrong)
        if not constraints:
            return None
        required, tolerations = required_nodes(pod.pod), pod.pod.spec.tolerations
        return (pod.namespace, constraints, required, tolerations, view.hidden_pods)

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None] | None:
        """Match new selectors against all pods, in short steps."""
        if pod.pod.spec.topology_spread_constraints:
            return self._prepare_own(pod, view)
        if not self._defaults.constraints:
            return None
        key = pod.namespace, view.world.selectors.number_of(pod)
        if view.nodes.has_counted(key):
            return None
        return view.nodes.count_in_steps(key, pod.namespace, partial(self._counted, pod, view))

    def _prepare_own(self, pod: PodInfo, view: View) -> Iterator[None]:
        nodes, own = view.nodes, pod.pod.spec.topology_spread_constraints
        yield from nodes.add_selector_keys_in_steps(selector_keys(own))
        key = pod.spec_key_without_requests, nodes.label_group_of(pod).id
        yield from nodes.count_in_steps(key, pod.namespace, partial(self._counted, pod, view))

    def _counted(self, pod: PodInfo, view: View) -> Iterator[PodSelectors]:
        """Yield the selectors of the counters that the plan for the pod has."""
        try:
            constraints = self.constraints(pod, view)
        except (BadRequest, Invalid):
            return
        namespaces = frozenset((pod.namespace,))
        for constraint in (*constraints.hard, *constraints.soft):
            yield (PodSelector(namespaces, constraint.counted),)
            if constraint.counted is not constraint.selector:
                yield (PodSelector(namespaces, constraint.selector),)

    def pre_filter(
        self, pod: PodInfo, view: View
    ) -> HardConstraints | SoftConstraints | Skip | Reject:
        """Find the counters; skip a pod without constraints."""
        try:
            constraints = self.constraints(pod, view)
        except (BadRequest, Invalid) as wrong:
            return Reject(Code.UNRESOLVABLE, (f"parsing topology spread constraints: {wrong}",))
        if not constraints:
            return Skip()
        nodes = view.nodes
        # New selector keys regroup all pods: add them at once.
        nodes.add_selector_keys(constraints.label_keys)
        eligible = _eligibilities(pod.pod, (c.key for c in constraints.hard))
        hard = tuple(self._count(c, eligible, view) for c in constraints.hard)
        if not constraints.soft:
            return HardConstraints(nodes, hard)
        defaulted = constraints.system_defaulted
        keys = () if defaulted else (c.key for c in constraints.soft)
        eligible = _eligibilities(pod.pod, keys)
        soft = tuple(self._soft(c, eligible, view) for c in constraints.soft)
        if not hard:
            return SoftConstraints(nodes, soft, defaulted)
        return HardAndSoftConstraints(nodes, soft, defaulted, hard=hard)

    def _count(
        self, constraint: Constraint, eligible: Eligibilities, view: View
    ) -> ConstraintCounts:
        pod, nodes = view.pod, view.nodes
        eligibility = eligible(constraint.honor_affinity, constraint.honor_taints)
        counter = view.counter(pod.namespace, constraint.counted)
        label = nodes.label_column(constraint.key)
        domains = counter.by_domain(
            constraint.key, eligibility, label, lambda: eligibility.rows(nodes), nodes.node_journal
        )
        moving = nodes.counter(pod.namespace, constraint.selector)
        return ConstraintCounts(constraint, pod.namespace, domains, label, eligibility, moving)

    def _soft(self, constraint: Constraint, eligible: Eligibilities, view: View) -> SoftConstraint:
        nodes = view.nodes
        counter = view.counter(view.pod.namespace, constraint.counted)
        if constraint.key == HOSTNAME:
            return SoftConstraint(constraint, nodes.label_column(HOSTNAME), None, counter)
        counted = self._count(constraint, eligible, view)
        return SoftConstraint(constraint, counted.label, counted.domains, counter)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if pods, nodes or the pod's own tolerations change the counts."""
        if not may_help(event, pod):
            return False
        try:
            hard = self.constraints(pod, view).hard
        except (BadRequest, Invalid):
            return True
        return event_helps(event, pod, hard)


def _eligibilities(pod: Pod, keys: Iterable[str]) -> Eligibilities:
    """Return a function that makes each of a pod's eligibilities once, for all constraints."""
    keys = tuple(sorted(set(keys)))

    @cache
    def eligibility(honor_affinity: bool, honor_taints: bool) -> Eligibility:
        return Eligibility(
            keys,
            required_nodes(pod) if honor_affinity else None,
            pod.spec.tolerations if honor_taints else None,
        )

    return eligibility
