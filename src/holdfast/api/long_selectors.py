"""Selectors of thousands of requirements, matched in the time that an object's labels take.

A requirement that a label be absent, or not have some values, needs to be looked at only for the
labels that are there; requirements of one label are merged.
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

LONG = 16
"""Of up to so many requirements, each is looked at in turn."""


class LongLabelSelector:
    """The requirements of a label selector by key; it matches what the selector matches."""

    def __init__(self, selector: Selector) -> None:
        self._nothing = selector.requirements is None
        self._absent: set[str] = set()
        self._needed: set[str] = set()
        self._barred: dict[str, set[str]] = {}
        self._allowed: dict[str, set[str]] = {}
        self._bounds: dict[str, dict[str, LabelRequirement]] = {}
        for requirement in selector.requirements or ():
            self._add(requirement)

    def _add(self, requirement: LabelRequirement) -> None:
        key, operator, values = requirement.key, requirement.operator, requirement.values
        if operator == ABSENT:
            self._absent.add(key)
        elif operator in (NOT_IN, NOT_EQUALS):
            self._barred.setdefault(key, set()).update(values)
        else:
            self._needed.add(key)
        if operator in (GREATER, LESS):
            bounds = self._bounds.setdefault(key, {})
            tightest = max if operator == GREATER else min
            known = bounds.get(operator, requirement)
            bounds[operator] = tightest(known, requirement, key=lambda r: int(r.values[0]))
        elif key in self._needed and operator not in (EXISTS, ABSENT, NOT_IN, NOT_EQUALS):
            self._allowed[key] = self._allowed.get(key, set(values)) & set(values)

    def matches(self, labels: Labels) -> bool:
        """Tell whether the labels are selected."""
        if self._nothing or len(self._needed) > len(labels) or not self._needed <= labels.keys():
            return False
        return all(self._allows(key, value, labels) for key, value in labels.items())

    def _allows(self, key: str, value: str, labels: Labels) -> bool:
        if key in self._absent or value in self._barred.get(key, ()):
            return False
        if key in self._allowed and value not in self._allowed[key]:
            return False
        return all(bound.matches(labels) for bound in self._bounds.get(key, {}).values())


class LongFieldSelector:
    """The requirements of a field selector by path; it matches what the selector matches."""

    def __init__(self, selector: FieldSelector) -> None:
        self._equal: dict[str, set[str]] = {}
        self._unequal: dict[str, set[str]] = {}
        for requirement in selector.requirements:
            of = self._equal if requirement.equal else self._unequal
            of.setdefault(requirement.path, set()).add(requirement.value)

    def matches(self, getter: Callable[[str], str]) -> bool:
        """Tell whether the fields are selected."""
        return all({getter(path)} == values for path, values in self._equal.items()) and all(
            getter(path) not in values for path, values in self._unequal.items()
        )


def label_matcher(selector: Selector) -> Selector | LongLabelSelector:
    """Choose how to match a label selector."""
    return LongLabelSelector(selector) if len(selector.requirements or ()) > LONG else selector


def field_matcher(selector: FieldSelector) -> FieldSelector | LongFieldSelector:
    """Choose how to match a field selector."""
    return LongFieldSelector(selector) if len(selector.requirements) > LONG else selector
