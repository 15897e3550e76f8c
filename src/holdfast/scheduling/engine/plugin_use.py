"""Look up what a plugin and its plans have and declare: once, instead of once per pod."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import NamedTuple

from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plan import NodeFilter, NodeScorer, Tiers
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    Plugin,
    PodChange,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Verdicts,
)
from holdfast.scheduling.framework.points import Point, has_point, overrides
from holdfast.state.columns.epochs import Epoch


class CacheLevel(Enum):
    """The results of a plugin that are used again for the next pod with the same ``reads``."""

    ROWS = "rows"
    """Verdicts and raw scores of rows: only changed rows are evaluated (scopes NODE, ROW)."""
    PLAN = "plan"
    """The plan; its ``filter`` and ``score`` are called for every pod (scope DOMAIN)."""
    NOTHING = "nothing"
    """``pre_filter`` is called for every pod (scope CLUSTER)."""


_LEVELS = {
    Scope.NODE: CacheLevel.ROWS,
    Scope.ROW: CacheLevel.ROWS,
    Scope.DOMAIN: CacheLevel.PLAN,
    Scope.CLUSTER: CacheLevel.NOTHING,
}


class CyclePlan(NodeFilter, NodeScorer, Tiers):
    """All methods of a plan that are called in a decision; ``PlanMethods`` tells which it has.

    ``rows`` is a slice only if the plugin has the trait ``accepts_slices``.
    """

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """As NodeFilter."""
        raise NotImplementedError

    def score(self, rows: AnyRows) -> RawScores:
        """As NodeScorer."""
        raise NotImplementedError

    def pre_score(self, feasible: AnyRows) -> Skip | Reject | None:
        """As NodeScorer."""
        raise NotImplementedError

    def normalize_score(self, rows: AnyRows, raw: RawScores) -> RawScores:
        """As NodeScorer."""
        raise NotImplementedError

    def score_table(self, rows: AnyRows) -> tuple[Rows, RawScores] | None:
        """As NodeScorer."""
        raise NotImplementedError


class PlanMethods(NamedTuple):
    """The optional methods of a class of plans: what it does, and how.

    ``normalizes_itself``: scores depend on all feasible rows in a way that only the plan can
    compute.
    """

    filters: bool
    filters_by_row: bool
    groups_reasons: bool
    scores: bool
    scores_by_row: bool
    pre_scores: bool
    normalizes: bool
    normalizes_by_range: bool
    normalizes_itself: bool
    has_score_table: bool
    tiers: bool
    has_tier_rows: bool


@cache
def plan_methods(plan: type) -> PlanMethods:
    """Return what a class of plans does."""
    normalizes = overrides(plan, NodeScorer.normalize_score)
    pre_scores = overrides(plan, NodeScorer.pre_score)
    return PlanMethods(
        filters=issubclass(plan, NodeFilter),
        filters_by_row=overrides(plan, NodeFilter.filter_row),
        groups_reasons=overrides(plan, NodeFilter.reason_groups),
        scores=overrides(plan, NodeScorer.score),
        scores_by_row=overrides(plan, NodeScorer.score_row),
        pre_scores=pre_scores,
        normalizes=normalizes,
        normalizes_by_range=overrides(plan, NodeScorer.normalize_by_range),
        normalizes_itself=normalizes or pre_scores,
        has_score_table=overrides(plan, NodeScorer.score_table),
        tiers=issubclass(plan, Tiers),
        has_tier_rows=overrides(plan, Tiers.tier_rows),
    )


class PluginUse:
    """The extension points at which a profile uses a plugin, and how its results may be cached.

    ``node_scope``: results of rows do not change when pods do. ``filters`` and ``scores``: the
    profile enables these points. ``pre_filter_enabled``: a Reject of ``pre_filter``, and the rows
    it allows, count. ``filter_order`` is the plugin's place among the filters. ``filtered`` and the
    like count the rows that it has evaluated. Without a profile it is enabled everywhere.
    """

    __slots__ = ("accepts_slices", "bounded_scores", "comparable_plans", "epochs", "filter_order",
                 "filtered", "filters", "ignores_requests", "key_outside_spec", "level",
                 "may_have_tiers", "meter", "name", "node_scope", "plugin",
                 "pre_filter_enabled", "pre_filtered", "pre_scored", "result_types", "scored",
                 "scores")  # fmt: skip

    def __init__(self, plugin: Plugin, profile: Profile | None = None) -> None:
        profile = profile or Profile(plugin.name, (plugin,))
        traits, enabled = plugin.traits, profile.enabled_points(plugin)
        self.plugin = plugin
        self.name = plugin.name
        self.epochs: tuple[str, ...] = (Epoch.LAYOUT, *traits.epochs)
        self.pre_filter_enabled = enabled.pre_filters
        self.filter_order = enabled.filter_order
        self.filters = enabled.filters
        self.scores = enabled.scores
        self.may_have_tiers = enabled.scores and any(
            issubclass(plan, Tiers) for plan in plugin.plan_classes
        )
        self.level = _LEVELS[traits.scope]
        self.node_scope = traits.scope is Scope.NODE
        self.accepts_slices = traits.accepts_slices
        self.bounded_scores = traits.bounded_scores
        self.comparable_plans = traits.comparable_plans
        self.ignores_requests = traits.ignores_requests
        self.key_outside_spec = plugin.key_outside_spec if traits.reads_outside_spec else None
        self.result_types = (Skip, Reject, *plugin.plan_classes)
        self.meter = profile.meter
        self.pre_filtered, self.filtered, self.pre_scored, self.scored = (
            profile.meter.counter(plugin.name, point, profile.name)
            if has_point(plugin, point)
            else [0.0]
            for point in (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
        )

    def filter_rows(self, plan: CyclePlan, rows: AnyRows) -> Verdicts:
        """Call ``filter`` of a plan, counted and measured."""
        self.filtered[0] += rows.stop if isinstance(rows, slice) else len(rows)
        if self.meter.on:
            return self.meter.measure(self.name, Point.FILTER, plan.filter, rows)
        return plan.filter(rows)

    def score_rows(self, plan: CyclePlan, rows: AnyRows) -> RawScores:
        """Call ``score`` of a plan, counted and measured."""
        self.scored[0] += rows.stop if isinstance(rows, slice) else len(rows)
        if self.meter.on:
            return self.meter.measure(self.name, Point.SCORE, plan.score, rows)
        return plan.score(rows)


def cycle_plugins(profile: Profile) -> tuple[PluginUse, ...]:
    """Return the plugins with ``pre_filter``; those enabled there first, in their order."""
    first = profile.plugins_at(Point.PRE_FILTER)
    plugins = profile.plugins_with(Plugin.pre_filter)
    plugins = (*first, *(p for p in plugins if p not in first))
    return tuple(PluginUse(plugin, profile) for plugin in plugins)
