"""Scopes of quotas: whether a requirement matches a pod or a volume claim."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.api.pod import Container, Pod, PodAffinity, PodAffinityTerm, ResourceRequirements
from holdfast.api.resource_names import CPU, MEMORY, is_pod_level
from holdfast.api.resource_quota import ScopeRequirement
from holdfast.api.storage import PersistentVolumeClaim
from holdfast.state.quota.amounts import parse


def pod_in_scope(pod: Pod, requirement: ScopeRequirement) -> bool:
    """Return whether a pod matches a requirement; other scopes match no pod."""
    match requirement.scope_name:
        case "Terminating":
            return has_deadline(pod)
        case "NotTerminating":
            return not has_deadline(pod)
        case "BestEffort":
            return is_best_effort(pod)
        case "NotBestEffort":
            return not is_best_effort(pod)
        case "PriorityClass":
            name = pod.spec.priority_class_name
            return _names_match(requirement, {name} if name else set())
        case "CrossNamespacePodAffinity":
            return _uses_other_namespaces(pod)
    return False


def volume_claim_in_scope(claim: PersistentVolumeClaim, requirement: ScopeRequirement) -> bool:
    """Return whether a volume claim matches a requirement; it has one scope only."""
    if requirement.scope_name != "VolumeAttributesClass":
        return False
    modify = claim.status.modify_volume_status
    names = (
        claim.spec.volume_attributes_class_name,
        claim.status.current_volume_attributes_class_name,
        modify.target_volume_attributes_class_name if modify is not None else None,
    )
    return _names_match(requirement, {name for name in names if name})


def _names_match(requirement: ScopeRequirement, names: Collection[str]) -> bool:
    """Evaluate an operator over the class names of an object, as over the values of a label."""
    if not names:
        return requirement.operator in ("NotIn", "DoesNotExist")
    match requirement.operator:
        case "In":
            return any(name in requirement.values for name in names)
        case "NotIn":
            return any(name not in requirement.values for name in names)
    return requirement.operator == "Exists"


def has_deadline(pod: Pod) -> bool:
    """Return whether a pod is of the scope Terminating: its run time is limited."""
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def is_best_effort(pod: Pod) -> bool:
    """Return whether neither a container nor the pod as a whole asks for cpu or memory."""
    if has_pod_level_resources(pod):
        assert pod.spec.resources is not None
        return not _asks(pod.spec.resources)
    containers: tuple[Container, ...] = (*pod.spec.containers, *pod.spec.init_containers)
    return not any(_asks(container.resources) for container in containers)


def has_pod_level_resources(pod: Pod) -> bool:
    """Return whether a pod has requests or limits for all its containers together."""
    own = pod.spec.resources
    return own is not None and any(map(is_pod_level, (*own.requests, *own.limits)))


def _asks(resources: ResourceRequirements) -> bool:
    return any(
        name in amounts and not parse(amounts[name]).is_zero()
        for amounts in (resources.requests, resources.limits)
        for name in (CPU, MEMORY)
    )


def _uses_other_namespaces(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    return any(
        _names_namespaces(term)
        for part in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if part is not None
        for term in _terms(part)
    )


def _terms(affinity: PodAffinity) -> tuple[PodAffinityTerm, ...]:
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    required = affinity.required_during_scheduling_ignored_during_execution
    return (*required, *(weighted.pod_affinity_term for weighted in preferred))


def _names_namespaces(term: PodAffinityTerm) -> bool:
    return bool(term.namespaces) or term.namespace_selector is not None
