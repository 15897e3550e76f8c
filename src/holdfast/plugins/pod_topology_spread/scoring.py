"""Soft constraints: the fewer matching pods a node's domains have, the better."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.counters import SelectorCount
from holdfast.columns.node_labels import Ids, LabelColumn
from holdfast.columns.node_table import NodeTable
from holdfast.columns.row_buckets import BUCKETS_PER_VALUE
from holdfast.columns.unseen import AnyCount, AnyDomains
from holdfast.framework.plugin import AnyRows, RawScores, Rows
from holdfast.plugins.pod_topology_spread.constraints import Constraint

HOSTNAME = "kubernetes.io/hostname"
_PODS = np.arange(BUCKETS_PER_VALUE, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class SoftConstraint:
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
        return self.label.read(self.table(weight), rows)

    def table(self, weight: float) -> RawScores:
        """What this constraint, not of hostnames, adds to rows by value; last for rows without."""
        assert self.domains is not None
        self.domains.refresh()
        table: RawScores = self.domains.padded * weight
        table += float(self.constraint.max_skew - 1)
        table[-1] = 0.0
        return table


@dataclass(slots=True)
class SoftConstraints:
    """All soft constraints of a class of pods.

    ``weights`` depend on which rows are feasible and are measured anew before each scoring.
    """

    nodes: NodeTable
    constraints: tuple[SoftConstraint, ...]
    system_defaulted: bool
    weights: tuple[float, ...] | None = field(default=None, compare=False)
    _measured: tuple[int, AnyRows] = field(default=(-1, slice(0, 0)), compare=False)
    _looked: tuple[int, tuple[bool, ...]] = field(default=(-1, ()), compare=False)
    _pair: tuple[int, int] | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self._pair = _host_and_other(self.constraints)

    def update_weights(self, feasible: AnyRows) -> None:
        """Weigh each constraint by how many domains the feasible rows are in."""
        # The same rows as before, or again all of them, and no node changed: the same domains.
        seq, (measured, rows) = self.nodes.node_journal.seq, self._measured
        all_again = isinstance(feasible, slice) and isinstance(rows, slice)
        if measured == seq and (all_again or feasible is rows):
            return
        self._measured = (seq, feasible)
        self.weights = self._weigh(self.nodes.rows if isinstance(feasible, slice) else feasible)

    def _weigh(self, rows: Any) -> tuple[float, ...]:
        ignored_rows = self.ignored_rows(rows)
        if ignored_rows is not None:
            rows = rows[~ignored_rows]
        return tuple(
            math.log((len(rows) if w.domains is None else _distinct(w.label.ids[rows])) + 2)
            for w in self.constraints
        )

    def ignored_rows(self, rows: AnyRows) -> NDArray[np.bool_] | None:
        """Rows that are set aside because they lack a key, or None if there is none."""
        if self.system_defaulted or not any(self._missing()):
            return None
        missing: Any = False
        for wish in self.constraints:
            missing = missing | (wish.label.ids[rows] < 0)
        return missing if np.any(missing) else None

    def _missing(self) -> tuple[bool, ...]:
        """Tell of each key whether any node lacks it, looked up once until a node changes."""
        seq = self.nodes.node_journal.seq
        if self._looked[0] != seq:
            rows = self.nodes.rows
            missing = tuple(bool((wish.label.ids[rows] < 0).any()) for wish in self.constraints)
            self._looked = (seq, missing)
        return self._looked[1]

    def score(self, rows: AnyRows) -> RawScores:
        """Weighted counts, rounded half up; 0 for rows that are set aside."""
        weights = self.weights or self._weigh(self.nodes.rows)
        parts = [
            wish.parts(rows, weight, everywhere=not missing)
            for wish, weight, missing in zip(
                self.constraints, weights, self._missing(), strict=True
            )
        ]
        total = parts[0] + parts[1] if len(parts) > 1 else parts[0].copy()
        for part in parts[2:]:
            total += part
        total += 0.5
        np.floor(total, out=total)
        ignored_rows = self.ignored_rows(rows)
        if ignored_rows is not None:
            total[ignored_rows] = 0.0
        return total

    def score_table(self, rows: AnyRows) -> tuple[Rows, RawScores] | None:
        """The level of each row and the normalized score of each level, if levels tell it all.

        They do for a spread over hosts and one other key, unless rows are set aside.
        """
        if self._pair is None or self.weights is None:
            return None
        here, there = self._pair
        missing = self._missing()
        if missing[here] or (missing[there] and not self.system_defaulted):
            return None
        host, other = self.constraints[here], self.constraints[there]
        assert isinstance(host.counter, SelectorCount)
        buckets = host.counter.buckets(other.label, self.nodes.node_journal)
        if not buckets.refresh(self.nodes.size):
            return None
        on_host = _PODS * self.weights[here]
        on_host += float(host.constraint.max_skew - 1)
        raw: RawScores = np.add.outer(other.table(self.weights[there]), on_host).ravel()
        raw += 0.5
        np.floor(raw, out=raw)
        places, rows_at = buckets.of[rows], buckets.rows_at
        if not isinstance(rows, slice):
            rows_at = np.bincount(places, minlength=len(raw))
        return places, _turned_round(raw, raw.compress(rows_at > 0))

    def normalize_score(self, rows: AnyRows, raw: RawScores) -> RawScores:
        """Turn it round: the least gets the most; rows set aside get nothing."""
        ignored_rows = self.ignored_rows(rows)
        counted = raw if ignored_rows is None else raw[~ignored_rows]
        if not len(counted):
            return np.zeros(len(raw))
        final = _turned_round(raw, counted)
        if ignored_rows is not None:
            final[ignored_rows] = 0.0
        return final


def _host_and_other(constraints: tuple[SoftConstraint, ...]) -> tuple[int, int] | None:
    """Which of two wishes is about hostnames and which is not; None if it is not like that."""
    hosts = [i for i, wish in enumerate(constraints) if wish.domains is None]
    if len(constraints) != 2 or len(hosts) != 1:
        return None
    here = hosts[0]
    return (here, 1 - here) if isinstance(constraints[here].counter, SelectorCount) else None


def _turned_round(raw: RawScores, counted: RawScores) -> RawScores:
    """Normalize by the ends of what counts: the least gets the most."""
    low, high = float(counted.min()), float(counted.max())
    if high == 0:
        return np.full(len(raw), 100.0)
    # Whole numbers far below 2**53: flooring the quotient is whole-number division.
    final: RawScores = raw * -100.0
    final += 100.0 * (high + low)
    final /= high
    return np.floor(final, out=final)


def _distinct(ids: Ids) -> int:
    """How many values there are; having none is a value too."""
    return int(np.count_nonzero(np.bincount(ids + 1)))
