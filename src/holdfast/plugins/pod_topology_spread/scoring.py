"""Soft constraints: the fewer matching pods a node's domains have, the better."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_labels import Ids, LabelColumn
from holdfast.columns.picture import Picture
from holdfast.columns.unseen import AnyCount, AnyDomains
from holdfast.framework.plugin import AnyRows, RawScores
from holdfast.plugins.pod_topology_spread.constraints import Constraint

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Wish:
    """A soft constraint with what it counts: a hostname per row, anything else per domain."""

    constraint: Constraint
    label: LabelColumn
    domains: AnyDomains | None
    counter: AnyCount

    def parts(self, rows: AnyRows, weight: float, *, everywhere: bool) -> RawScores:
        """What this constraint adds to each row; nothing without the label.

        ``everywhere``: every row has the label.
        """
        more = float(self.constraint.max_skew - 1)
        if self.domains is None:
            found: RawScores = self.counter.live[rows] * np.float64(weight)
            found += more
            return found if everywhere else found * (self.label.ids[rows] >= 0)
        self.domains.refresh()
        table = self.domains.padded * weight
        table += more
        table[-1] = 0.0
        return self.label.read(table, rows)


@dataclass(slots=True)
class Wishes:
    """All soft constraints of a class of pods.

    ``weights`` depend on which rows are feasible and are measured anew before each scoring.
    """

    nodes: Picture
    wishes: tuple[Wish, ...]
    lenient: bool
    weights: tuple[float, ...] | None = field(default=None, compare=False)
    _measured: tuple[int, AnyRows] = field(default=(-1, slice(0, 0)), compare=False)
    _looked: tuple[int, bool] = field(default=(-1, True), compare=False)

    def measure(self, feasible: AnyRows) -> None:
        """Weigh each constraint by how many domains the feasible rows are in."""
        # The same rows as before, or again all of them, and no node changed: the same domains.
        seq, (measured, rows) = self.nodes.node_journal.seq, self._measured
        all_again = isinstance(feasible, slice) and isinstance(rows, slice)
        if measured == seq and (all_again or feasible is rows):
            return
        self._measured = (seq, feasible)
        self.weights = self._weigh(self.nodes.rows if isinstance(feasible, slice) else feasible)

    def _weigh(self, rows: Any) -> tuple[float, ...]:
        lacking = self.lacking(rows)
        if lacking is not None:
            rows = rows[~lacking]
        return tuple(
            math.log((len(rows) if w.domains is None else _distinct(w.label.ids[rows])) + 2)
            for w in self.wishes
        )

    def lacking(self, rows: AnyRows) -> NDArray[np.bool_] | None:
        """Rows that are set aside because they lack a key, or None if there is none."""
        if self.lenient or not self._some_lack():
            return None
        missing: Any = False
        for wish in self.wishes:
            missing = missing | (wish.label.ids[rows] < 0)
        return missing if np.any(missing) else None

    def _some_lack(self) -> bool:
        """Tell whether any row lacks a key, looked up once until a node changes."""
        seq, size = self.nodes.node_journal.seq, self.nodes.size
        if self._looked[0] != seq:
            some = any(bool((wish.label.ids[:size] < 0).any()) for wish in self.wishes)
            self._looked = (seq, some)
        return self._looked[1]

    def score(self, rows: AnyRows) -> RawScores:
        """Weighted counts, rounded half up; 0 for rows that are set aside."""
        weights = self.weights or self._weigh(self.nodes.rows)
        everywhere = not self._some_lack()
        parts = [
            wish.parts(rows, weight, everywhere=everywhere)
            for wish, weight in zip(self.wishes, weights, strict=True)
        ]
        total = parts[0] + parts[1] if len(parts) > 1 else parts[0].copy()
        for part in parts[2:]:
            total += part
        total += 0.5
        np.floor(total, out=total)
        lacking = self.lacking(rows)
        if lacking is not None:
            total[lacking] = 0.0
        return total

    def normalize(self, rows: AnyRows, raw: RawScores) -> RawScores:
        """Turn it round: the least gets the most; rows set aside get nothing."""
        lacking = self.lacking(rows)
        counted = raw if lacking is None else raw[~lacking]
        if not len(counted):
            return np.zeros(len(raw))
        low, high = float(counted.min()), float(counted.max())
        if high == 0:
            final = np.full(len(raw), 100.0)
        else:
            # Whole numbers far below 2**53: flooring the quotient is whole-number division.
            final = raw * -100.0
            final += 100.0 * (high + low)
            final /= high
            np.floor(final, out=final)
        if lacking is not None:
            final[lacking] = 0.0
        return final


def _distinct(ids: Ids) -> int:
    """How many values there are; having none is a value too."""
    return int(np.count_nonzero(np.bincount(ids + 1)))
