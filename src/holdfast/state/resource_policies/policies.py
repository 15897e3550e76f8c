"""Resource policies: the pods they select and count, and the units that a node belongs to.

The scheduler, the controller and the CLI use the same rules. Nothing is counted here: the node
table counts pods, also assumed ones. Units are derived from node labels: when a node is relabelled,
its pods count in other units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.api import resource_policy as names
from holdfast.api.field_errors import invalid, not_supported, required
from holdfast.api.labels import (
    NOTHING,
    LabelRequirement,
    Selector,
    conjunction,
    from_selector,
)
from holdfast.api.meta import LabelSelector
from holdfast.api.pod import Pod, ResourceAmounts
from holdfast.api.quantity import NANO, Quantity
from holdfast.api.resource_names import CPU, may_be_devices
from holdfast.api.resource_policy import ResourcePolicy, ResourcePolicySpec, Unit
from holdfast.api.timestamps import seconds_of
from holdfast.api.validation.list_limits import RESOURCE_POLICY_TREE, first_excess
from holdfast.api.validation.resource_policy import check_ambiguity, check_written_metadata
from holdfast.runtime.errors import BadRequest, Cause, FieldErrors

MatchLabelGroup = tuple[tuple[str, str], ...]
"""The matchLabelKeys that a pod has, with values. Caps apply to each group separately."""
COST_STEP = 100
"""The deletion costs of two neighbouring priorities differ by this much."""
_MAX_AMOUNT = 2**62


@dataclass(frozen=True, slots=True)
class PolicyUnit:
    """One unit of a policy: its nodes, its priority and its caps.

    ``max_resources`` are caps on summed requests: cpu in millicores, all else in whole units.
    """

    name: str
    priority: int
    max_count: int | None
    max_resources: Mapping[str, int]
    selector: Selector
    pod_labels: Mapping[str, str]
    pod_annotations: Mapping[str, str]

    @property
    def capped(self) -> bool:
        """Whether the unit can be full."""
        return self.max_count is not None or bool(self.max_resources)

    def places_left(self, pods: int) -> int | None:
        """Return how many pods ``max_count`` allows in addition to ``pods``; None without it."""
        return None if self.max_count is None else max(0, self.max_count - pods)


@dataclass(frozen=True, slots=True)
class Policy:
    """A resource policy, compiled by ``compile_policy``.

    ``priorities`` are the distinct priorities of its units, ascending. ``timeout`` is in seconds.
    ``created`` is when the policy was created, None if unknown.
    """

    object: ResourcePolicy
    selector: Selector
    units: tuple[PolicyUnit, ...]
    priorities: tuple[int, ...]
    timeout: float
    created: float | None

    @property
    def key(self) -> str:
        """``namespace/name``, for messages."""
        return self.object.key

    @property
    def uid(self) -> str:
        """The uid; a policy from a file may have none, then its key."""
        return self.object.uid or self.object.key

    @property
    def strict(self) -> bool:
        """Whether nodes of no unit are rejected; only the strategy `prefer` allows them."""
        return self.object.spec.strategy != names.PREFER

    @property
    def counts_terminating(self) -> bool:
        """Whether terminating pods count."""
        return not self.object.spec.match_policy.ignore_terminating_pod

    @property
    def counts_since(self) -> float | None:
        """The time before which bound pods do not count, in seconds since the epoch, or None."""
        return self.created if self.object.spec.match_policy.ignore_previous_pod else None

    @property
    def next_units(self) -> str:
        """The policy of whenTryNextUnits: when nodes of lower priority may be used."""
        return self.object.spec.when_try_next_units.policy

    @property
    def caps_devices(self) -> bool:
        """Whether maxResources of any unit names a resource that may be devices."""
        return any(may_be_devices(name) for unit in self.units for name in unit.max_resources)

    @property
    def preempts_before_next_unit(self) -> bool:
        """Whether preemption in a unit is tried before nodes of lower priority."""
        return self.object.spec.preempt_policy == names.BEFORE_NEXT_UNIT

    @property
    def problems(self) -> tuple[Cause, ...]:
        """What our CRD refuses although the policy can be followed."""
        return tuple(check_ambiguity(self.object.spec))

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether pods with these labels in that namespace are governed by the policy."""
        return namespace == self.object.metadata.namespace and self.selector.matches(labels)

    def group_key(self, labels: Mapping[str, str]) -> MatchLabelGroup:
        """Return the matchLabelKeys that a pod has, with their values.

        Pods are counted together if they agree in the keys of the pod to be placed; a key that this
        pod lacks is ignored, as in topology spread.
        """
        return tuple([(k, labels[k]) for k in self.object.spec.match_label_keys if k in labels])

    def missing_keys(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the matchLabelKeys that a pod lacks."""
        return tuple([k for k in self.object.spec.match_label_keys if k not in labels])

    def group_selector(self, labels: Mapping[str, str]) -> Selector:
        """Return a selector of the pods that are counted together with a pod of these labels."""
        pinned = [LabelRequirement(key, "=", (value,)) for key, value in self.group_key(labels)]
        return conjunction((*(self.selector.requirements or ()), *pinned))

    def counts_pod(self, pod: Pod) -> bool:
        """Return whether a pod is counted in the units of its node; the node is not checked."""
        if pod.finished or not self.selects(pod.metadata.namespace, pod.metadata.labels):
            return False
        if pod.terminating and not self.counts_terminating:
            return False
        return not self.is_previous(pod)

    def is_previous(self, pod: Pod) -> bool:
        """Return whether a pod is ignored because it was bound before the policy was created.

        A pod without a node is at most assumed, so it is not ignored.
        """
        since = self.counts_since
        if since is None or not pod.spec.node_name:
            return False
        bound = bound_time(pod)
        return bound is not None and bound < since

    def units_of(self, node_labels: Mapping[str, str]) -> tuple[int, ...]:
        """Return the indexes of the units that a node with these labels belongs to."""
        return tuple([i for i, u in enumerate(self.units) if u.selector.matches(node_labels)])

    def best_unit(self, units: Iterable[int]) -> int | None:
        """Return the unit of the highest priority, the first of several; None for no unit."""
        return max(units, key=lambda i: (self.units[i].priority, -i), default=None)

    def deletion_cost(self, units: Iterable[int]) -> int:
        """Return the pod deletion cost on a node of these units: 0 for none.

        It grows strictly with the highest priority, in steps of ``COST_STEP``.
        """
        best = self.best_unit(units)
        if best is None:
            return 0
        return COST_STEP * (1 + self.priorities.index(self.units[best].priority))


def counts_for(other: MatchLabelGroup, group: MatchLabelGroup) -> bool:
    """Return whether pods of a group count for a pod of ``group``.

    A pod that lacks one of the keys is compared with pods of every value of it.
    """
    return {*group} <= {*other}


def means_the_same(old: ResourcePolicy, new: ResourcePolicy) -> bool:
    """Return whether two versions of a policy are compiled alike: only the status may differ."""
    return (
        (old.uid, old.key) == (new.uid, new.key)
        and old.metadata.creation_timestamp == new.metadata.creation_timestamp
        and old.spec == new.spec
    )


def bound_time(pod: Pod) -> float | None:
    """Return when a pod was bound, as far as the pod tells: in seconds since the epoch.

    That is the transition of PodScheduled, else the start time, else the creation time.
    """
    scheduled = pod.condition("PodScheduled")
    transition = None
    if scheduled is not None and scheduled.status == "True":
        transition = scheduled.last_transition_time
    for text in (transition, pod.status.start_time, pod.metadata.creation_timestamp):
        if (seconds := seconds_of(text)) is not None:
            return seconds
    return None


def creation_time(pod: Pod) -> float:
    """Return when a pod was created, in seconds since the epoch; 0 if that is unknown."""
    return seconds_of(pod.metadata.creation_timestamp) or 0.0


def compile_policy(obj: ResourcePolicy) -> Policy:
    """Compile a policy; raise Invalid or BadRequest with the fields that have no meaning.

    Objects that were stored before validation are accepted where the meaning is clear: a strategy
    other than `prefer` is `required`, a negative priority or cap is 0.
    """
    if excess := first_excess(RESOURCE_POLICY_TREE, obj):
        raise BadRequest(excess)
    errors = FieldErrors()
    spec = obj.spec
    selector = _selector(spec.pod_selector, "spec.podSelector", errors)
    units = tuple([_unit(i, unit, errors) for i, unit in enumerate(spec.units)])
    timeout = _timeout(spec, errors)
    if spec.preempt_policy not in (known := names.PREEMPT_POLICIES):
        errors.causes.append(not_supported("spec.preemptPolicy", spec.preempt_policy, known))
    if not spec.units:
        errors.causes.append(required("spec.units", "without units no pod could be placed"))
    errors.causes.extend(check_written_metadata(spec))
    errors.raise_if_any("ResourcePolicy", obj.key, "scheduling.sigs.x-k8s.io")
    priorities = tuple(sorted({unit.priority for unit in units}))
    created = seconds_of(obj.metadata.creation_timestamp)
    return Policy(obj, selector, units, priorities, timeout, created)


def _unit(index: int, unit: Unit, errors: FieldErrors) -> PolicyUnit:
    path = f"spec.units[{index}]"
    cap = unit.max_count
    return PolicyUnit(
        name=names.unit_name(unit, index),
        priority=min(max(unit.priority, 0), _MAX_AMOUNT),
        max_count=None if cap is None else min(max(cap, 0), _MAX_AMOUNT),
        max_resources=_amounts(unit.max_resources, f"{path}.maxResources", errors),
        selector=_selector(unit.node_selector, f"{path}.nodeSelector", errors),
        pod_labels=unit.pod_labels,
        pod_annotations=unit.pod_annotations,
    )


def _selector(selector: LabelSelector, path: str, errors: FieldErrors) -> Selector:
    try:
        return from_selector(selector)
    except BadRequest as error:
        errors.add(path, error.message)
        return NOTHING


def _amounts(caps: ResourceAmounts, path: str, errors: FieldErrors) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, text in caps.items():
        try:
            nanos = Quantity.parse(text).scaled(NANO)
        except BadRequest as error:
            errors.causes.append(invalid(f"{path}[{name}]", text, error.message))
            continue
        # Requests are rounded up and caps down, so that a cap is never exceeded.
        amount = nanos // (10**6 if name == CPU else 10**9)
        amounts[name] = min(max(amount, 0), _MAX_AMOUNT)
    return amounts


def _timeout(spec: ResourcePolicySpec, errors: FieldErrors) -> float:
    path, rule = "spec.whenTryNextUnits", spec.when_try_next_units
    if rule.policy not in (known := names.NEXT_UNITS_POLICIES):
        errors.causes.append(not_supported(f"{path}.policy", rule.policy, known))
    if rule.policy != names.TIMEOUT_OR_EXCEED_MAX:
        return 0.0
    try:
        return max(rule.timeout_seconds, 0.0)
    except BadRequest as error:
        errors.causes.append(invalid(f"{path}.timeout", rule.timeout, error.message))
        return 0.0
