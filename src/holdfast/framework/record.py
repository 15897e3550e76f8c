"""The sum of all plugins' answers for one class of pods: feasible rows and their totals.

Only what changed is added up again. After a placement that is one row, done in plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import Stale
from holdfast.columns.picture import Picture
from holdfast.framework.plugin import (
    AnyRows,
    Normalizes,
    PreScores,
    Rows,
    Scales,
    Scope,
    implements,
)
from holdfast.framework.possible import Possible
from holdfast.framework.prepared import Prepared
from holdfast.framework.profile import Profile
from holdfast.framework.scaled import Scaled
from holdfast.framework.ties import NOWHERE, Ties


class Record:
    """What is known about a class of pods.

    ``clear`` means that preparing ruled nothing out. ``ok`` are the rows that pass every kept
    filter, ``total`` their weighted sums, ``NOWHERE`` elsewhere. ``summed`` means that the totals
    are the whole truth about scores that are kept, ``simple`` that there are no others; the others
    are ``apart``, asked every time.
    """

    def __init__(
        self,
        profile: Profile,
        nodes: Picture,
        prepared: list[Prepared],
        rejected: Prepared | None,
        possible: Possible,
    ) -> None:
        self.prepared = prepared
        self.rejected = rejected
        self.stamp = nodes.epochs.stamp
        self.states: dict[str, Any] = {
            p.plugin.name: p.state for p in prepared if not (p.skip or p.asked or p.reject)
        }
        self.fresh = [p for p in prepared if p.asked]
        self.domain = [p for p in prepared if p.filters and not p.asked and p.answers is None]
        self.narrowing = [p for p in prepared if p.narrow is not None]
        self.clear = rejected is None and len(self.narrowing) < 2
        self._nodes = nodes
        self._journal, self._node_journal = nodes.journal, nodes.node_journal
        answers = [p.answers for p in prepared if p.answers is not None]
        self._of_nodes = [a for a in answers if a.plugin.scope is Scope.NODE]
        self._of_rows = [a for a in answers if a.plugin.scope is not Scope.NODE]
        self._verdicts = [a.verdicts for a in self._of_rows if a.verdicts is not None]
        self._verdicts_at = [a.verdict_at for a in self._of_rows if a.verdict_at is not None]
        self._possible = possible
        self._gather(profile)
        self.ok: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.total: NDArray[np.float64] = np.empty(nodes.capacity)
        self.total[nodes.size :] = NOWHERE
        self.ties = Ties(nodes.capacity)
        self.steady = False
        """Whether the last change was a single row; then keeping the best rows pays."""
        self.count = 0
        self._possible_at = possible.at
        self._ok_at, self._total_at = cells(self.ok), cells(self.total)
        self._cursor = self._node_cursor = -1

    def _gather(self, profile: Profile) -> None:
        """Sort the scores into plain ones, scaled ones, and those that must be asked in full."""
        self.plain: list[tuple[NDArray[np.float64], Cells[float], float]] = []
        self.scaled: list[Scaled] = []
        self.apart: list[Prepared] = []
        self.summed = True
        for p in self.prepared:
            if p.skip or p.asked or p.reject is not None:
                continue
            plugin, answers = p.plugin, p.answers
            if p.tiers:
                self.summed = False
            if not p.scores:
                continue
            weight = profile.weight(plugin.name)
            opaque = implements(plugin, Normalizes) or implements(plugin, PreScores) or p.mistake
            if answers is None:
                self.apart.append(p)
            elif opaque:
                self.summed = False
            elif implements(plugin, Scales):
                self.scaled.append(Scaled(answers, weight))
            else:
                assert answers.raw is not None
                assert answers.raw_at is not None
                self.plain.append((answers.raw, answers.raw_at, float(weight)))
        self.simple = self.summed and not self.apart

    @property
    def flat(self) -> bool:
        """Whether totals stay true for any part of the feasible rows."""
        return all(part.flat for part in self.scaled)

    def best_rows(self) -> Sequence[int] | Rows:
        """Feasible rows with the highest total."""
        if self.ties.best is None:
            total = self.total[: self._nodes.size]
            if not self.steady:
                rows: Rows = (total == total.max()).nonzero()[0]
                return rows
            self.ties.find(total)
        return self.ties.rows

    def refresh(self) -> None:
        """Bring answers and totals up to date with the picture."""
        seq, cursor = self._journal.seq, self._cursor
        if cursor == seq:
            return
        if seq - cursor == 1 and self._node_cursor == self._node_journal.seq:
            self._cursor = seq
            self.steady = True
            row = self._journal.last
            for answers in self._of_rows:
                answers.follow(row, cursor, seq)
            if self._patch(row):
                self._measure()
            return
        self._catch_up()

    def _catch_up(self) -> None:
        for answers in (*self._of_nodes, *self._of_rows):
            answers.refresh()
        size = self._nodes.size
        stale: Stale = slice(0, size)
        if self._cursor >= 0:
            stale = self._journal.stale(self._cursor, size)
        self._possible.refresh()
        self._cursor, self._node_cursor = self._journal.seq, self._node_journal.seq
        ends_moved = False
        if isinstance(stale, list):
            for row in stale:
                ends_moved |= self._patch(row)
        else:
            ends_moved = self._combine(stale)
        if ends_moved:
            self._measure()

    def _patch(self, row: int) -> bool:
        """Add up one row; tell whether the ends of a scaled score may have moved."""
        was = self._ok_at[row]
        ok = self._possible_at[row]
        if ok:
            for verdicts in self._verdicts_at:
                if verdicts[row]:
                    ok = False
                    break
        if ok is not was:
            self._ok_at[row] = ok
            self.count += 1 if ok else -1
        total, moved = 0.0, False
        for part in self.scaled:
            if part.moves(row, was=was, ok=ok):
                moved = True
            elif ok:
                total += part.at(row)
        if ok:
            for _, raw_at, weight in self.plain:
                total += raw_at[row] * weight
        else:
            total = NOWHERE
        self.ties.change(row, self._total_at[row], total)
        self._total_at[row] = total
        return moved

    def _combine(self, rows: AnyRows) -> bool:
        """Add up many rows; tell whether the ends of a scaled score may have moved."""
        self.ties.forget()
        self.steady = False
        ok: NDArray[np.bool_] = self._possible.rows[rows]
        for verdicts in self._verdicts:
            ok = ok & (verdicts[rows] == 0)
        self.count += int(np.count_nonzero(ok)) - int(np.count_nonzero(self.ok[rows]))
        self.ok[rows] = ok
        if any(part.may_move(rows) for part in self.scaled):
            return True
        self._sum(rows, ok)
        return False

    def _measure(self) -> None:
        rows = slice(0, self._nodes.size)
        ok = self.ok[rows]
        for part in self.scaled:
            part.measure(ok)
        self.ties.forget()
        self._sum(rows, ok)

    def _sum(self, rows: AnyRows, ok: NDArray[np.bool_]) -> None:
        """Write the totals of rows whose feasibility and ends are known."""
        total: Any = 0.0
        for raw, _, weight in self.plain:
            total = total + (raw[rows] if weight == 1.0 else raw[rows] * weight)
        for part in self.scaled:
            total = total + part.of(rows)
        self.total[rows] = np.where(ok, total, NOWHERE)
