"""What a plugin implements and declares, looked up once per profile instead of once per pod."""

from __future__ import annotations

from typing import Protocol, cast

from holdfast.engine.profile import EnabledPoints, Profile
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    FilterPlugin,
    NormalizeByRangePlugin,
    NormalizeScorePlugin,
    OutsideSpecKeyPlugin,
    Plugin,
    PodChange,
    PreFilterPlugin,
    PreScorePlugin,
    RawScores,
    Reject,
    Rows,
    Scope,
    ScorePlugin,
    ScoreTablePlugin,
    Skip,
    State,
    TierPlugin,
    TierRowsPlugin,
    Verdicts,
    implements,
)
from holdfast.framework.reservation_options import (
    FilterReservationsPlugin,
    ScoreReservationsPlugin,
)

ALL_POINTS = EnabledPoints()
"""A plugin that is enabled at every point that it implements."""


class CyclePlugin(
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    NormalizeScorePlugin,
    NormalizeByRangePlugin,
    ScoreTablePlugin,
    TierPlugin,
    TierRowsPlugin,
    Protocol,
):
    """All methods of a plugin that are called in a decision; ``PluginUse`` tells which it has.

    ``rows`` may be a slice if the plugin has the trait ``accepts_slices``.
    """

    def filter(self, state: State, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """As ``FilterPlugin``."""
        ...

    def pre_score(self, state: State, feasible: AnyRows) -> Skip | Reject | None:
        """As ``PreScorePlugin``."""
        ...

    def score(self, state: State, rows: AnyRows) -> RawScores:
        """As ``ScorePlugin``."""
        ...

    def normalize_score(self, state: State, rows: AnyRows, raw: RawScores) -> RawScores:
        """As ``NormalizeScorePlugin``."""
        ...

    def score_table(self, state: State, rows: AnyRows) -> tuple[Rows, RawScores] | None:
        """As ``ScoreTablePlugin``."""
        ...


class PluginUse:
    """The extension points at which a profile uses a plugin, and how its results may be cached.

    ``per_pod``: nothing is cached, all methods are called for every pod (scope CLUSTER).
    ``cacheable``: verdicts and raw scores are cached; with ``node_scope`` they do not change when
    pods do. ``normalizes_itself``: scores depend on all feasible rows in a way that only the plugin
    knows. ``pre_filter_enabled``: a Reject of ``pre_filter``, and the rows it allows, count.
    ``filter_order`` is the plugin's place among the filters. ``only_pre_scores``: the plugin looks
    at the feasible rows of each pod and does not score them.
    """

    __slots__ = ("accepts_slices", "bounded_scores", "cacheable", "comparable_states", "epochs",
                 "filter_order", "filters", "filters_reservations", "has_score_table",
                 "has_tier_rows", "ignores_requests", "key_outside_spec", "name", "node_scope",
                 "normalizes", "normalizes_by_range", "normalizes_itself", "only_pre_scores",
                 "per_pod", "plugin", "pre_filter_enabled", "pre_filters", "pre_scores", "scores",
                 "scores_reservations", "tiers")  # fmt: skip

    def __init__(self, plugin: Plugin, enabled: EnabledPoints = ALL_POINTS) -> None:
        traits = plugin.traits
        self.plugin = cast("CyclePlugin", plugin)
        self.name = plugin.name
        self.epochs: tuple[str, ...] = ("layout", *traits.epochs)
        self.pre_filters = implements(plugin, PreFilterPlugin)
        self.pre_filter_enabled = enabled.pre_filters
        self.filter_order = enabled.filter_order
        self.filters = enabled.filters and implements(plugin, FilterPlugin)
        self.scores = enabled.scores and implements(plugin, ScorePlugin)
        self.tiers = enabled.scores and implements(plugin, TierPlugin)
        self.filters_reservations = self.filters and implements(plugin, FilterReservationsPlugin)
        self.scores_reservations = enabled.scores and implements(plugin, ScoreReservationsPlugin)
        self.normalizes_by_range = implements(plugin, NormalizeByRangePlugin)
        self.normalizes = implements(plugin, NormalizeScorePlugin)
        self.pre_scores = implements(plugin, PreScorePlugin)
        self.has_score_table = implements(plugin, ScoreTablePlugin)
        self.has_tier_rows = self.tiers and implements(plugin, TierRowsPlugin)
        self.normalizes_itself = self.normalizes or self.pre_scores
        self.per_pod = traits.scope is Scope.CLUSTER
        self.only_pre_scores = self.pre_scores and self.per_pod and not self.scores
        self.cacheable = traits.scope.cacheable
        self.node_scope = traits.scope is Scope.NODE
        self.accepts_slices = traits.accepts_slices
        self.bounded_scores = traits.bounded_scores
        self.comparable_states = traits.comparable_states
        self.ignores_requests = traits.ignores_requests
        self.key_outside_spec = None
        if traits.reads_outside_spec:
            self.key_outside_spec = (
                plugin.key_outside_spec
                if implements(plugin, OutsideSpecKeyPlugin)
                else self.plugin.reads
            )


def cycle_plugins(profile: Profile) -> tuple[PluginUse, ...]:
    """Return the plugins that pre-filter, filter or score; the first ones in PreFilter order."""
    points = (PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin)
    plugins = [p for p in profile.plugins if any(implements(p, x) for x in points)]
    if profile.plugins_by_point:
        first = profile.plugins_at(PreFilterPlugin)
        plugins = [*first, *(p for p in plugins if p not in first)]
    return tuple(PluginUse(plugin, profile.enabled_points(plugin)) for plugin in plugins)
