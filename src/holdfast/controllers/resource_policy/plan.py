"""Plan the pod deletion costs and the status of resource policies.

A deletion cost that the controller writes is marked with its value and the uid of the policy. A
value without the marker, or one that differs from it, is the user's and is never changed. Pods on
nodes of no unit get "0", so an absent cost always means "not handled yet" (decision 0013).

The scheduler sends the cost with the Binding, with the same marker, so for most pods there is
nothing to write here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.api.decode import JsonObject
from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST, POLICY_UID
from holdfast.api.meta import version_guard
from holdfast.api.pod import Pod
from holdfast.api.quantity import Quantity
from holdfast.api.resource_names import CPU
from holdfast.api.resource_policy import GroupStatus, ResourcePolicy, Unit, UnitStatus
from holdfast.api.scheme import PODS, RESOURCE_POLICIES
from holdfast.api.timestamps import rfc3339
from holdfast.controllers import conditions
from holdfast.controllers.planned_writes import Patch, Plan, PlannedEvent
from holdfast.runtime.errors import aggregate_message
from holdfast.state.resource_policies.policies import Policy
from holdfast.state.resource_policies.policy_usage import (
    GroupUsage,
    PolicyUsage,
    UnitUsage,
    capped_requests,
    headroom_text,
    usage_text,
)

DELETION_COST_MANUAL = "DeletionCostManual"
EXCESS_COST = -100
"""The cost of pods above the cap of their unit, if ``drainExcess`` is set."""
MAX_GROUPS = 20
"""The largest number of groups that the status of a unit lists."""
MAX_NAMED = 5
"""The largest number of items that the message of a condition lists."""
MAX_INT32 = 2**31 - 1
READY, CONFLICTING = "Ready", "Conflicting"
OVER_CAPACITY, OVERLAPPING_UNITS = "OverCapacity", "OverlappingUnits"


@dataclass(frozen=True, slots=True)
class PolicyConflict:
    """The names of other policies that select pods of a policy, and the name of such a pod."""

    policies: tuple[str, ...]
    pod: str


def plan_deletion_cost(
    pod: Pod,
    policies: Sequence[Policy],
    units: Iterable[int] | None,
    *,
    excess: bool = False,
    unusable: Container[str] = (),
) -> Plan:
    """Plan the annotations of a pod that these policies select.

    ``units`` are those of its node, None for an unknown node. ``unusable`` has the uids of policies
    that cannot be compiled: it is unknown which pods these select, so their pods keep the last
    value.
    """
    if pod.terminating or pod.finished or not pod.spec.node_name or len(policies) > 1:
        return Plan()
    annotations = pod.metadata.annotations
    if not policies:
        return Plan() if annotations.get(POLICY_UID) in unusable else _plan_removal(pod)
    if units is None:
        return Plan()
    (policy,) = policies
    value = annotations.get(DELETION_COST)
    if value is not None and value != annotations.get(MANAGED_DELETION_COST):
        message = f"the pod deletion cost {value[:64]} is not changed for ResourcePolicy "
        event = PlannedEvent(
            "Normal", DELETION_COST_MANUAL, f"{message}{policy.key}: a user set it"
        )
        return Plan(
            _annotate(pod, {MANAGED_DELETION_COST: None, POLICY_UID: None}), events=(event,)
        )
    cost = str(EXCESS_COST if excess else policy.deletion_cost(units))
    wanted = {DELETION_COST: cost, MANAGED_DELETION_COST: cost, POLICY_UID: policy.object.uid}
    return Plan(_annotate(pod, wanted))


def _plan_removal(pod: Pod) -> Plan:
    annotations = pod.metadata.annotations
    gone: dict[str, str | None] = {MANAGED_DELETION_COST: None, POLICY_UID: None}
    if (
        MANAGED_DELETION_COST in annotations
        and annotations.get(DELETION_COST) == annotations[MANAGED_DELETION_COST]
    ):
        gone[DELETION_COST] = None
    return Plan(_annotate(pod, gone))


def is_managed(pod: Pod) -> bool:
    """Return whether a pod has a cost that the controller or the scheduler wrote."""
    annotations = pod.metadata.annotations
    return DELETION_COST in annotations and annotations[DELETION_COST] == annotations.get(
        MANAGED_DELETION_COST
    )


def find_overwritten_cost(old: Pod, new: Pod) -> str | None:
    """Return the cost of a user that the pod's Binding has replaced, None if there is none.

    The scheduler sends a cost with the Binding of a pod that had none when it was read. A user may
    have set one since: a pod may wait for minutes at Permit.
    """
    if old.spec.node_name or not new.spec.node_name or not is_managed(new) or is_managed(old):
        return None
    return old.metadata.annotations.get(DELETION_COST)


def plan_users_cost(pod: Pod, cost: str) -> Plan:
    """Plan to write the cost of a user again."""
    wanted = {DELETION_COST: cost, MANAGED_DELETION_COST: None, POLICY_UID: None}
    return Plan(_annotate(pod, wanted))


def _annotate(pod: Pod, wanted: Mapping[str, str | None]) -> tuple[Patch, ...]:
    annotations = pod.metadata.annotations
    changed = {key: value for key, value in wanted.items() if annotations.get(key) != value}
    if not changed:
        return ()
    guard = version_guard(pod)
    return (Patch(PODS, pod.name, {"metadata": {**guard, "annotations": changed}}, pod.namespace),)


def find_excess(usage: PolicyUsage) -> dict[str, str]:
    """Return the keys of the pods above the caps of a unit by uid, the newest of each group.

    Terminating pods count as the newest, because their place becomes free anyway.
    """
    by_uid: dict[str, str] = {}
    for unit in usage.units:
        for group in unit.groups if unit.over_cap else ():
            above = _newest_above_caps(unit, group)
            exact = unit.members[group.group].pods
            by_uid |= {pod.uid: pod.key for pod in exact if pod.uid in above}
    return by_uid


def _newest_above_caps(unit: UnitUsage, group: GroupUsage) -> set[str]:
    count, used = len(group.pods), dict(group.resources)
    cap = unit.unit.max_count
    uids = set()
    for pod in sorted(group.pods, key=_age_rank, reverse=True):
        above = [r for r, most in unit.unit.max_resources.items() if used[r] > most]
        if not above and (cap is None or count <= cap):
            break
        request = capped_requests(unit.unit, pod) if above else {}
        if (cap is None or count <= cap) and not any(request.get(r) for r in above):
            continue
        uids.add(pod.uid)
        count -= 1
        for resource, amount in request.items():
            used[resource] -= amount
    return uids


def _age_rank(pod: Pod) -> tuple[bool, str, str]:
    return pod.terminating, pod.metadata.creation_timestamp or "", pod.name


def plan_policy_status(
    obj: ResourcePolicy,
    usage: PolicyUsage | None,
    conflict: PolicyConflict | None,
    now: float,
    *,
    error: str = "",
) -> Plan:
    """Plan the status of a policy; ``usage`` is None if ``error`` says why it cannot be used."""
    units = () if usage is None else tuple(map(_unit_status, usage.units, obj.spec.units))
    wanted: JsonObject = {
        "observedGeneration": obj.metadata.generation,
        "usage": "" if usage is None else usage_text(usage),
        "headroom": "" if usage is None else headroom_text(usage),
    }
    status = obj.status
    known = (status.observed_generation, status.usage, status.headroom)
    changed = {
        key: value for (key, value), old in zip(wanted.items(), known, strict=True) if value != old
    }
    if units != status.units:
        changed["units"] = [_raw_unit(unit) for unit in units]
    listed = conditions.to_raw(status.conditions)
    at = rfc3339(now)
    each = _conditions(usage, conflict, error)
    if any([conditions.set_condition(listed, condition, at) for condition in each]):
        changed["conditions"] = listed
    if not changed:
        return Plan()
    guard = version_guard(obj)
    patch = {"metadata": guard, "status": changed}
    return Plan((Patch(RESOURCE_POLICIES, obj.name, patch, obj.namespace, subresource="status"),))


def _unit_status(usage: UnitUsage, spec: Unit) -> UnitStatus:
    groups = usage.groups[:MAX_GROUPS]
    total, cap = usage.resources, usage.unit.max_count
    return UnitStatus(
        name=usage.unit.name,
        nodes=len(usage.nodes),
        pods=len(usage.pods),
        # The CRD refuses a larger number; without this such a status was never written.
        max_count=None if cap is None else min(cap, MAX_INT32),
        max_resources=spec.max_resources,
        resources={
            name: _amount_text(name, total[name], cap) for name, cap in spec.max_resources.items()
        },
        groups=tuple(
            GroupStatus(labels=dict(group.group), pods=len(group.pods))
            for group in groups
            if group.group
        ),
    )


def _amount_text(name: str, amount: int, cap: str | float) -> str:
    """Write an amount in the suffix family of its cap."""
    return str(Quantity(amount, -3 if name == CPU else 0, Quantity.parse(cap).format))


def _raw_unit(unit: UnitStatus) -> JsonObject:
    raw: JsonObject = {"name": unit.name, "nodes": unit.nodes, "pods": unit.pods}
    if unit.max_count is not None:
        raw["maxCount"] = unit.max_count
    if unit.max_resources:
        raw |= {"resources": unit.resources, "maxResources": unit.max_resources}
    if unit.groups:
        raw["groups"] = [{"labels": g.labels, "pods": g.pods} for g in unit.groups]
    return raw


def _conditions(
    usage: PolicyUsage | None, conflict: PolicyConflict | None, error: str
) -> Iterable[JsonObject]:
    """Return the conditions; each has a message, so that a change replaces the previous message."""
    if usage is None:
        yield _condition(READY, "False", "InvalidSpec", error)
    elif usage.policy.problems:
        problems = aggregate_message(usage.policy.problems)
        yield _condition(READY, "False", "InvalidSpec", f"the policy is used, but: {problems}")
    else:
        yield _condition(READY, "True", "ValidSpec", "the policy can be used")
    if conflict is None:
        yield _condition(CONFLICTING, "False", "NoConflict", "no other policy selects its pods")
    else:
        others = _listed(conflict.policies, ", ")
        message = f"pods such as {conflict.pod} are also selected by ResourcePolicy {others}"
        yield _condition(CONFLICTING, "True", "PodsOfSeveralPolicies", message)
    over = [] if usage is None else list(_above_caps(usage))
    if over:
        yield _condition(OVER_CAPACITY, "True", "AboveCap", _listed(over, "; "))
    else:
        yield _condition(OVER_CAPACITY, "False", "WithinCaps", "no unit is above its caps")
    shared = () if usage is None else usage.overlapping_nodes
    if usage is not None and shared:
        units = [unit.unit.name for unit in usage.units if shared[0] in unit.nodes]
        message = f"nodes such as {shared[0]} belong to the units {_listed(units, ', ')}"
        yield _condition(OVERLAPPING_UNITS, "True", "NodesInSeveralUnits", message)
    else:
        message = "no node belongs to more than one unit"
        yield _condition(OVERLAPPING_UNITS, "False", "NoOverlap", message)


def _above_caps(usage: PolicyUsage) -> Iterable[str]:
    for at, unit in enumerate(usage.units):
        caps = usage.policy.object.spec.units[at].max_resources
        for group in unit.groups if unit.over_cap else ():
            labels = ", ".join(f"{key}={value}" for key, value in group.group)
            of = f" with {labels}" if labels else ""
            count, most = len(group.pods), unit.unit.max_count
            if most is not None and count > most:
                yield f"unit {unit.unit.name} has {count} pods{of}, maxCount is {most}"
            for name, cap in unit.unit.max_resources.items():
                if group.resources[name] > cap:
                    amount = _amount_text(name, group.resources[name], caps[name])
                    yield (
                        f"the pods{of} in unit {unit.unit.name} request {name} {amount}, "
                        f"maxResources is {caps[name]}"
                    )


def _listed(items: Sequence[str], separator: str) -> str:
    more = len(items) - MAX_NAMED
    shown = separator.join(items[:MAX_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def _condition(type_: str, status: str, reason: str, message: str) -> JsonObject:
    return {"type": type_, "status": status, "reason": reason, "message": message[:1024]}
