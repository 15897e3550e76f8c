"""Ranges of sizes and costs: arithmetic that stops at the largest 64-bit number, as upstream's."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

MOST = 2**64 - 1


class Range(NamedTuple):
    """A lower and an upper bound."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        """Return the range of the sum."""
        return Range(min(self.low + other.low, MOST), min(self.high + other.high, MOST))

    def times(self, other: Range) -> Range:
        """Return the range of the product."""
        return Range(min(self.low * other.low, MOST), min(self.high * other.high, MOST))

    def scaled(self, factor: float) -> Range:
        """Return the range multiplied by a factor, rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Range) -> Range:
        """Return the range of a value that is in one of two ranges."""
        return Range(min(self.low, other.low), max(self.high, other.high))


def exactly(value: int) -> Range:
    """Return the range of one value."""
    return Range(value, value)


def _scaled(value: int, factor: float) -> int:
    if value == 0 or factor == 0:
        return 0
    product = float(value) * factor
    return MOST if product >= 2.0**64 else min(ceil(product), MOST)


NOTHING, ONE, UNKNOWN = exactly(0), exactly(1), Range(0, MOST)


@dataclass(frozen=True, slots=True)
class DeclaredSize:
    """The largest size of a value of a declared type: characters, items or entries."""

    most: int = 0
    items: DeclaredSize | None = None
    """The size of a list's items and a map's values."""
    keys: DeclaredSize | None = None
    fields: dict[str, DeclaredSize] = field(default_factory=dict)
    any_field: DeclaredSize | None = None
    """The size of fields that are not in ``fields``."""

    def at(self, path: tuple[str, ...]) -> Range | None:
        """Return the size at a path of fields, ``@items``, ``@values`` and ``@keys``."""
        size: DeclaredSize | None = self
        for name in path:
            if size is None:
                return None
            if name in ("@items", "@values"):
                size = size.items
            elif name == "@keys":
                size = size.keys
            else:
                size = size.fields.get(name, size.any_field)
        return None if size is None else Range(0, size.most)
