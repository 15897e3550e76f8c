"""What victims cost, and which rows cost least: the measure by which nodes are compared."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import NamedTuple

from holdfast.framework.plugin import Candidate

SHIFT = 2**31
"""Added to priorities, so that one victim more never costs less."""
Key = tuple[int, int, float]
HOW_MANY = 64


class Loss(NamedTuple):
    """What a row's victims cost, most weighty first; smaller is better.

    Broken budgets, the most important victim's priority, all victims' priorities, how many, and
    minus the start of the most important ones: the later they started the better.
    """

    violations: int
    highest: int
    total: int
    victims: int
    minus_start: float


NOTHING = Loss(0, -SHIFT, 0, 0, -math.inf)
"""Less than this nobody loses."""


def loss_of(candidate: Candidate, now: float) -> Loss:
    """Add up what a candidate costs."""
    victims = candidate.victims
    highest = max((v.priority for v in victims), default=-SHIFT)
    starts = (v.started(now) for v in victims if v.priority == highest)
    return Loss(
        candidate.violations, highest, sum(v.priority + SHIFT for v in victims), len(victims),
        -min(starts, default=now),
    )  # fmt: skip


def at_least(loss: Loss) -> Loss:
    """The least it costs where, besides all else, there must be room, which alone costs ``loss``.

    Then the first victim comes no later in the order of importance, and those whom a budget
    guards come before all others in the order of letting back.
    """
    if loss.violations:
        return NOTHING._replace(violations=1)
    return Loss(0, loss.highest, loss.highest + SHIFT, 1, loss.minus_start)


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
