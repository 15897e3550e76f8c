"""Upper bounds on the size of values in an expression, known before it is evaluated.

A ``ValueBound`` measures input values, and only those parts that the expression reaches. A
``ComputedBound`` bounds a value that the expression computes. ``length`` counts characters or
entries, ``weight`` the steps of one walk over the whole value, ``entry`` bounds every item of a
list or value of a map, ``key`` bounds what a loop iterates over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

CostCounter = Callable[[int], None]
"""Adds cost; raises when the limit is exceeded."""

_TEXTS = (str, bytes)
_CONTAINERS = (list, dict)
_SIZED = _TEXTS + _CONTAINERS
_SCALAR_WEIGHT = 4
CHARACTERS_PER_STEP = 10
"""Characters of a text that weigh one step."""


@dataclass(frozen=True)
class ComputedBound:
    """A value that an expression computes; ``entry`` is None unless it is a list or map."""

    length: int
    weight: int
    entry: SizeBound | None = None
    keys: SizeBound | None = None
    """Bounds the keys of a map; None if ``entry`` bounds them too."""
    is_map: bool = False

    @property
    def key(self) -> SizeBound:
        """Bound of what a loop iterates over."""
        return self.keys or self.entry or SCALAR_BOUND

    def field(self, _: str) -> SizeBound:
        """Return the bound of a field."""
        return self.entry or self


class ValueBound:
    """One of several input values; ``charge`` counts how many are inspected."""

    def __init__(self, values: Iterable[Any], charge: CostCounter) -> None:
        self._values = list(values)
        self._charge = charge
        self._fields: dict[str, SizeBound] = {}
        charge(2 * len(self._values))

    @cached_property
    def length(self) -> int:
        """The largest length."""
        return max(map(_length, self._values), default=1)

    @cached_property
    def weight(self) -> int:
        """The largest weight."""
        return max((_weight(value, self._charge) for value in self._values), default=1)

    @cached_property
    def is_map(self) -> bool:
        """Whether all values are maps."""
        return all(isinstance(value, dict) for value in self._values)

    @cached_property
    def entry(self) -> SizeBound | None:
        """Bound of the items of lists and the values of maps."""
        containers = [v for v in self._values if isinstance(v, _CONTAINERS)]
        if not containers:
            return None
        return ValueBound((one for v in containers for one in _entries(v)), self._charge)

    @cached_property
    def key(self) -> SizeBound:
        """Bound of what a loop iterates over: items of lists, keys of maps."""
        containers = [v for v in self._values if isinstance(v, _CONTAINERS)]
        if not any(isinstance(v, dict) for v in containers):
            return self.entry or SCALAR_BOUND
        return ValueBound((one for v in containers for one in v), self._charge)

    def field(self, name: str) -> SizeBound:
        """Return the bound of a field of maps."""
        if name not in self._fields:
            values = [v[name] for v in self._values if isinstance(v, dict) and name in v]
            self._fields[name] = ValueBound(values, self._charge)
        return self._fields[name]

    def split(self, separator: str) -> SizeBound:
        """Return the bound of the lists that splitting the strings gives."""
        strings = [v for v in self._values if isinstance(v, str)]
        self._charge(sum(map(len, strings)))
        return ValueBound(
            (v.split(separator) if separator else list(v) for v in strings), self._charge
        )


SizeBound = ComputedBound | ValueBound
SCALAR_BOUND = ComputedBound(1, _SCALAR_WEIGHT)


def text_bound(length: int) -> ComputedBound:
    """Return the bound of a string or bytes of this length."""
    return ComputedBound(length, _text_weight(length))


def _text_weight(length: int) -> int:
    return _SCALAR_WEIGHT + length // CHARACTERS_PER_STEP


def container_bound(length: int, entry: SizeBound) -> ComputedBound:
    """Return the bound of a list or map of ``length`` entries."""
    return ComputedBound(length, _SCALAR_WEIGHT + length * (_SCALAR_WEIGHT + entry.weight), entry)


def union_bound(a: SizeBound, b: SizeBound, charge: CostCounter) -> SizeBound:
    """Return a bound of a value that is either of two."""
    if a is b or b is SCALAR_BOUND or not b.length:
        return a
    if a is SCALAR_BOUND or not a.length:
        return b
    return _combined(a, b, max(a.length, b.length), max(a.weight, b.weight), charge)


def concatenation_bound(a: SizeBound, b: SizeBound, charge: CostCounter) -> SizeBound:
    """Return the bound of two values concatenated."""
    return _combined(a, b, a.length + b.length, a.weight + b.weight, charge)


def _combined(
    a: SizeBound, b: SizeBound, length: int, weight: int, charge: CostCounter
) -> ComputedBound:
    charge(1)
    other_keys = any(one.key is not (one.entry or SCALAR_BOUND) for one in (a, b))
    keys = union_bound(a.key, b.key, charge) if other_keys else None
    return ComputedBound(length, weight, _entry(a, b, charge), keys, a.is_map and b.is_map)


def _entry(a: SizeBound, b: SizeBound, charge: CostCounter) -> SizeBound | None:
    if a.entry is None or b.entry is None:
        return a.entry or b.entry
    return union_bound(a.entry, b.entry, charge)


def _entries(value: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _length(value: Any) -> int:
    return len(value) if isinstance(value, _SIZED) else 1


def _weight(value: Any, charge: CostCounter) -> int:
    """Return the steps of a walk over a value; its depth is limited because that of requests is."""
    if isinstance(value, _TEXTS):
        return _text_weight(len(value))
    if not isinstance(value, _CONTAINERS):
        return _SCALAR_WEIGHT
    charge(2 * len(value))
    total = _SCALAR_WEIGHT + sum(_weight(one, charge) for one in _entries(value))
    if isinstance(value, dict):
        total += sum(_text_weight(len(key)) for key in value)
    return total
