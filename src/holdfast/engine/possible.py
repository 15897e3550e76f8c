"""Rows that are nodes and pass every filter which looks at nothing but the node.

Pods come and go all the time, nodes do not: this part of a verdict is worked out again only when
some node changed, and shared by all classes that differ in other things.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.picture import Picture
from holdfast.engine.answers import Answers
from holdfast.framework.plugin import Rows


class Possible:
    """The conjunction of some NODE plugins' answers and of what preparing allowed."""

    __slots__ = ("_allowed", "_answers", "_cursor", "_nodes", "at", "rows")

    def __init__(self, nodes: Picture, answers: Sequence[Answers], allowed: Sequence[Rows]) -> None:
        self._nodes = nodes
        self._answers = tuple(answers)
        self._allowed = tuple(allowed)
        self._cursor = -1
        self.rows: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.at: Cells[bool] = cells(self.rows)

    def refresh(self) -> None:
        """Look at the nodes again, if one of them changed."""
        seq, size = self._nodes.node_journal.seq, self._nodes.size
        if self._cursor == seq:
            return
        self._cursor = seq
        possible = self._nodes.alive[:size].copy()
        for answers in self._answers:
            answers.refresh()
            if answers.verdicts is not None:
                possible &= answers.verdicts[:size] == 0
        for rows in self._allowed:
            here = np.zeros(size, np.bool_)
            here[rows] = True
            possible &= here
        self.rows[:size] = possible
