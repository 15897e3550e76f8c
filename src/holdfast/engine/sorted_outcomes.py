"""The plugins of a class of pods by how they take part: cached or not, plain or normalized."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells
from holdfast.engine.cached_scores import DominantScore, NormalizedScore
from holdfast.engine.plugin_results import PreFilterOutcome, RowResults
from holdfast.engine.profile import Profile
from holdfast.engine.scoring import HIGHEST_SCORE
from holdfast.framework.plan import PodPlan
from holdfast.framework.plugin import Verdicts


class SortedOutcomes:
    """The PreFilter outcomes of all plugins, grouped by how rows are filtered and scored.

    ``in_tier``: all rows are of one tier, so a plugin with tiers neither filters nor ranks them.
    """

    def __init__(
        self, profile: Profile, outcomes: list[PreFilterOutcome], *, in_tier: bool
    ) -> None:
        self.outcomes = outcomes
        self.plans: dict[str, PodPlan] = {}
        self.per_pod_places: list[tuple[int, PreFilterOutcome]] = []
        """The plugins that are called for every pod, with their places in ``outcomes``."""
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
        self.last_cached_filter = -1
        """The place of the last cached filter among all filters."""
        self.has_totals = True
        self._constant_scores = True
        """Whether normalized scores add up to ``_constant`` for every feasible row."""
        self._constant = 0.0
        for place, p in enumerate(self.outcomes):
            if p.allowed_rows is not None:
                self.restricting.append(p)
            if p.use.per_pod:
                self.per_pod_places.append((place, p))
            elif not p.skip and p.reject is None:
                self.plans[p.use.name] = p.plan
                if p.row_results is not None:
                    self._sort_verdicts(p.row_results, node_scope=p.use.node_scope)
                    if p.filters:
                        order = p.use.filter_order
                        self.last_cached_filter = max(self.last_cached_filter, order)
                elif not (p.tiers and in_tier):
                    if p.filters:
                        self.uncached_filters.append(p)
                        self.accepts_slices &= p.use.accepts_slices
                    self.accepts_slices &= p.allowed_rows is None
                if p.scores:
                    self._sort_scores(p, profile.weight(p.use.name))
        self._find_dominant_score()
        self._find_tiers(in_tier=in_tier)

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
        elif p.methods.normalizes_itself or p.plan.score_error:
            self.has_totals = False
        elif p.methods.normalizes_by_range:
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

    def _find_tiers(self, *, in_tier: bool) -> None:
        """Find out whether rows must be compared tier by tier, and if the best tier is enough."""
        self.tiered: PreFilterOutcome | None = None
        tiered = [p for p in self.outcomes if p.tiers]
        self.may_have_tiers = bool(tiered) or any(
            p.use.may_have_tiers for _, p in self.per_pod_places
        )
        if tiered and not in_tier:
            first = tiered[0]
            if (
                len(tiered) == 1
                and self.has_totals
                and self.accepts_slices
                and (first.methods.has_tier_rows and first.filters and first.row_results is None)
            ):
                self.tiered = first
            self.has_totals = False
