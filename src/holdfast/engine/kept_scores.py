"""One normalized score of a class: its two ends over the feasible rows, and what follows.

Normalizing needs the lowest and highest raw score among feasible rows. They are looked for in
full only when a row at one of the ends changed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.engine.answers import Answers
from holdfast.framework.plugin import AnyRows

UNKNOWN = float("nan")  # equal to nothing, not even itself: no row is between such ends


class Scaled:
    """Raw scores with their ends; ``constant`` is everybody's weighted score while they meet.

    ``of_node``: raw scores stay as they are while no node changes.
    """

    __slots__ = (
        "_scale", "_seen_at", "_state", "answers", "constant", "high", "low", "of_node", "raw",
        "raw_at", "weight",
    )  # fmt: skip

    def __init__(self, answers: Answers, weight: int, *, of_node: bool) -> None:
        self.of_node = of_node
        assert answers.raw is not None
        assert answers.raw_at is not None
        self.raw, self.raw_at = answers.raw, answers.raw_at
        self.answers = answers
        self.weight = weight
        self.low = self.high = self.constant = UNKNOWN
        self._state = answers.state
        self._scale = answers.plugin.scale
        self._seen_at: Cells[float] | None = None

    @property
    def flat(self) -> bool:
        """Whether all feasible rows have one raw score, and so one normalized score."""
        return self.low == self.high

    def measure(self, feasible: NDArray[np.bool_]) -> None:
        """Look at all feasible rows for the ends."""
        low, high = self.answers.span()
        if low != high:
            found = self.raw[: len(feasible)].compress(feasible)
            if not len(found):
                self.low = self.high = UNKNOWN
                return
            low, high = float(found.min()), float(found.max())
        self.low, self.high = low, high
        self.constant = self.weight * float(self._scale(self._state, self.low, self.low, self.high))
        # While the ends meet, what a row had before is known without keeping it.
        self._seen_at = None if self.flat else cells(self.raw.copy())

    def moves(self, row: int, *, was: bool, ok: bool) -> bool:
        """Note a row's new raw score; tell whether the ends may have moved with it.

        ``was`` and ``ok`` tell whether the row was and is feasible.
        """
        raw = self.raw_at[row]
        if ok and not self.low <= raw <= self.high:
            return True
        if self._seen_at is None:
            return False
        seen = self._seen_at[row]
        self._seen_at[row] = raw
        return was and not (ok and raw == seen) and seen in (self.low, self.high)

    def may_move(self, rows: AnyRows) -> bool:
        """Tell whether the ends may have moved, many rows having changed."""
        if isinstance(rows, slice) or not self.flat:
            return True
        changed = self.raw[rows]
        return not bool((changed == self.low).all())

    def at(self, row: int) -> float:
        """The weighted score of a row."""
        if self.low == self.high:
            return self.constant
        scaled = self._scale(self._state, self.raw_at[row], self.low, self.high)
        return self.weight * float(scaled)

    def of(self, rows: AnyRows) -> NDArray[np.float64] | float:
        """The weighted scores of rows."""
        if self.flat:
            return self.constant
        scaled: NDArray[np.float64] = self._scale(self._state, self.raw[rows], self.low, self.high)
        return scaled if self.weight == 1 else scaled * self.weight
