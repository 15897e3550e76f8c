"""Validation of ResourcePolicies that an API server stored without the rules of our CRD."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.api import field_errors, names
from holdfast.api import resource_policy as values
from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.quantity import Quantity
from holdfast.api.resource_names import is_counted
from holdfast.api.resource_policy import ResourcePolicySpec, Unit
from holdfast.api.validation.template import NOT_NEGATIVE
from holdfast.runtime.errors import Cause

_OWN_DOMAINS = (
    "resourcepolicy.scheduling.sigs.x-k8s.io/",
    "scheduling.koordinator.sh/",
    "scheduling.holdfast.dev/",
)
"""Domains of keys that the scheduler and controllers write, such as a pod's part of a
reservation."""


def check_written_metadata(spec: ResourcePolicySpec) -> Iterator[Cause]:
    """Yield the labels and annotations of units that must not be written on pods.

    A label that the policy selects by would take pods away from it and from their ReplicaSet; pods
    with malformed ones would never be bound.
    """
    selected = _selected_keys(spec) | set(spec.match_label_keys)
    for i, unit in enumerate(spec.units):
        yield from _check_labels(f"spec.units[{i}].podLabels", unit, selected)
        yield from _check_keys(f"spec.units[{i}].podAnnotations", unit.pod_annotations)


def _check_labels(path: str, unit: Unit, selected: set[str]) -> Iterator[Cause]:
    yield from _check_keys(path, unit.pod_labels)
    for key, value in unit.pod_labels.items():
        if key in selected:
            message = f'"{key}" may not be in podSelector or matchLabelKeys'
            yield field_errors.forbidden(path, message)
        for error in names.label_value(value):
            yield field_errors.invalid(f"{path}[{key}]", value, error)


def _check_keys(path: str, keys: Iterable[str]) -> Iterator[Cause]:
    for key in keys:
        if key == DELETION_COST or key.startswith(_OWN_DOMAINS):
            yield field_errors.forbidden(path, f'"{key}" has a meaning of its own')
        for error in names.label_key(key):
            yield field_errors.invalid(path, key, error)


def check_ambiguity(spec: ResourcePolicySpec) -> Iterator[Cause]:
    """Yield what our CRD refuses in a compiled policy; it applies, as its meaning is clear."""
    yield from _check_unit_names(spec.units)
    selected = _selected_keys(spec)
    for i, key in enumerate(spec.match_label_keys):
        if key in selected:
            message = "may not be in podSelector as well"
            yield field_errors.invalid(f"spec.matchLabelKeys[{i}]", key, message)
        if key in spec.match_label_keys[:i]:
            yield field_errors.duplicate(f"spec.matchLabelKeys[{i}]", key)
        for error in names.label_key(key):
            yield field_errors.invalid(f"spec.matchLabelKeys[{i}]", key, error)
    if spec.strategy not in values.STRATEGIES:
        yield field_errors.not_supported("spec.strategy", spec.strategy, values.STRATEGIES)
    for i, unit in enumerate(spec.units):
        yield from _check_caps(f"spec.units[{i}]", unit)
    rule, at = spec.when_try_next_units, "spec.whenTryNextUnits.timeout"
    if rule.policy == values.TIMEOUT_OR_EXCEED_MAX:
        if rule.timeout_seconds < 0:
            yield field_errors.invalid(at, rule.timeout, NOT_NEGATIVE)
    elif rule.timeout != values.DEFAULT_TIMEOUT:
        message = f"may not be specified unless `policy` is '{values.TIMEOUT_OR_EXCEED_MAX}'"
        yield field_errors.forbidden(at, message)


def _check_caps(path: str, unit: Unit) -> Iterator[Cause]:
    for field, number in (("priority", unit.priority), ("maxCount", unit.max_count or 0)):
        if number < 0:
            yield field_errors.invalid(f"{path}.{field}", number, NOT_NEGATIVE)
    for name, text in unit.max_resources.items():
        at = f"{path}.maxResources[{name}]"
        if not is_counted(name):
            yield field_errors.invalid(at, name, "must be a resource that pods request")
        elif Quantity.parse(text) < Quantity(0):
            yield field_errors.invalid(at, text, NOT_NEGATIVE)


def _check_unit_names(units: Sequence[Unit]) -> Iterator[Cause]:
    seen: set[str] = set()
    for i, unit in enumerate(units):
        at, name = f"spec.units[{i}].name", values.unit_name(unit, i)
        if name in seen:
            yield field_errors.duplicate(at, name)
        seen.add(name)
        for error in names.label_value(unit.name):
            yield field_errors.invalid(at, unit.name, error)


def _selected_keys(spec: ResourcePolicySpec) -> set[str]:
    expressions = spec.pod_selector.match_expressions
    return {*spec.pod_selector.match_labels, *(one.key for one in expressions)}
