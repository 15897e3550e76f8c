"""The combined results of all plugins for one class of pods: feasible rows and their totals.

Only changed rows are computed again. A placement changes one row, and one row costs 66 µs with
arrays and 1.4 in plain numbers (docs/caching.md). So everything is computed in two ways that must
agree: ``_update_row`` for up to 16 changed rows (``FEW_ROWS``), ``_update_rows`` for more. Both
write to the same memory: ``cells`` of an array are a view of it. ``faults`` computes all of it
again, under ``--check-invariants``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.cached_scores import INFEASIBLE, BestRows, best_of
from holdfast.scheduling.engine.class_parts import ClassParts
from holdfast.scheduling.engine.nominated_pods import NominatedPodFilter
from holdfast.scheduling.engine.plugin_results import (
    NodeFilterMask,
    PreFilterOutcome,
    active_filters,
    differences,
    in_filter_order,
)
from holdfast.scheduling.engine.profile import Profile, ReserversByPoint
from holdfast.scheduling.engine.rejections import FirstRejections
from holdfast.scheduling.framework.plugin import AnyRows, Rows, Verdicts
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.cells import cells
from holdfast.state.columns.journal import StaleRows
from holdfast.state.columns.node_table import NodeTable


@dataclass(slots=True)
class RemainingRows:
    """The feasible rows that remain after filters per pod, for one list of their verdicts.

    A required pod affinity returns the same array of verdicts for consecutive pods
    (``LabelColumn.read_verdicts``): then neither mask nor rows are computed again.
    """

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
    ``feasible_mask`` has the rows that pass every filter whose results are kept; ``totals`` their
    weighted sums, and ``INFEASIBLE`` elsewhere. ``parts`` are the plugins by how they take part:
    some filters and scores are called for every pod. A dominant score is kept, too, but not part of
    the totals.

    Invariants after ``refresh``, until the node table changes; ``faults`` computes all of it again:

    - ``feasible_mask`` has exactly the nodes that pass every kept filter and are in all rows that
      PreFilter allows; ``count``, ``rows()`` and ``remaining_after`` follow from it.
    - The total of a feasible row is the sum of its plain and normalized scores. If ``parts`` has
      totals, no other score is kept. ``totals_complete``: moreover no score is computed for every
      pod, except one that is the same for all rows of a tier, so ``best_rows`` are the best.
    - ``_constant_scores``: every normalized score is uniform and depends on nodes only, so together
      they are ``_constant`` for each feasible row until a node changes, or another row becomes
      feasible. That is usual: TaintToleration's score is the same for all nodes while none has a
      PreferNoSchedule taint. Then a changed row costs no call for these scores.
    - ``uniform``: every normalized score is the same for all feasible rows, so the totals are also
      right for a subset of the rows. Otherwise scores must be normalized over that subset.
    - ``single_row_changes`` tells only whether caching the best rows is worthwhile.

    ``parts.tiered`` is the plugin that lists the rows of each tier, if the best tier alone can be
    evaluated: ``tier_classes`` restrict the class to the rows of a tier. In such a class the
    verdicts of that plugin are those of its rows, and its score is the same for all of them, so the
    restricted class has totals. A class of all tiers has none: every row would be filtered, ranked
    and scored for each pod. That made 1,300 decisions a second for pods of a resource policy, where
    the restricted class makes 20,000 (docs/performance.md).
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
        self.parts = parts = ClassParts(profile, outcomes, in_tier=in_tier)
        self.outcomes = outcomes
        self.plans = parts.plans
        self._reservers: ReserversByPoint | None = None
        self.rejected = rejected
        self.prepared_at = -1
        """The epoch stamp at which no plugin had anything to prepare for the pods."""
        self.stamp = nodes.epochs.stamp
        self._nodes = nodes
        self._journal, self._node_journal = nodes.journal, nodes.node_journal
        self._profile, self._node_mask = profile, node_mask
        self._row_results = parts.row_results
        self._verdicts = [r.verdicts for r in parts.row_results if r.verdicts is not None]
        self._verdicts_at = [r.verdict_at for r in parts.row_results if r.verdict_at is not None]
        self._plain_scores, self._normalized = parts.plain_scores, parts.normalized_scores
        self._dominant = parts.dominant_score
        self._constant_scores = not self._normalized
        self._constant = 0.0
        self.pre_filter_passed = rejected is None and len(parts.restricting) < 2
        self.totals_complete = parts.has_totals and all(p.tiers for p in parts.scores_per_pod)
        self.known_tiers: dict[int, PodClass] = {}
        """The class restricted to a tier, by the id of the array of rows. The mask of the class
        holds that array, so no other array gets its id."""
        self.feasible_mask: NDArray[np.bool_] = np.zeros(nodes.capacity, np.bool_)
        self.totals: NDArray[np.float64] = np.empty(nodes.capacity)
        self.totals[nodes.size :] = INFEASIBLE
        self.best = BestRows(nodes.capacity)
        self.single_row_changes = False
        """Whether the last change was of a single row: then caching the best rows is worthwhile.
        Where classes take turns, each class is many rows behind, and the best rows would be stored
        for one pod only."""
        self.count = 0
        self._rows: Rows | None = None
        self._remaining: RemainingRows | None = None
        self._first_rejections: FirstRejections | None = None
        self._nominated_filter: NominatedPodFilter | None = None
        self._node_mask_at = node_mask.at
        self._feasible_at, self._total_at = cells(self.feasible_mask), cells(self.totals)
        self._cursor = self._node_cursor = -1
        """Positions in the journals; -1: no row was read yet."""

    def tier_classes(self) -> Iterator[PodClass]:
        """Yield the class restricted to the rows of each tier, the best first; not refreshed yet.

        There are none if the plugin does not list the rows now.
        """
        assert self.parts.tiered is not None
        tiers = self.parts.tiered.plan.tier_rows() or ()
        known = self.known_tiers
        for rows in tiers:
            tier_class = known.get(id(rows))
            if tier_class is None:
                # A changed tier is a new array: the classes of former arrays would pile up.
                if len(known) >= 2 * len(tiers):
                    known.clear()
                mask = self._node_mask.restricted_to(rows)
                tier_class = known[id(rows)] = PodClass(
                    self._profile, self._nodes, self.outcomes, None, mask, in_tier=True
                )
            yield tier_class

    def nominated_filter(self, world: World, priority: int) -> NominatedPodFilter:
        """Return the kept filters with nominated pods, up to the first one called for every pod.

        ``priority`` is the same for all pods of the class.
        """
        if self._nominated_filter is None:
            kept = takewhile(lambda p: p.row_results is not None, in_filter_order(self.outcomes))
            self._nominated_filter = NominatedPodFilter(
                world, priority, active_filters(kept), self.feasible_mask
            )
        return self._nominated_filter

    @property
    def made_nominated_filter(self) -> NominatedPodFilter | None:
        """That filter, or None while ``nominated_filter`` was not called."""
        return self._nominated_filter

    def first_rejections(self, verdicts_per_pod: list[Verdicts]) -> FirstRejections | None:
        """Return each row's first rejection, or None if it cannot be kept; call after refresh.

        ``verdicts_per_pod`` are the verdicts of the filters that are called for every pod. The
        result is kept while these return the same arrays: a pod that hard spread rejects costs 80
        to 95 µs an attempt instead of 235.
        """
        rejections = self._first_rejections
        if rejections is None or not all(map(is_, rejections.verdicts_per_pod, verdicts_per_pod)):
            if self.parts.restricting or len(verdicts_per_pod) != len(self.parts.filters_per_pod):
                return None
            rejections = FirstRejections(self._nodes, self.outcomes, verdicts_per_pod)
            self._first_rejections = rejections
        rejections.refresh()
        return rejections

    @property
    def uniform(self) -> bool:
        """Whether the totals are also right for a subset of the feasible rows."""
        if self._dominant is not None and not self._dominant.uniform:
            return False
        return self._constant_scores or all([part.uniform for part in self._normalized])

    def rows(self) -> Rows:
        """Return the feasible rows, ascending; a shared array, do not modify it."""
        if self._rows is None:
            self._rows = self.feasible_mask[: self._nodes.size].nonzero()[0]
        return self._rows

    def remaining_after(self, verdicts: list[Verdicts]) -> RemainingRows:
        """Return the feasible rows that also pass these verdicts of filters per pod.

        The result is kept while the filters return the same arrays.
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
        if self._dominant is not None:
            return self._dominant.best_rows(self.totals[: self._nodes.size])
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
        for row_results in (*self.parts.node_results, *self._row_results):
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
                "cached rows that pass filters per pod", self._remaining.mask, passed
            )
        yield from self._score_faults(ok)
        if self._first_rejections is not None:
            yield from self._first_rejections.faults()
        if self._nominated_filter is not None:
            yield from self._nominated_filter.faults()

    def _score_faults(self, ok: NDArray[np.bool_]) -> Iterator[str]:
        total, expected = self.totals[: len(ok)], np.zeros(len(ok))
        for part in self._normalized:
            yield from part.faults(ok)
            expected += part.scores_of(slice(0, len(ok)))
        for raw, _, weight in self._plain_scores:
            expected += raw[: len(ok)] * weight
        yield from differences("cached totals", total, np.where(ok, expected, INFEASIBLE))
        yield from self.best.faults(total)
        constant = sum([part.constant for part in self._normalized], 0.0)
        uniform = all([part.uniform and part.node_scope for part in self._normalized])
        if self._constant_scores and not (uniform and self._constant == constant):
            yield f"cached sum of normalized scores {self._constant} is not that of every row"
        if self._dominant is not None and ok.any():
            yield from self._dominant.faults(ok)
            best = best_of(
                np.where(ok, total + self._dominant.scores_of(slice(0, len(ok))), INFEASIBLE)
            )
            if sorted(self._dominant.best_rows(total)) != best.tolist():
                yield "cached best rows of the dominant score do not have the highest total"

    @property
    def reservers(self) -> ReserversByPoint:
        """The plans by their points of Reserver: equal for all pods whose plans these are."""
        if self._reservers is None:
            self._reservers = self._profile.reservers_of(self.plans)
        return self._reservers

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
            if self._dominant is not None:
                self._dominant.refresh_row(row, feasible=self._feasible_at[row])
            return
        self._refresh_many()

    def _refresh_many(self) -> None:
        constant = self._constant_scores and self._node_cursor == self._node_journal.seq
        for row_results in (
            self._row_results if constant else (*self.parts.node_results, *self._row_results)
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
        if self._dominant is not None:
            self._dominant.find_range(self.feasible_mask[:size])

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
            for _, raw_at, weight in self._plain_scores:
                total += raw_at[row] * weight
        else:
            total = INFEASIBLE
        self.best.change(row, self._total_at[row], total)
        self._total_at[row] = total
        return moved

    def _normalized_at(self, row: int, was: bool, ok: bool) -> tuple[float, bool]:
        """Return the sum of a row's normalized scores, and whether a range may have changed."""
        total, moved = 0.0, False
        for part in self._normalized:
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
        if not constant and any(part.many_may_move_range(rows) for part in self._normalized):
            return True
        self._write_totals(rows, ok)
        return False

    def _find_ranges(self) -> None:
        rows = slice(0, self._nodes.size)
        ok = self.feasible_mask[rows]
        for part in self._normalized:
            part.find_range(ok)
        self._constant_scores = all([part.uniform and part.node_scope for part in self._normalized])
        self._constant = sum([part.constant for part in self._normalized if part.uniform], 0.0)
        self.best.clear()
        self._write_totals(rows, ok)

    def _write_totals(self, rows: AnyRows, ok: NDArray[np.bool_]) -> None:
        """Write the totals of rows whose feasibility and score ranges are up to date."""
        total: Any = self._constant
        for raw, _, weight in self._plain_scores:
            part = raw[rows]
            total = total + (part if weight == 1.0 else part * weight)
        if not self._constant_scores:
            for scaled in self._normalized:
                if not scaled.uniform:
                    total = total + scaled.scores_of(rows)
        if np.count_nonzero(ok) < len(ok):
            total = np.where(ok, total, INFEASIBLE)
        self.totals[rows] = total
