"""The cheapest few of many rows, kept in order while single rows change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

Key = tuple[int, int, float]
HOW_MANY = 64


class Leaders:
    """Rows by key, smallest first; every other row has no smaller key than ``bar``.

    They are ``spent`` when few of those there were are left: then it is time to look at all rows.
    """

    __slots__ = ("_few", "_key_of", "_leading", "bar")

    def __init__(self, leading: list[tuple[Key, int]], bar: Key) -> None:
        self._leading = leading
        self._key_of = {row: key for key, row in leading}
        self.bar = bar
        self._few = len(leading) // 8

    @property
    def spent(self) -> bool:
        """Whether most of them are gone; where many rows are equal there were none."""
        return len(self._leading) < self._few

    def change(self, row: int, key: Key) -> None:
        """A row has another key now."""
        old = self._key_of.pop(row, None)
        if old is not None:
            del self._leading[bisect_left(self._leading, (old, row))]
        if key < self.bar:
            insort(self._leading, (key, row))
            self._key_of[row] = key

    def first(self, among: Callable[[int], bool]) -> list[int] | None:
        """The rows with the smallest key of those that are ``among``; None if they cannot tell."""
        found: list[int] = []
        least: Key | None = None
        for key, row in self._leading:
            if least is not None and key != least:
                break
            if among(row):
                least = key
                found.append(row)
        return found or None
