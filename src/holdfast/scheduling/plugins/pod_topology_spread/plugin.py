"""The plugin: read the constraints of a pod, find what they count, and which events may help it.

Users decide how many constraints a pod has and which selectors. New selectors are matched against
all pods in steps before the cycle (``prepare``, decisions 0020 and 0031). Data that several
constraints share is computed once for all of them (``_eligibilities``): when each looked up the
keys of all others on all nodes, 4,000 constraints took more than a minute for 100 nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from holdfast.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from holdfast.api.names import label_key
from holdfast.api.node import Node
from holdfast.api.node_selection import required_nodes
from holdfast.api.pod import Pod, TopologySpreadConstraint
from holdfast.runtime.errors import BadRequest, Invalid
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    ClusterEvent,
    Code,
    Plugin,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.pod_topology_spread.constraints import (
    HARD,
    NO_CONSTRAINTS,
    SOFT,
    Constraint,
    Constraints,
    Defaults,
    Eligibility,
    own_constraints,
    selector_keys,
)
from holdfast.scheduling.plugins.pod_topology_spread.hard_constraints import (
    ConstraintCounts,
    HardConstraints,
)
from holdfast.scheduling.plugins.pod_topology_spread.soft_constraints import (
    HOSTNAME,
    SoftConstraint,
    SoftConstraints,
)
from holdfast.state.columns.affinity_terms import PodSelector
from holdfast.state.columns.counters import PodSelectors
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.pod_info import PodInfo

_SYSTEM, _LIST = "System", "List"
_NODE_ACTIONS = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE_NODE_LABEL,
    ActionType.UPDATE_NODE_TAINT,
)
_POD_ACTIONS = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE_POD_LABEL,
    ActionType.UPDATE_POD_TOLERATION,
)


@dataclass
class HardAndSoftConstraints(HardConstraints, SoftConstraints):
    """Filter and score, for pods with constraints of both kinds."""


Eligibilities = Callable[[bool, bool], Eligibility]
"""Returns the eligibility for a constraint by whether it honors affinity, and taints."""


class _Args(PluginArgs, frozen=True):
    defaulting_type: str = ""
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


class PodTopologySpread(Plugin):
    """Filter by hard constraints, score by soft ones."""

    name = "PodTopologySpread"
    traits = Traits(
        scope=Scope.DOMAIN,
        epochs=(Epoch.COUNTERS, Epoch.SELECTORS),
        events_to_register={
            EventResource.NODE: _NODE_ACTIONS,
            EventResource.ASSIGNED_POD: _POD_ACTIONS,
            EventResource.UNSCHEDULABLE_POD: _POD_ACTIONS,
        },
        reads_outside_spec=True,  # Services and the pod's owner decide the default selector
        ignores_requests=True,
        comparable_plans=True,
        accepts_slices=True,
        bounded_scores=True,
    )
    plan_classes = (HardConstraints, SoftConstraints, HardAndSoftConstraints)

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._defaults = _read_args(self.name, args)

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
        if not _may_help(event, pod):
            return False
        try:
            hard = self.constraints(pod, view).hard
        except (BadRequest, Invalid):
            return True
        return _event_helps(event, pod, hard)


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


def _read_args(plugin: str, args: Mapping[str, Any]) -> Defaults:
    """Read the default constraints; raise an error that names every wrong field."""
    wrong = Arguments(plugin)
    given = wrong.read(_Args, args)
    defaulting = given.defaulting_type or _SYSTEM
    if defaulting not in (_SYSTEM, _LIST):
        wrong.append(not_supported("defaultingType", defaulting, (_SYSTEM, _LIST)))
    elif defaulting == _SYSTEM and given.default_constraints:
        message = "when .defaultConstraints are not empty"
        wrong.append(invalid("defaultingType", _SYSTEM, message))
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(given.default_constraints):
        path = f"defaultConstraints[{i}]"
        _check(constraint, path, wrong)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            wrong.append(duplicate(path, f"{{{', '.join(key)}}}"))
        seen.add(key)
    wrong.refuse_if_wrong()
    return (
        Defaults() if defaulting == _SYSTEM else Defaults(given.default_constraints, system=False)
    )


def _check(constraint: TopologySpreadConstraint, path: str, wrong: Arguments) -> None:
    if constraint.max_skew <= 0:
        wrong.append(invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)"))
    if not constraint.topology_key:
        wrong.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        at = f"{path}.topologyKey"
        wrong.extend(
            invalid(at, constraint.topology_key, message)
            for message in label_key(constraint.topology_key)
        )
    action = constraint.when_unsatisfiable
    if not action:
        wrong.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in (HARD, SOFT):
        wrong.append(not_supported(f"{path}.whenUnsatisfiable", action, (HARD, SOFT)))
    if constraint.label_selector is not None:
        message = "constraint must not define a selector, as they deduced for each pod"
        wrong.append(forbidden(f"{path}.labelSelector", message))


def _may_help(event: ClusterEvent, pod: PodInfo) -> bool:
    """Return whether an event may help the pod, whatever its constraints.

    Called before they are read: with 150 waiting pods of 100 constraints each, every event of a pod
    of another namespace cost 130 ms; now it costs 4.
    """
    if event.resource == EventResource.NODE:
        return event.action in _NODE_ACTIONS
    if not event.is_pod_event or event.action not in _POD_ACTIONS:
        return False
    return all(_concerns(other, pod) for other in (event.old, event.new) if other is not None)


def _event_helps(event: ClusterEvent, pod: PodInfo, hard: Sequence[Constraint]) -> bool:
    """Return whether to requeue a pod that this plugin rejected, if the event may help it."""
    if event.resource == EventResource.NODE:
        return _node_matters(event.old, event.new, hard)
    pods = [other for other in (event.old, event.new) if other is not None]
    if len(pods) == 2:
        return _pod_changed(event, pod, hard)
    return any(c.selector.matches(p.metadata.labels) for c in hard for p in pods)


def _concerns(other: Pod, pod: PodInfo) -> bool:
    if other.uid == pod.pod.uid:
        return True
    assigned = bool(other.spec.node_name or other.status.nominated_node_name)
    return assigned and other.metadata.namespace == pod.namespace


def _pod_changed(event: ClusterEvent, pod: PodInfo, hard: Sequence[Constraint]) -> bool:
    old, new = event.old, event.new
    tolerates = event.is_for_pod(pod) and old.spec.tolerations != new.spec.tolerations
    if tolerates and any(c.honor_taints for c in hard):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    return any(c.selector.matches(before) != c.selector.matches(after) for c in hard)


def _node_matters(old: Node | None, new: Node | None, hard: Sequence[Constraint]) -> bool:
    keys = {c.key for c in hard}
    was, is_ = _has(old, keys), _has(new, keys)
    if old is None or new is None:
        return was or is_
    if was != is_:
        return True
    before: Mapping[str, str] = old.metadata.labels
    moved = any(before.get(key) != new.metadata.labels.get(key) for key in keys)
    return is_ and (moved or old.spec.taints != new.spec.taints)


def _has(node: Node | None, keys: set[str]) -> bool:
    return node is not None and keys <= node.metadata.labels.keys()
