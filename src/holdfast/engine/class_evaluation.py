"""The sum of all plugins' answers for one class of pods: feasible rows and their totals.

Only what changed is added up again. After a placement that is one row, done in plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import Stale
from holdfast.columns.node_table import NodeTable
from holdfast.engine.kept_scores import NOWHERE, Leading, Scaled, Ties, best_of
from holdfast.engine.nominated_pods import Crowd
from holdfast.engine.objections import Objections
from holdfast.engine.prepared import Answers, Possible, Prepared, differing
from holdfast.engine.profile import Profile
from holdfast.engine.scoring import HIGHEST_SCORE
from holdfast.framework.plugin import AnyRows, Rows, Verdicts


@dataclass(slots=True)
class Left:
    """What verdicts that are not kept leave of the feasible rows."""

    verdicts: list[Verdicts]
    mask: NDArray[np.bool_]
    _rows: Rows | None = None

    @property
    def rows(self) -> Rows:
        """The rows, ascending. Not to be written to."""
        if self._rows is None:
            self._rows = self.mask.nonzero()[0]
        return self._rows


class Record:
    """What is known about a class of pods.

    ``clear`` means that preparing ruled nothing out. ``ok`` are the rows that pass every kept
    filter, ``total`` their weighted sums, ``NOWHERE`` elsewhere. ``summed`` means that the totals
    are the whole truth about scores that are kept, ``simple`` that there are no others; the others
    are ``apart``, asked every time. A ``leading`` score is kept beside the totals, not in them.

    Invariants after ``refresh``, until the picture changes; ``faults`` works all of it out again:

    - ``ok`` has exactly the nodes that every kept filter passes and every plugin that narrows
      allows; ``count``, ``rows()`` and ``left_by`` follow from it.
    - ``total`` of a feasible row is the sum of its ``plain`` and ``scaled`` scores.
    - ``summed``: no plugin has tiers, and every kept score is plain or normalized by its ends.
      ``simple``: besides, no score is ``apart``, so ``best_rows`` are the best if all are ranked.
    - ``_settled``: every scaled score is flat and of nodes alone, so they give each feasible row
      the same ``_constant`` until a node changes or another row becomes feasible.
    - ``flat``: every scaled score is the same for all feasible rows, so totals hold for any part
      of them. If it is false, a score must be normalized over exactly the rows being ranked.
    - ``steady`` only tells whether keeping the best rows pays; answers do not depend on it.
    """

    def __init__(
        self,
        profile: Profile,
        nodes: NodeTable,
        prepared: list[Prepared],
        rejected: Prepared | None,
        possible: Possible,
    ) -> None:
        self.prepared = prepared
        self.rejected = rejected
        self.stamp = nodes.epochs.stamp
        self._nodes = nodes
        self._journal, self._node_journal = nodes.journal, nodes.node_journal
        self._possible = possible
        self._sort(profile)
        self.clear = rejected is None and len(self.narrowing) < 2
        self.simple = self.summed and not self.apart
        self.ok: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.total: NDArray[np.float64] = np.empty(nodes.capacity)
        self.total[nodes.size :] = NOWHERE
        self.ties = Ties(nodes.capacity)
        self.steady = False
        """Whether the last change was a single row; then keeping the best rows pays."""
        self.count = 0
        self._rows: Rows | None = None
        self._left: Left | None = None
        self._objections: Objections | None = None
        self.crowd: Crowd | None = None
        """Made for a class when pods are nominated to nodes."""
        self.leading_crowd: Crowd | None = None
        """The same for the filters whose turn comes before any that looks beyond the row."""
        self._possible_at = possible.at
        self._ok_at, self._total_at = cells(self.ok), cells(self.total)
        self._cursor = self._node_cursor = -1

    def _sort(self, profile: Profile) -> None:
        """Sort what the plugins made of the pod by what is to be done with it."""
        self.states: dict[str, Any] = {}
        self.fresh: list[Prepared] = []
        self.domain: list[Prepared] = []
        self.accepts_slices = True
        """Whether all filters that are not kept take a slice of rows, and nothing else counts."""
        self.narrowing: list[Prepared] = []
        self._of_nodes: list[Answers] = []
        self._of_rows: list[Answers] = []
        self._verdicts: list[Verdicts] = []
        self._verdicts_at: list[Cells[int]] = []
        self.plain: list[tuple[NDArray[np.float64], Cells[float], float]] = []
        self.scaled: list[Scaled] = []
        self.leading: Leading | None = None
        self.apart: list[Prepared] = []
        self.summed = True
        self._settled = True
        """Whether scaled scores give every row ``_constant`` until nodes or feasible rows move."""
        self._constant = 0.0
        for p in self.prepared:
            if p.narrow is not None:
                self.narrowing.append(p)
            if p.use.asked:
                self.fresh.append(p)
            elif not p.skip and p.reject is None:
                self.states[p.use.name] = p.state
                if p.answers is None:
                    if p.filters:
                        self.domain.append(p)
                        self.accepts_slices &= p.use.accepts_slices
                    self.accepts_slices &= p.narrow is None
                else:
                    self._sort_answers(p.answers, of_node=p.use.of_node)
                if p.tiers:
                    self.summed = False
                if p.scores:
                    self._sort_scores(p, profile.weight(p.use.name))
        self._find_leading()

    def _sort_answers(self, answers: Answers, *, of_node: bool) -> None:
        if of_node:
            self._of_nodes.append(answers)
            return
        self._of_rows.append(answers)
        if answers.verdicts is not None:
            assert answers.verdict_at is not None
            self._verdicts.append(answers.verdicts)
            self._verdicts_at.append(answers.verdict_at)

    def _sort_scores(self, p: Prepared, weight: int) -> None:
        """Tell plain scores from scaled ones, and from those that must be asked in full."""
        answers = p.answers
        if answers is None:
            self.apart.append(p)
        elif p.use.opaque or p.score_error:
            self.summed = False
        elif p.use.scales:
            self._settled = False
            self.scaled.append(Scaled(answers, weight, of_node=p.use.of_node))
        else:
            assert answers.raw is not None
            assert answers.raw_at is not None
            self.plain.append((answers.raw, answers.raw_at, float(weight)))

    def _find_leading(self) -> None:
        """Set the score apart that outweighs all others together, if there is one."""
        if not self.scaled:
            return
        first = max(self.scaled, key=lambda part: part.weight)
        rest = [part for part in self.scaled if part is not first]
        others = sum([part.weight for part in rest]) + sum([weight for _, _, weight in self.plain])
        if first.weight > HIGHEST_SCORE * others:
            self.leading = Leading(first.answers, first.weight, HIGHEST_SCORE * others)
            self.scaled = rest

    def objections(self) -> Objections | None:
        """Each row's first objection, up to date after a refresh; None if it cannot be kept."""
        if self._objections is None:
            if not Objections.possible(self.prepared):
                return None
            self._objections = Objections(self._nodes, self.prepared)
        self._objections.refresh()
        return self._objections

    @property
    def flat(self) -> bool:
        """Whether totals stay true for any part of the feasible rows."""
        parts = self.scaled if self.leading is None else (*self.scaled, self.leading)
        return all(part.flat for part in parts)

    def rows(self) -> Rows:
        """Feasible rows, ascending; the same array until they change. Not to be written to."""
        if self._rows is None:
            self._rows = self.ok[: self._nodes.size].nonzero()[0]
        return self._rows

    def left_by(self, verdicts: list[Verdicts]) -> Left:
        """Feasible rows that others pass, too; the same again while nobody says anything new."""
        left, size = self._left, self._nodes.size
        if left is None or len(left.mask) != size or not all(map(is_, left.verdicts, verdicts)):
            mask = self.ok[:size]
            for answer in verdicts:
                mask = mask & (answer == 0)
            left = self._left = Left(verdicts, mask)
        return left

    def best_rows(self) -> Sequence[int] | Rows:
        """Feasible rows with the highest total."""
        if self.leading is not None:
            return self.leading.best_rows(self.total[: self._nodes.size])
        if self.ties.best is None:
            total = self.total[: self._nodes.size]
            if not self.steady:
                return best_of(total)
            self.ties.find(total)
        return self.ties.rows

    def faults(self) -> Iterator[str]:
        """Work out anew what is kept and name what differs; nothing is claimed when out of date."""
        if (self._cursor, self._node_cursor) != (self._journal.seq, self._node_journal.seq):
            return
        size = self._nodes.size
        ok = self.ok[:size]
        for answers in (*self._of_nodes, *self._of_rows):
            yield from answers.faults()
        yield from self._possible.faults()
        passed = self._possible.rows[:size]
        for verdicts in self._verdicts:
            passed = passed & (verdicts[:size] == 0)
        yield from differing("feasible rows", ok, passed)
        if self.count != np.count_nonzero(ok):
            yield f"{self.count} feasible rows are counted, there are {np.count_nonzero(ok)}"
        if self._rows is not None and not np.array_equal(self._rows, ok.nonzero()[0]):
            yield "the kept list of feasible rows is not that of the mask"
        if self._left is not None:
            passed = ok & np.all([verdicts == 0 for verdicts in self._left.verdicts], axis=0)
            yield from differing("rows left by verdicts that are not kept", self._left.mask, passed)
        yield from self._score_faults(ok)
        if self._objections is not None:
            yield from self._objections.faults()
        for crowd in (self.crowd, self.leading_crowd):
            if crowd is not None:
                yield from crowd.faults()

    def _score_faults(self, ok: NDArray[np.bool_]) -> Iterator[str]:
        total, expected = self.total[: len(ok)], np.zeros(len(ok))
        for part in self.scaled:
            yield from part.faults(ok)
            expected += part.of(slice(0, len(ok)))
        for raw, _, weight in self.plain:
            expected += raw[: len(ok)] * weight
        yield from differing("kept totals", total, np.where(ok, expected, NOWHERE))
        yield from self.ties.faults(total)
        constant = sum([part.constant for part in self.scaled], 0.0)
        steadfast = all([part.flat and part.of_node for part in self.scaled])
        if self._settled and not (steadfast and self._constant == constant):
            yield f"scaled scores are taken for {self._constant} everywhere, and are not"
        if self.leading is not None and ok.any():
            yield from self.leading.faults(ok)
            best = best_of(np.where(ok, total + self.leading.of(slice(0, len(ok))), NOWHERE))
            if sorted(self.leading.best_rows(total)) != best.tolist():
                yield "the rows with the best leading score are not the best"

    def refresh(self) -> None:
        """Bring answers and totals up to date with the picture."""
        seq, cursor = self._journal.seq, self._cursor
        if cursor == seq:
            return
        row = self._journal.alone(cursor) if cursor >= 0 else -1
        if row >= 0 and self._node_cursor == self._node_journal.seq:
            self._cursor = seq
            self.steady = True
            for answers in self._of_rows:
                answers.follow(row, cursor, seq)
            if self._patch(row, self._settled):
                self._measure()
            if self.leading is not None:
                self.leading.follow(row, feasible=self._ok_at[row])
            return
        self._catch_up()

    def _catch_up(self) -> None:
        settled = self._settled and self._node_cursor == self._node_journal.seq
        for answers in self._of_rows if settled else (*self._of_nodes, *self._of_rows):
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
                ends_moved |= self._patch(row, settled)
        else:
            ends_moved = self._combine(stale, settled)
        if ends_moved:
            self._measure()
        if self.leading is not None:
            self.leading.measure(self.ok[:size])

    def _patch(self, row: int, settled: bool) -> bool:
        """Add up one row; tell whether the ends of a scaled score may have moved."""
        was = self._ok_at[row]
        ok = self._possible_at[row]
        if ok:
            for verdicts in self._verdicts_at:
                if verdicts[row]:
                    ok = False
                    break
        total, moved = self._constant, False
        if ok is not was:
            self._ok_at[row] = ok
            self.count += 1 if ok else -1
            self._rows = self._left = None
            settled = False
        if not settled:
            total, moved = self._scaled_at(row, was, ok)
        if ok:
            for _, raw_at, weight in self.plain:
                total += raw_at[row] * weight
        else:
            total = NOWHERE
        self.ties.change(row, self._total_at[row], total)
        self._total_at[row] = total
        return moved

    def _scaled_at(self, row: int, was: bool, ok: bool) -> tuple[float, bool]:
        """What scaled scores give a row, and whether the ends of one may have moved."""
        total, moved = 0.0, False
        for part in self.scaled:
            if part.moves(row, was=was, ok=ok):
                moved = True
            elif ok:
                total += part.at(row)
        return total, moved

    def _combine(self, rows: AnyRows, settled: bool) -> bool:
        """Add up many rows; tell whether the ends of a scaled score may have moved."""
        self.ties.forget()
        self.steady = False
        ok: NDArray[np.bool_] = self._possible.rows[rows]
        for verdicts in self._verdicts:
            ok = ok & (verdicts[rows] == 0)
        was = self.ok[rows]
        if np.count_nonzero(ok != was):
            self.count += int(np.count_nonzero(ok)) - int(np.count_nonzero(was))
            self.ok[rows] = ok
            self._rows = self._left = None
            settled = False
        if not settled and any(part.may_move(rows) for part in self.scaled):
            return True
        self._sum(rows, ok)
        return False

    def _measure(self) -> None:
        rows = slice(0, self._nodes.size)
        ok = self.ok[rows]
        for part in self.scaled:
            part.measure(ok)
        self._settled = all([part.flat and part.of_node for part in self.scaled])
        self._constant = sum([part.constant for part in self.scaled if part.flat], 0.0)
        self.ties.forget()
        self._sum(rows, ok)

    def _sum(self, rows: AnyRows, ok: NDArray[np.bool_]) -> None:
        """Write the totals of rows whose feasibility and ends are known."""
        total: Any = self._constant
        for raw, _, weight in self.plain:
            part = raw[rows]
            total = total + (part if weight == 1.0 else part * weight)
        if not self._settled:
            for scaled in self.scaled:
                if not scaled.flat:
                    total = total + scaled.of(rows)
        if np.count_nonzero(ok) < len(ok):
            total = np.where(ok, total, NOWHERE)
        self.total[rows] = total
