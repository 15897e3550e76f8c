"""What owners of the same offers found on every row, kept; only rows that changed are judged anew.

The lowest order label of all offers beats any score, so a score may depend on other rows: that
part is worked out each time, if there are such labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells
from holdfast.framework.plugin import AnyRows, Code, RawScores, Rows, Verdicts
from holdfast.plugins.reservation.one_row import OneRow, judge
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.owner_fit import fit, nominable, offer_scores

_FEW = 32
"""So many changed rows are judged one by one sooner than all rows at once."""


FIRST_IN_ORDER = 1000.0
"""The score of the row with the lowest order label of all."""


class Kept:
    """Verdicts and scores per row, and which of the matched offers can be nominated."""

    __slots__ = ("_cursor", "_judged", "_named", "_named_at", "_ordered", "_raw", "_raw_at",
                 "_state", "_verdict_at", "verdicts")  # fmt: skip

    def __init__(self, state: OwnerState) -> None:
        self._state = state
        self._cursor = -1
        self.verdicts: Verdicts = np.zeros(state.nodes.capacity, np.int8)
        self._raw: RawScores = np.zeros(state.nodes.capacity)
        self._named: NDArray[np.bool_] = np.zeros(len(state.match.slots), np.bool_)
        self._verdict_at, self._raw_at = cells(self.verdicts), cells(self._raw)
        self._named_at = cells(self._named)
        self._judged: dict[int, OneRow] = {}
        """What was found on rows that were judged one by one."""
        self._ordered = state.ordered

    def refresh(self) -> None:
        """Judge again the rows that changed."""
        nodes = self._state.nodes
        journal, cursor = nodes.journal, self._cursor
        if cursor == journal.seq:
            return
        self._cursor = journal.seq
        stale = slice(0) if cursor < 0 else journal.stale(cursor, nodes.size)
        if isinstance(stale, list):
            few = stale
        elif isinstance(stale, slice) or len(found := self._mine(stale)) > _FEW:
            self._judge_all()
            return
        else:
            few = found.tolist()
        for row in few:
            self._judge(row)

    def before(self, row: int) -> OneRow | None:
        """What was found on a row before the change that came last, if that alone came since."""
        journal = self._state.nodes.journal
        last = journal.seq == self._cursor + 1 and journal.last_row == row
        return self._judged.get(row) if last else None

    def at(self, row: int) -> tuple[int, float]:
        """Verdict and score of a row, where no offer carries an order label."""
        return self._verdict_at[row], self._raw_at[row]

    def scores(self, rows: AnyRows) -> RawScores:
        """Score rows by their best offer; the lowest order label of all gets 1000."""
        if not self._ordered:
            return self._raw[rows]
        match, raw = self._state.match, self._raw.copy()
        order = self._state.offers.columns.order[match.slots]
        labelled = self._named & (order != 0)
        if labelled.any():
            lowest = labelled & (order == order[labelled].min())
            raw[match.rows[match.at[lowest]]] = FIRST_IN_ORDER
        return raw[rows]

    def _mine(self, rows: Rows) -> Rows:
        mine = self._state.match.rows
        found: Rows = rows[mine.take(np.searchsorted(mine, rows), mode="clip") == rows]
        return found

    def _judge(self, row: int) -> None:
        found = judge(self._state, row)
        if found is None:
            return
        self._judged[row] = found
        if self._ordered:
            named = {offer.slot for offer in found.nominable}
            for i, (offer, _) in enumerate(found.chances, found.begin):
                self._named_at[i] = offer.slot in named
        self._raw_at[row] = float(max(found.scores.values(), default=0))
        self._verdict_at[row] = found.code(must=self._state.must)

    def _judge_all(self) -> None:
        state = self._state
        match, found = state.match, fit(state)
        self._judged.clear()
        self._named[:] = nominable(state, found)
        scores = np.where(found.serves, offer_scores(state), 0)
        self._raw[match.rows] = np.maximum.reduceat(scores, match.first)
        codes = (~found.passes).astype(np.int8)
        if state.must:
            # Where every offer is taken there is none to speak of: nothing can help.
            takable = state.offers.columns.matchable[match.slots]
            codes[~found.passes & ~np.logical_or.reduceat(takable, match.first)] = Code.UNRESOLVABLE
        self.verdicts[match.rows] = codes


def kept_of(state: OwnerState) -> Kept:
    """What is kept for a state, up to date."""
    if state.kept is None:
        state.kept = Kept(state)
    state.kept.refresh()
    return state.kept
