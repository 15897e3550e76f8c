"""One plugin's verdicts and raw scores for every row, kept for pods it cannot tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import Stale
from holdfast.columns.picture import Picture
from holdfast.framework.plugin import (
    AnyRows,
    ScalarTwin,
    Scope,
    State,
    Verdicts,
    implements,
)


class Answers:
    """What a NODE or ROW plugin says about all rows, patched where rows change.

    ``verdicts`` is None for a plugin that does not filter (for these pods), ``raw`` for one that
    does not score. Arrays have the picture's capacity; rows beyond its size are meaningless.
    """

    __slots__ = (
        "_journal", "_nodes", "_sliced", "_span", "_twin", "cursor", "plugin", "raw", "raw_at",
        "state", "verdict_at", "verdicts",
    )  # fmt: skip

    def __init__(
        self, plugin: Any, state: State, nodes: Picture, *, filters: bool, scores: bool
    ) -> None:
        self.plugin = plugin
        self.state = state
        self._nodes = nodes
        self._journal = nodes.node_journal if plugin.scope is Scope.NODE else nodes.journal
        self.cursor = -1
        self._span: tuple[int, float, float] | None = None
        self._sliced = getattr(plugin, "sliced", False)
        self._twin = plugin.row if implements(plugin, ScalarTwin) else None
        self.verdicts: Verdicts | None = np.empty(nodes.capacity, np.int8) if filters else None
        self.raw: NDArray[np.float64] | None = np.empty(nodes.capacity) if scores else None
        self.verdict_at: Cells[int] | None = cells(self.verdicts) if filters else None  # type: ignore[arg-type]
        self.raw_at: Cells[float] | None = cells(self.raw) if scores else None  # type: ignore[arg-type]

    def refresh(self) -> None:
        """Ask the plugin again about the rows that changed."""
        seq = self._journal.seq
        if self.cursor == seq:
            return
        size = self._nodes.size
        stale: Stale = slice(0, size)
        if self.cursor >= 0:
            stale = self._journal.stale(self.cursor, size)
        self.cursor = seq
        if isinstance(stale, list):
            if self._twin is not None:
                self._one_by_one(stale)
                return
            stale = np.array(stale, np.intp)
        self._all_at_once(stale)

    def span(self) -> tuple[float, float]:
        """The lowest and highest raw score of any row, feasible or not."""
        assert self.raw is not None
        if self._span is None or self._span[0] != self.cursor:
            raw = self.raw[: self._nodes.size]
            self._span = (self.cursor, float(raw.min()), float(raw.max()))
        return self._span[1:]

    def follow(self, row: int, cursor: int, seq: int) -> None:
        """Ask again about the one row that changed, if that is all this one is behind."""
        if self.cursor != cursor or self._twin is None:
            self.refresh()
            return
        self.cursor = seq
        verdict, score = self._twin(self.state, row)
        if self.verdict_at is not None:
            self.verdict_at[row] = verdict
        if self.raw_at is not None:
            self.raw_at[row] = score

    def _one_by_one(self, rows: list[int]) -> None:
        twin, state, verdicts, raw = self._twin, self.state, self.verdict_at, self.raw_at
        assert twin is not None
        for row in rows:
            verdict, score = twin(state, row)
            if verdicts is not None:
                verdicts[row] = verdict
            if raw is not None:
                raw[row] = score

    def _all_at_once(self, rows: AnyRows) -> None:
        asked: Any = rows
        if isinstance(rows, slice) and not self._sliced:
            asked = np.arange(rows.stop, dtype=np.intp)
        if self.verdicts is not None:
            self.verdicts[rows] = self.plugin.filter(self.state, asked)
        if self.raw is not None:
            self.raw[rows] = self.plugin.score(self.state, asked)
