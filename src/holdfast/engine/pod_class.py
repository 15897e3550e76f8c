"""The combined results of all plugins for one class of pods: feasible rows and their totals.

Only changed rows are computed again. After a placement that is one row, in plain numbers instead of
arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.columns.journal import StaleRows
from holdfast.columns.node_table import NodeTable
from holdfast.engine.cached_scores import (
    INFEASIBLE,
    BestRows,
    DominantScore,
    NormalizedScore,
    best_of,
)
from holdfast.engine.nominated_pods import NominatedPodFilter
from holdfast.engine.plugin_results import NodeFilterMask, PreFilterOutcome, RowResults, differences
from holdfast.engine.profile import Profile
from holdfast.engine.rejections import FirstRejections
from holdfast.engine.scoring import HIGHEST_SCORE
from holdfast.framework.plugin import AnyRows, Rows, Verdicts


@dataclass(slots=True)
class RemainingRows:
    """The feasible rows that remain after uncached filters, for one list of their verdicts."""

    verdicts: list[Verdicts]
    mask: NDArray[np.bool_]
    _rows: Rows | None = None

    @property
    def rows(self) -> Rows:
        """The rows, ascending; a shared array, do not modify it."""
        if self._rows is None:
            self._rows = self.mask.nonzero()[0]
        return self._rows


class PodClass:
    """The cached evaluation of a class of pods: feasible rows and their total scores.

    ``pre_filter_passed``: no ``pre_filter`` rejected the pods, and at most one restricts the rows.
    ``feasible_mask`` has the rows that pass every cached filter; ``totals`` their weighted sums,
    and ``INFEASIBLE`` elsewhere. Scores in ``uncached_scores`` are computed for every pod. A
    ``dominant_score`` is cached too, but not part of the totals.

    Invariants after ``refresh``, until the node table changes; ``faults`` computes all of it again:

    - ``feasible_mask`` has exactly the nodes that pass every cached filter and are in all rows that
      PreFilter allows; ``count``, ``rows()`` and ``remaining_after`` follow from it.
    - The total of a feasible row is the sum of its ``plain_scores`` and ``normalized_scores``.
    - ``has_totals``: no plugin has tiers, and every cached score is plain or normalized by range.
      ``totals_complete``: moreover there are no uncached scores, so ``best_rows`` are the best.
    - ``_constant_scores``: every normalized score is uniform and depends on nodes only, so together
      they are ``_constant`` for each feasible row until a node changes, or another row becomes
      feasible.
    - ``uniform``: every normalized score is the same for all feasible rows, so the totals are also
      right for a subset of the rows. Otherwise scores must be normalized over that subset.
    - ``single_row_changes`` tells only whether caching the best rows is worthwhile.

    ``tiered`` is the plugin that lists the rows of each tier, if the best tier alone can be
    evaluated: ``tier_classes`` restrict the class to the rows of a tier. In such a class the
    verdicts of that plugin are those of its rows, and its score is the same for all of them.
    """

    def __init__(
        self,
        profile: Profile,
        nodes: NodeTable,
        outcomes: list[PreFilterOutcome],
        rejected: PreFilterOutcome | None,
        node_mask: NodeFilterMask,
        *,
        in_tier: bool = False,
    ) -> None:
        self.outcomes = outcomes
        self.rejected = rejected
        self.stamp = nodes.epochs.stamp
        self._nodes = nodes
        self._journal, self._node_journal = nodes.journal, nodes.node_journal
        self._profile, self._node_mask = profile, node_mask
        self._sort_outcomes(profile, in_tier=in_tier)
        self.pre_filter_passed = rejected is None and len(self.restricting) < 2
        self.totals_complete = self.has_totals and all(p.tiers for p in self.uncached_scores)
        self.known_tiers: dict[int, PodClass] = {}
        """The class restricted to a tier, by the id of the array of rows, which it holds."""
        self.feasible_mask: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.totals: NDArray[np.float64] = np.empty(nodes.capacity)
        self.totals[nodes.size :] = INFEASIBLE
        self.best = BestRows(nodes.capacity)
        self.single_row_changes = False
        """Whether the last change was of a single row: then caching the best rows is worthwhile."""
        self.count = 0
        self._rows: Rows | None = None
        self._remaining: RemainingRows | None = None
        self._first_rejections: FirstRejections | None = None
        self.nominated_filter: NominatedPodFilter | None = None
        """Created when pods are nominated to nodes."""
        self.leading_nominated_filter: NominatedPodFilter | None = None
        """The same with only the cached filters before the first uncached one."""
        self._node_mask_at = node_mask.at
        self._feasible_at, self._total_at = cells(self.feasible_mask), cells(self.totals)
        self._cursor = self._node_cursor = -1

    def _sort_outcomes(self, profile: Profile, *, in_tier: bool) -> None:
        """Group the outcomes by how they are filtered and scored."""
        self.states: dict[str, Any] = {}
        self.per_pod: list[PreFilterOutcome] = []
        self.uncached_filters: list[PreFilterOutcome] = []
        self.accepts_slices = True
        """Whether uncached filters accept slices, and no uncached plugin restricts the rows."""
        self.restricting: list[PreFilterOutcome] = []
        self._node_results: list[RowResults] = []
        self._row_results: list[RowResults] = []
        self._verdicts: list[Verdicts] = []
        self._verdicts_at: list[Cells[int]] = []
        self.plain_scores: list[tuple[NDArray[np.float64], Cells[float], float]] = []
        self.normalized_scores: list[NormalizedScore] = []
        self.dominant_score: DominantScore | None = None
        self.uncached_scores: list[PreFilterOutcome] = []
        self.has_totals = True
        self._constant_scores = True
        """Whether normalized scores add up to ``_constant`` for every feasible row."""
        self._constant = 0.0
        for p in self.outcomes:
            if p.allowed_rows is not None:
                self.restricting.append(p)
            if p.use.per_pod:
                self.per_pod.append(p)
            elif not p.skip and p.reject is None:
                self.states[p.use.name] = p.state
                if p.row_results is not None:
                    self._sort_verdicts(p.row_results, node_scope=p.use.node_scope)
                elif not (p.tiers and in_tier):
                    if p.filters:
                        self.uncached_filters.append(p)
                        self.accepts_slices &= p.use.accepts_slices
                    self.accepts_slices &= p.allowed_rows is None
                if p.scores:
                    self._sort_scores(p, profile.weight(p.use.name))
        self._find_dominant_score()
        self._find_tiers(in_tier=in_tier)

    def _find_tiers(self, *, in_tier: bool) -> None:
        """Find out whether rows must be compared tier by tier, and if the best tier is enough."""
        self.tiered: PreFilterOutcome | None = None
        tiered = [p for p in self.outcomes if p.tiers]
        self.may_have_tiers = bool(tiered) or any(p.use.tiers for p in self.per_pod)
        if tiered and not in_tier:
            first = tiered[0]
            if (
                len(tiered) == 1
                and self.has_totals
                and self.accepts_slices
                and (first.use.has_tier_rows and first.filters and first.row_results is None)
            ):
                self.tiered = first
            self.has_totals = False

    def tier_classes(self) -> Iterator[PodClass]:
        """Return the class restricted to the rows of each tier, the best first; refresh them.

        There are none if the plugin does not list the rows now.
        """
        assert self.tiered is not None
        tiers = self.tiered.plugin.tier_rows(self.tiered.state) or ()
        known = self.known_tiers
        for rows in tiers:
            found = known.get(id(rows))
            if found is None:
                if len(known) >= 2 * len(tiers):
                    known.clear()
                mask = self._node_mask.restricted_to(rows)
                found = known[id(rows)] = PodClass(
                    self._profile, self._nodes, self.outcomes, None, mask, in_tier=True
                )
            yield found

    def _sort_verdicts(self, row_results: RowResults, *, node_scope: bool) -> None:
        if node_scope:
            self._node_results.append(row_results)
            return
        self._row_results.append(row_results)
        if row_results.verdicts is not None:
            assert row_results.verdict_at is not None
            self._verdicts.append(row_results.verdicts)
            self._verdicts_at.append(row_results.verdict_at)

    def _sort_scores(self, p: PreFilterOutcome, weight: int) -> None:
        """Group one score: uncached, normalized by range, plain, or none that totals can have."""
        row_results = p.row_results
        if row_results is None:
            self.uncached_scores.append(p)
        elif p.use.normalizes_itself or p.score_error:
            self.has_totals = False
        elif p.use.normalizes_by_range:
            self._constant_scores = False
            self.normalized_scores.append(
                NormalizedScore(row_results, weight, node_scope=p.use.node_scope)
            )
        else:
            assert row_results.raw is not None
            assert row_results.raw_at is not None
            self.plain_scores.append((row_results.raw, row_results.raw_at, float(weight)))

    def _find_dominant_score(self) -> None:
        """Separate the score that outweighs all others together, if there is one."""
        if not self.normalized_scores:
            return
        first = max(self.normalized_scores, key=lambda part: part.weight)
        rest = [part for part in self.normalized_scores if part is not first]
        others = sum([part.weight for part in rest]) + sum(
            [weight for _, _, weight in self.plain_scores]
        )
        if first.weight > HIGHEST_SCORE * others:
            self.dominant_score = DominantScore(
                first.row_results, first.weight, HIGHEST_SCORE * others
            )
            self.normalized_scores = rest

    def first_rejections(self, uncached: list[Verdicts]) -> FirstRejections | None:
        """Return each row's first rejection, or None if it cannot be cached; call after refresh.

        ``uncached`` are the verdicts of the uncached filters. The result is cached while the
        filters return the same arrays.
        """
        found = self._first_rejections
        if found is None or not all(map(is_, found.uncached, uncached)):
            if self.restricting or len(uncached) != len(self.uncached_filters):
                return None
            found = FirstRejections(self._nodes, self.outcomes, uncached)
            self._first_rejections = found
        found.refresh()
        return found

    @property
    def uniform(self) -> bool:
        """Whether the totals are also right for a subset of the feasible rows."""
        parts = (
            self.normalized_scores
            if self.dominant_score is None
            else (*self.normalized_scores, self.dominant_score)
        )
        return all(part.uniform for part in parts)

    def rows(self) -> Rows:
        """Return the feasible rows, ascending; a shared array, do not modify it."""
        if self._rows is None:
            self._rows = self.feasible_mask[: self._nodes.size].nonzero()[0]
        return self._rows

    def remaining_after(self, verdicts: list[Verdicts]) -> RemainingRows:
        """Return the feasible rows that also pass these verdicts of uncached filters.

        The result is cached while the filters return the same arrays.
        """
        remaining, size = self._remaining, self._nodes.size
        if (
            remaining is None
            or len(remaining.mask) != size
            or not all(map(is_, remaining.verdicts, verdicts))
        ):
            mask = self.feasible_mask[:size]
            for of_filter in verdicts:
                mask = mask & (of_filter == 0)
            remaining = self._remaining = RemainingRows(verdicts, mask)
        return remaining

    def best_rows(self) -> Sequence[int] | Rows:
        """Return the feasible rows with the highest total."""
        if self.dominant_score is not None:
            return self.dominant_score.best_rows(self.totals[: self._nodes.size])
        if self.best.best_total is None:
            total = self.totals[: self._nodes.size]
            if not self.single_row_changes:
                return best_of(total)
            self.best.find(total)
        return self.best.rows

    def faults(self) -> Iterator[str]:
        """Compute everything again and describe what differs; nothing if it is out of date."""
        if (self._cursor, self._node_cursor) != (self._journal.seq, self._node_journal.seq):
            return
        size = self._nodes.size
        ok = self.feasible_mask[:size]
        for row_results in (*self._node_results, *self._row_results):
            yield from row_results.faults()
        yield from self._node_mask.faults()
        passed = self._node_mask.mask[:size]
        for verdicts in self._verdicts:
            passed = passed & (verdicts[:size] == 0)
        yield from differences("cached feasible rows", ok, passed)
        if self.count != np.count_nonzero(ok):
            yield f"cached number of feasible rows is {self.count}, not {np.count_nonzero(ok)}"
        if self._rows is not None and not np.array_equal(self._rows, ok.nonzero()[0]):
            yield "cached list of feasible rows differs from their mask"
        if self._remaining is not None:
            passed = ok & np.all([verdicts == 0 for verdicts in self._remaining.verdicts], axis=0)
            yield from differences(
                "cached rows that pass uncached filters", self._remaining.mask, passed
            )
        yield from self._score_faults(ok)
        if self._first_rejections is not None:
            yield from self._first_rejections.faults()
        for nominated_filter in (self.nominated_filter, self.leading_nominated_filter):
            if nominated_filter is not None:
                yield from nominated_filter.faults()

    def _score_faults(self, ok: NDArray[np.bool_]) -> Iterator[str]:
        total, expected = self.totals[: len(ok)], np.zeros(len(ok))
        for part in self.normalized_scores:
            yield from part.faults(ok)
            expected += part.scores_of(slice(0, len(ok)))
        for raw, _, weight in self.plain_scores:
            expected += raw[: len(ok)] * weight
        yield from differences("cached totals", total, np.where(ok, expected, INFEASIBLE))
        yield from self.best.faults(total)
        constant = sum([part.constant for part in self.normalized_scores], 0.0)
        uniform = all([part.uniform and part.node_scope for part in self.normalized_scores])
        if self._constant_scores and not (uniform and self._constant == constant):
            yield f"cached sum of normalized scores {self._constant} is not that of every row"
        if self.dominant_score is not None and ok.any():
            yield from self.dominant_score.faults(ok)
            best = best_of(
                np.where(ok, total + self.dominant_score.scores_of(slice(0, len(ok))), INFEASIBLE)
            )
            if sorted(self.dominant_score.best_rows(total)) != best.tolist():
                yield "cached best rows of the dominant score do not have the highest total"

    def refresh(self) -> None:
        """Update row results and totals for the rows that changed in the node table."""
        seq, cursor = self._journal.seq, self._cursor
        if cursor == seq:
            return
        row = self._journal.only_row_since(cursor) if cursor >= 0 else -1
        if row >= 0 and self._node_cursor == self._node_journal.seq:
            self._cursor = seq
            self.single_row_changes = True
            for row_results in self._row_results:
                row_results.refresh_row(row, cursor, seq)
            if self._update_row(row, self._constant_scores):
                self._find_ranges()
            if self.dominant_score is not None:
                self.dominant_score.refresh_row(row, feasible=self._feasible_at[row])
            return
        self._refresh_many()

    def _refresh_many(self) -> None:
        constant = self._constant_scores and self._node_cursor == self._node_journal.seq
        for row_results in (
            self._row_results if constant else (*self._node_results, *self._row_results)
        ):
            row_results.refresh()
        size = self._nodes.size
        stale: StaleRows = slice(0, size)
        if self._cursor >= 0:
            stale = self._journal.stale(self._cursor, size)
        self._node_mask.refresh()
        self._cursor, self._node_cursor = self._journal.seq, self._node_journal.seq
        range_changed = False
        if isinstance(stale, list):
            for row in stale:
                range_changed |= self._update_row(row, constant)
        else:
            range_changed = self._update_rows(stale, constant)
        if range_changed:
            self._find_ranges()
        if self.dominant_score is not None:
            self.dominant_score.find_range(self.feasible_mask[:size])

    def _update_row(self, row: int, constant: bool) -> bool:
        """Compute one row; return whether the range of a normalized score may have changed."""
        was = self._feasible_at[row]
        ok = self._node_mask_at[row]
        if ok:
            for verdicts in self._verdicts_at:
                if verdicts[row]:
                    ok = False
                    break
        total, moved = self._constant, False
        if ok is not was:
            self._feasible_at[row] = ok
            self.count += 1 if ok else -1
            self._rows = self._remaining = None
            constant = False
        if not constant:
            total, moved = self._normalized_at(row, was, ok)
        if ok:
            for _, raw_at, weight in self.plain_scores:
                total += raw_at[row] * weight
        else:
            total = INFEASIBLE
        self.best.change(row, self._total_at[row], total)
        self._total_at[row] = total
        return moved

    def _normalized_at(self, row: int, was: bool, ok: bool) -> tuple[float, bool]:
        """Return the sum of a row's normalized scores, and whether a range may have changed."""
        total, moved = 0.0, False
        for part in self.normalized_scores:
            if part.may_move_range(row, was=was, ok=ok):
                moved = True
            elif ok:
                total += part.score_at(row)
        return total, moved

    def _update_rows(self, rows: AnyRows, constant: bool) -> bool:
        """Compute many rows; return whether the range of a normalized score may have changed."""
        self.best.clear()
        self.single_row_changes = False
        ok: NDArray[np.bool_] = self._node_mask.mask[rows]
        for verdicts in self._verdicts:
            ok = ok & (verdicts[rows] == 0)
        was = self.feasible_mask[rows]
        if np.count_nonzero(ok != was):
            self.count += int(np.count_nonzero(ok)) - int(np.count_nonzero(was))
            self.feasible_mask[rows] = ok
            self._rows = self._remaining = None
            constant = False
        if not constant and any(part.many_may_move_range(rows) for part in self.normalized_scores):
            return True
        self._write_totals(rows, ok)
        return False

    def _find_ranges(self) -> None:
        rows = slice(0, self._nodes.size)
        ok = self.feasible_mask[rows]
        for part in self.normalized_scores:
            part.find_range(ok)
        self._constant_scores = all(
            [part.uniform and part.node_scope for part in self.normalized_scores]
        )
        self._constant = sum(
            [part.constant for part in self.normalized_scores if part.uniform], 0.0
        )
        self.best.clear()
        self._write_totals(rows, ok)

    def _write_totals(self, rows: AnyRows, ok: NDArray[np.bool_]) -> None:
        """Write the totals of rows whose feasibility and score ranges are up to date."""
        total: Any = self._constant
        for raw, _, weight in self.plain_scores:
            part = raw[rows]
            total = total + (part if weight == 1.0 else part * weight)
        if not self._constant_scores:
            for scaled in self.normalized_scores:
                if not scaled.uniform:
                    total = total + scaled.scores_of(rows)
        if np.count_nonzero(ok) < len(ok):
            total = np.where(ok, total, INFEASIBLE)
        self.totals[rows] = total
