"""Cached verdicts and scores of one owner's request; only changed rows are evaluated again.

The lowest order label of all reservations beats any score, so a score may depend on other rows:
that part is computed each time, if there are such labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.framework.plugin import AnyRows, Code, RawScores, Rows, Verdicts
from holdfast.plugins.reservation.owner import OwnerRequest
from holdfast.plugins.reservation.owner_fit import fit_owner, nominable, row_scores
from holdfast.plugins.reservation.row_fit import RowFit, fit_row

_FEW = 32
"""Up to this many changed rows are evaluated one by one."""

FIRST_IN_ORDER = 1000.0
"""The score of the row with the lowest order label of all."""


class OwnerResults:
    """Verdicts and scores per row, and which of the matched reservations can be nominated.

    ``raw_at`` has the score of a row where no reservation has an order label.
    """

    __slots__ = ("_cursor", "_evaluated", "_named", "_named_at", "_ordered", "_owner", "_raw",
                 "raw_at", "verdict_at", "verdicts")  # fmt: skip

    def __init__(self, owner: OwnerRequest) -> None:
        self._owner = owner
        self._cursor = -1
        self.verdicts: Verdicts = np.zeros(owner.nodes.capacity, np.int8)
        self._raw: RawScores = np.zeros(owner.nodes.capacity)
        self._named: NDArray[np.bool_] = np.zeros(len(owner.match.slots), np.bool_)
        self.verdict_at: Cells[int] = cells(self.verdicts)
        self.raw_at: Cells[float] = cells(self._raw)
        self._named_at = cells(self._named)
        self._evaluated: dict[int, RowFit] = {}
        """Results of rows that were evaluated one by one."""
        self._ordered = owner.ordered

    def refresh(self) -> None:
        """Evaluate the changed rows again."""
        nodes = self._owner.nodes
        journal, cursor = nodes.journal, self._cursor
        if cursor == journal.seq:
            return
        self._cursor = journal.seq
        stale = slice(0) if cursor < 0 else journal.stale(cursor, nodes.size)
        if isinstance(stale, list):
            few = stale
        elif isinstance(stale, slice) or len(found := self._mine(stale)) > _FEW:
            self._evaluate_all()
            return
        else:
            few = found.tolist()
        for row in few:
            self._evaluate(row)

    def before(self, row: int) -> RowFit | None:
        """Return the result of a row before the last change, if there was no other since."""
        journal = self._owner.nodes.journal
        last = journal.seq == self._cursor + 1 and journal.last_row == row
        return self._evaluated.get(row) if last else None

    def scores(self, rows: AnyRows) -> RawScores:
        """Score rows by their best reservation; the lowest order label of all gets 1000."""
        if not self._ordered:
            return self._raw[rows]
        match, raw = self._owner.match, self._raw.copy()
        order = self._owner.reservations.columns.order[match.slots]
        labelled = self._named & (order != 0)
        if labelled.any():
            lowest = labelled & (order == order[labelled].min())
            raw[match.rows[match.at[lowest]]] = FIRST_IN_ORDER
        return raw[rows]

    def _mine(self, rows: Rows) -> Rows:
        mine = self._owner.match.rows
        found: Rows = rows[mine.take(np.searchsorted(mine, rows), mode="clip") == rows]
        return found

    def _evaluate(self, row: int) -> None:
        found = fit_row(self._owner, row)
        if found is None:
            return
        self._evaluated[row] = found
        if self._ordered:
            named = {info.slot for info in found.nominable}
            for i, (info, _) in enumerate(found.fits, found.begin):
                self._named_at[i] = info.slot in named
        self.raw_at[row] = float(found.score)
        self.verdict_at[row] = found.code(requires_reservation=self._owner.requires_reservation)

    def _evaluate_all(self) -> None:
        owner = self._owner
        match, found = owner.match, fit_owner(owner)
        self._evaluated.clear()
        self._named[:] = nominable(owner, found)
        self._raw[match.rows] = row_scores(owner, found)
        codes = (~found.passes).astype(np.int8)
        if owner.requires_reservation:
            # A required reservation cannot become matchable by preemption.
            matchable = owner.reservations.columns.matchable[match.slots]
            codes[~found.passes & ~np.logical_or.reduceat(matchable, match.first)] = (
                Code.UNRESOLVABLE
            )
        codes[~found.passes & found.unresolvable] = Code.UNRESOLVABLE
        self.verdicts[match.rows] = codes
