"""The sum of all plugins' answers for one class of pods: feasible rows and their totals.

Only what changed is added up again. After a placement that is one row, done in plain numbers; a
normalized score moves other rows only when the lowest or highest raw score among feasible rows
moves, which is looked at in full only when a row at one end changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import Stale
from holdfast.columns.picture import Picture
from holdfast.framework.answers import Answers
from holdfast.framework.plugin import AnyRows, Normalizes, PreScores, Scales, Tiers, implements
from holdfast.framework.prepared import Prepared
from holdfast.framework.profile import Profile

NOWHERE = float("-inf")
UNKNOWN = float("nan")  # equal to nothing, not even itself: no row is between such ends


class Scaled:
    """One normalized score: its ends over feasible rows, and each row's raw score when seen."""

    __slots__ = ("constant", "high", "low", "raw", "raw_at", "scale", "seen", "seen_at", "state",
                 "weight")  # fmt: skip

    def __init__(self, answers: Answers, weight: int, capacity: int) -> None:
        assert answers.raw is not None
        assert answers.raw_at is not None
        self.raw, self.raw_at = answers.raw, answers.raw_at
        self.state = answers.state
        self.scale = answers.plugin.scale
        self.weight = weight
        self.low = self.high = self.constant = UNKNOWN
        self.seen: NDArray[np.float64] = np.zeros(capacity)
        self.seen_at: Cells[float] = cells(self.seen)

    @property
    def flat(self) -> bool:
        """Whether all feasible rows have one raw score, and so one normalized score."""
        return self.low == self.high

    def measure(self, feasible: NDArray[np.bool_]) -> None:
        """Look at all feasible rows for the ends."""
        found = self.raw[: len(feasible)][feasible]
        if not len(found):
            self.low = self.high = UNKNOWN
            return
        self.low, self.high = float(found.min()), float(found.max())
        self.constant = self.weight * float(self.scale(self.state, self.low, self.low, self.high))

    def moves(self, seen: float | None, raw: float | None) -> bool:
        """Tell whether the ends may move when a row's raw score does; None: not feasible."""
        if raw is not None and not self.low <= raw <= self.high:
            return True
        if seen is None or raw == seen or self.low == self.high:
            return False
        return seen in (self.low, self.high)

    def of(self, raw: float) -> float:
        """The weighted score of one raw score."""
        if self.low == self.high:
            return self.constant
        return self.weight * float(self.scale(self.state, raw, self.low, self.high))


class Record:
    """What is known about a class of pods.

    ``clear`` means that preparing ruled nothing out. ``ok`` are the rows that pass every kept
    filter, ``total`` their weighted sums, ``NOWHERE`` elsewhere. ``simple`` means that the totals
    are the whole truth about scores.
    """

    def __init__(
        self, profile: Profile, nodes: Picture, prepared: list[Prepared], rejected: Prepared | None
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
        self._answers = [p.answers for p in prepared if p.answers is not None]
        self._verdicts = [a.verdicts for a in self._answers if a.verdicts is not None]
        self._verdicts_at = [a.verdict_at for a in self._answers if a.verdict_at is not None]
        self._allowed = self._allow()
        self._gather(profile)
        self.ok: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.total: NDArray[np.float64] = np.full(nodes.capacity, NOWHERE)
        self.count = 0
        self._ok_at, self._total_at = cells(self.ok), cells(self.total)
        self._alive_at = cells(nodes.alive)
        self._cursor = -1

    def _allow(self) -> NDArray[np.bool_] | None:
        if not self.narrowing:
            return None
        allowed = np.ones(self._nodes.capacity, np.bool_)
        for prepared in self.narrowing:
            here = np.zeros(self._nodes.capacity, np.bool_)
            here[prepared.narrow] = True
            allowed &= here
        return allowed

    def _gather(self, profile: Profile) -> None:
        """Sort the scores into plain ones, scaled ones, and those that must be asked in full."""
        self.plain: list[tuple[NDArray[np.float64], Cells[float], float]] = []
        self.scaled: list[Scaled] = []
        self.simple = True
        for p in self.prepared:
            if p.skip or p.asked or p.reject is not None:
                continue
            if implements(p.plugin, Tiers):
                self.simple = False
            if not p.scores:
                continue
            weight, answers = profile.weight(p.plugin.name), p.answers
            if (
                answers is None
                or implements(p.plugin, Normalizes)
                or implements(p.plugin, PreScores)
            ):
                self.simple = False
            elif implements(p.plugin, Scales):
                self.scaled.append(Scaled(answers, weight, self._nodes.capacity))
            else:
                assert answers.raw is not None
                assert answers.raw_at is not None
                self.plain.append((answers.raw, answers.raw_at, float(weight)))

    @property
    def flat(self) -> bool:
        """Whether totals stay true for any part of the feasible rows."""
        return all(part.flat for part in self.scaled)

    def refresh(self) -> None:
        """Bring answers and totals up to date with the picture."""
        for answers in self._answers:
            answers.refresh()
        journal = self._nodes.journal
        if self._cursor == journal.seq:
            return
        size = self._nodes.size
        stale: Stale = slice(0, size)
        if self._cursor >= 0:
            stale = journal.stale(self._cursor, size)
        self._cursor = journal.seq
        if isinstance(stale, list):
            ends_moved = False
            for row in stale:
                ends_moved |= self._patch(row)
        else:
            ends_moved = self._combine(stale)
        if ends_moved:
            self._measure(slice(0, size))

    def _patch(self, row: int) -> bool:
        """Add up one row; tell whether the ends of a scaled score may have moved."""
        was = self._ok_at[row]
        ok = self._alive_at[row] and (self._allowed is None or bool(self._allowed[row]))
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
            raw, seen = part.raw_at[row], part.seen_at[row]
            part.seen_at[row] = raw
            if part.moves(seen if was else None, raw if ok else None):
                moved = True
            elif ok:
                total += part.of(raw)
        if ok:
            for _, raw_at, weight in self.plain:
                total += raw_at[row] * weight
        self._total_at[row] = total if ok else NOWHERE
        return moved

    def _combine(self, rows: AnyRows) -> bool:
        """Add up many rows; tell whether the ends of a scaled score may have moved."""
        ok = self._nodes.alive[rows].copy()
        for verdicts in self._verdicts:
            ok &= verdicts[rows] == 0
        if self._allowed is not None:
            ok &= self._allowed[rows]
        self.count += int(np.count_nonzero(ok)) - int(np.count_nonzero(self.ok[rows]))
        self.ok[rows] = ok
        moved = False
        for part in self.scaled:
            raw = part.raw[rows]
            part.seen[rows] = raw
            level = part.flat and part.low == raw.min(initial=part.low) == raw.max(initial=part.low)
            moved |= isinstance(rows, slice) or not level
        if not moved:
            self._sum(rows)
        return moved

    def _measure(self, rows: slice) -> None:
        for part in self.scaled:
            part.measure(self.ok[rows])
        self._sum(rows)

    def _sum(self, rows: AnyRows) -> None:
        """Write the totals of rows whose feasibility and ends are known."""
        total: Any = 0.0
        for raw, _, weight in self.plain:
            total = total + (raw[rows] if weight == 1.0 else raw[rows] * weight)
        for part in self.scaled:
            if part.flat:
                total = total + part.constant
            else:
                raw = part.raw[rows]
                total = total + part.weight * part.scale(part.state, raw, part.low, part.high)
        self.total[rows] = np.where(self.ok[rows], total, NOWHERE)
