"""How large a value of an expression may be: bounds that are known before it is evaluated.

A ``Given`` bounds values that are there, by looking at as many of them as the expression reaches;
a ``Made`` bounds what the expression makes of them. ``length`` counts characters or entries,
``weight`` the steps that it takes to walk over the whole value once, ``entry`` bounds every item
of a list or value of a map, ``key`` what a loop runs over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Charge = Callable[[int], None]
"""Counts work; raises when there was too much of it."""

_TEXTS = (str, bytes)
_HOLDERS = (list, dict)
_SIZED = _TEXTS + _HOLDERS
_SCALAR_WEIGHT = 4
_CHARACTERS_PER_STEP = 10


@dataclass(frozen=True)
class Made:
    """What an expression makes; ``entry`` is None for what is neither a list nor a map."""

    length: int
    weight: int
    entry: Extent | None = None
    keys: Extent | None = None
    """Bounds the keys where ``entry`` does not."""
    is_map: bool = False

    @property
    def key(self) -> Extent:
        """What a loop runs over."""
        return self.keys or self.entry or SCALAR

    def field(self, _: str) -> Extent:
        """What a field may be."""
        return self.entry or self


class Given:
    """One of several values that are there; ``charge`` counts how many are looked at."""

    def __init__(self, values: Iterable[Any], charge: Charge) -> None:
        self._values = list(values)
        self._charge = charge
        self._fields: dict[str, Extent] = {}
        charge(2 * len(self._values))

    @cached_property
    def length(self) -> int:
        """The longest one's."""
        return max(map(_length, self._values), default=1)

    @cached_property
    def weight(self) -> int:
        """The heaviest one's."""
        return max((_weight(value, self._charge) for value in self._values), default=1)

    @cached_property
    def is_map(self) -> bool:
        """Whether looking for a key takes no search."""
        return all(isinstance(value, dict) for value in self._values)

    @cached_property
    def entry(self) -> Extent | None:
        """Bounds the items of lists and the values of maps."""
        holders = [v for v in self._values if isinstance(v, _HOLDERS)]
        if not holders:
            return None
        return Given((one for v in holders for one in _entries(v)), self._charge)

    @cached_property
    def key(self) -> Extent:
        """Bounds what a loop runs over: items of lists, keys of maps."""
        holders = [v for v in self._values if isinstance(v, _HOLDERS)]
        if not any(isinstance(v, dict) for v in holders):
            return self.entry or SCALAR
        return Given((one for v in holders for one in v), self._charge)

    def field(self, name: str) -> Extent:
        """Bounds a field of maps."""
        if name not in self._fields:
            found = [v[name] for v in self._values if isinstance(v, dict) and name in v]
            self._fields[name] = Given(found, self._charge)
        return self._fields[name]

    def split(self, separator: str) -> Extent:
        """Bounds the pieces of strings."""
        strings = [v for v in self._values if isinstance(v, str)]
        self._charge(sum(map(len, strings)))
        return Given((v.split(separator) if separator else list(v) for v in strings), self._charge)


Extent = Made | Given
SCALAR = Made(1, _SCALAR_WEIGHT)


def text(length: int) -> Made:
    """Bounds a string or bytes."""
    return Made(length, _text_weight(length))


def _text_weight(length: int) -> int:
    return _SCALAR_WEIGHT + length // _CHARACTERS_PER_STEP


def several(length: int, entry: Extent) -> Made:
    """Bounds a list or a map of so many entries."""
    return Made(length, _SCALAR_WEIGHT + length * (_SCALAR_WEIGHT + entry.weight), entry)


def either(a: Extent, b: Extent, charge: Charge) -> Extent:
    """Bounds what is one or the other."""
    if a is b or b is SCALAR or not b.length:
        return a
    if a is SCALAR or not a.length:
        return b
    return _combined(a, b, max(a.length, b.length), max(a.weight, b.weight), charge)


def both(a: Extent, b: Extent, charge: Charge) -> Extent:
    """Bounds one with the other added at its end."""
    return _combined(a, b, a.length + b.length, a.weight + b.weight, charge)


def _combined(a: Extent, b: Extent, length: int, weight: int, charge: Charge) -> Made:
    charge(1)
    other_keys = any(one.key is not (one.entry or SCALAR) for one in (a, b))
    keys = either(a.key, b.key, charge) if other_keys else None
    return Made(length, weight, _entry(a, b, charge), keys, a.is_map and b.is_map)


def _entry(a: Extent, b: Extent, charge: Charge) -> Extent | None:
    if a.entry is None or b.entry is None:
        return a.entry or b.entry
    return either(a.entry, b.entry, charge)


def _entries(value: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _length(value: Any) -> int:
    return len(value) if isinstance(value, _SIZED) else 1


def _weight(value: Any, charge: Charge) -> int:
    """Walk over a value, which is as deep as a request body may be."""
    if isinstance(value, _TEXTS):
        return _text_weight(len(value))
    if not isinstance(value, _HOLDERS):
        return _SCALAR_WEIGHT
    charge(2 * len(value))
    total = _SCALAR_WEIGHT + sum(_weight(one, charge) for one in _entries(value))
    if isinstance(value, dict):
        total += sum(_text_weight(len(key)) for key in value)
    return total
