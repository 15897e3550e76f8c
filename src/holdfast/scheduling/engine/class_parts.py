"""Group the plugins of a class of pods: whose results are kept, and how their scores add up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.cached_scores import DominantScore, NormalizedScore
from holdfast.scheduling.engine.plugin_results import PreFilterOutcome, RowResults
from holdfast.scheduling.engine.plugin_use import CacheLevel, PluginUse
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.scoring import HIGHEST_SCORE
from holdfast.scheduling.framework.plan import PodPlan
from holdfast.state.columns.cells import Cells

_NOTHING = CacheLevel.NOTHING


class ClassParts:
    """The PreFilter outcomes of a class, grouped by how rows are filtered and scored.

    ``in_tier``: all rows are of one tier, so a plugin with tiers neither filters nor ranks them.
    """

    def __init__(
        self, profile: Profile, outcomes: list[PreFilterOutcome], *, in_tier: bool
    ) -> None:
        self.plans: dict[str, PodPlan] = {}
        """The plans that are kept, by plugin."""
        self.asked_per_pod: list[tuple[int, PluginUse]] = []
        """The plugins that are called for every pod, with their places in the outcomes."""
        self.filters_per_pod: list[PreFilterOutcome] = []
        """Kept plans whose ``filter`` is called for every pod."""
        self.scores_per_pod: list[PreFilterOutcome] = []
        """The same for ``score``."""
        self.accepts_slices = True
        """Whether all of ``filters_per_pod`` accept slices, and none of them restricts the rows."""
        self.restricting: list[PreFilterOutcome] = []
        """The outcomes that allow some rows only."""
        self.node_results: list[RowResults] = []
        """Results of rows that change only when nodes do."""
        self.row_results: list[RowResults] = []
        """Results of rows that change when pods do, too."""
        self.plain_scores: list[tuple[NDArray[np.float64], Cells[float], float]] = []
        """Raw scores that need no normalizing, by row, and their weights."""
        self.normalized_scores: list[NormalizedScore] = []
        self.dominant_score: DominantScore | None = None
        self.last_kept_filter = -1
        """The place of the last filter with kept results among all filters."""
        self.has_totals = True
        """Whether kept scores add up to a total: no plugin has tiers, and every kept score is plain
        or normalized by range."""
        for place, p in enumerate(outcomes):
            if p.allowed_rows is not None:
                self.restricting.append(p)
            if p.level is _NOTHING:
                self.asked_per_pod.append((place, p.use))
            elif not p.skip and p.reject is None:
                self.plans[p.use.name] = p.plan
                self._sort_filter(p, in_tier=in_tier)
                if p.scores:
                    self._sort_score(p, profile.weight(p.use.name))
        self._find_dominant_score()
        self._find_tiers(outcomes, in_tier=in_tier)

    def _sort_filter(self, p: PreFilterOutcome, *, in_tier: bool) -> None:
        if p.row_results is not None:
            of_nodes = p.use.node_scope
            (self.node_results if of_nodes else self.row_results).append(p.row_results)
            if p.filters:
                self.last_kept_filter = max(self.last_kept_filter, p.use.filter_order)
        elif not (p.tiers and in_tier):
            if p.filters:
                self.filters_per_pod.append(p)
                self.accepts_slices &= p.use.accepts_slices
            self.accepts_slices &= p.allowed_rows is None

    def _sort_score(self, p: PreFilterOutcome, weight: int) -> None:
        """Group one score: per pod, normalized by range, plain, or not possible in totals."""
        row_results = p.row_results
        if row_results is None:
            self.scores_per_pod.append(p)
        elif p.methods.normalizes_itself or p.plan.score_error:
            self.has_totals = False
        elif p.methods.normalizes_by_range:
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

    def _find_tiers(self, outcomes: list[PreFilterOutcome], *, in_tier: bool) -> None:
        """Find out whether rows must be compared tier by tier, and if the best tier is enough."""
        self.tiered: PreFilterOutcome | None = None
        tiered = [p for p in outcomes if p.tiers]
        self.may_have_tiers = bool(tiered) or any(
            [use.may_have_tiers for _, use in self.asked_per_pod]
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
