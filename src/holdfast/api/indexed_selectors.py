"""Selectors with thousands of requirements, indexed so that matching is linear in the labels.

Requirements of one key are merged. A requirement that forbids a label, or some of its values, is
checked only for labels that the object has.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.api.fields import FieldSelector
from holdfast.api.labels import (
    ABSENT,
    EXISTS,
    GREATER,
    LESS,
    NOT_EQUALS,
    NOT_IN,
    LabelRequirement,
    Labels,
    Selector,
)

MAX_LINEAR_REQUIREMENTS = 16
"""Up to this many requirements are checked one by one; more are indexed."""


class IndexedLabelSelector:
    """A label selector with its requirements indexed by key; matches the same labels."""

    def __init__(self, selector: Selector) -> None:
        self._matches_nothing = selector.requirements is None
        self._forbidden_keys: set[str] = set()
        self._required_keys: set[str] = set()
        self._forbidden_values: dict[str, set[str]] = {}
        self._allowed_values: dict[str, set[str]] = {}
        self._bounds: dict[str, dict[str, LabelRequirement]] = {}
        for requirement in selector.requirements or ():
            self._add(requirement)

    def _add(self, requirement: LabelRequirement) -> None:
        key, operator, values = requirement.key, requirement.operator, requirement.values
        if operator == ABSENT:
            self._forbidden_keys.add(key)
        elif operator in (NOT_IN, NOT_EQUALS):
            self._forbidden_values.setdefault(key, set()).update(values)
        else:
            self._required_keys.add(key)
        if operator in (GREATER, LESS):
            bounds = self._bounds.setdefault(key, {})
            tightest = max if operator == GREATER else min
            known = bounds.get(operator, requirement)
            bounds[operator] = tightest(known, requirement, key=lambda r: int(r.values[0]))
        elif key in self._required_keys and operator not in (EXISTS, ABSENT, NOT_IN, NOT_EQUALS):
            self._allowed_values[key] = self._allowed_values.get(key, set(values)) & set(values)

    def matches(self, labels: Labels) -> bool:
        """Return whether the labels match."""
        if (
            self._matches_nothing
            or len(self._required_keys) > len(labels)
            or not self._required_keys <= labels.keys()
        ):
            return False
        return all(self._allows(key, value, labels) for key, value in labels.items())

    def _allows(self, key: str, value: str, labels: Labels) -> bool:
        if key in self._forbidden_keys or value in self._forbidden_values.get(key, ()):
            return False
        if key in self._allowed_values and value not in self._allowed_values[key]:
            return False
        return all(bound.matches(labels) for bound in self._bounds.get(key, {}).values())


class IndexedFieldSelector:
    """A field selector with its requirements indexed by path; matches the same objects."""

    def __init__(self, selector: FieldSelector) -> None:
        self._equal: dict[str, set[str]] = {}
        self._unequal: dict[str, set[str]] = {}
        for requirement in selector.requirements:
            of = self._equal if requirement.equal else self._unequal
            of.setdefault(requirement.path, set()).add(requirement.value)

    def matches(self, getter: Callable[[str], str]) -> bool:
        """Return whether the fields match."""
        return all({getter(path)} == values for path, values in self._equal.items()) and all(
            getter(path) not in values for path, values in self._unequal.items()
        )


def label_matcher(selector: Selector) -> Selector | IndexedLabelSelector:
    """Return the selector itself, or an indexed one if it is long."""
    return (
        IndexedLabelSelector(selector)
        if len(selector.requirements or ()) > MAX_LINEAR_REQUIREMENTS
        else selector
    )


def field_matcher(selector: FieldSelector) -> FieldSelector | IndexedFieldSelector:
    """Return the selector itself, or an indexed one if it is long."""
    return (
        IndexedFieldSelector(selector)
        if len(selector.requirements) > MAX_LINEAR_REQUIREMENTS
        else selector
    )
