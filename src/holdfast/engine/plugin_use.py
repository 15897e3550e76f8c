"""What a plugin can do, asked once a profile and not once a pod."""

from __future__ import annotations

from typing import Protocol, cast

from holdfast.engine.profile import Profile, Role
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
    Verdicts,
    implements,
)

WHOLE = Role()
"""A plugin that is on wherever it can be."""


class Deciding(
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    NormalizeScorePlugin,
    NormalizeByRangePlugin,
    ScoreTablePlugin,
    TierPlugin,
    Protocol,
):
    """All that a plugin may be asked while a pod is decided on; ``PluginUse`` tells what it has.

    Rows are a slice only where the plugin is ``accepts_slices``.
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
    """Which extension points a plugin has, and how its answers may be kept.

    ``asked``: from ``pre_filter`` on for every pod (scope CLUSTER). ``kept``: verdicts and raw
    scores are remembered, ``of_node`` even while pods come and go.
    ``opaque``: its scores depend on which rows are feasible in a way that only the plugin knows.
    ``speaks``: what it says before any node
    is looked at counts. ``place`` is its turn among the filters.
    """

    __slots__ = ("accepts_slices", "asked", "bounded_scores", "comparable_states", "epochs",
                 "filters", "ignores_requests", "kept", "key_outside_spec", "name", "normalizes",
                 "of_node", "opaque", "place", "plugin", "pre_scores", "prepares", "scales",
                 "scores", "speaks", "tabulates", "tiers")  # fmt: skip

    def __init__(self, plugin: Plugin, role: Role = WHOLE) -> None:
        traits = plugin.traits
        self.plugin = asked = cast("Deciding", plugin)
        self.name = plugin.name
        self.epochs: tuple[str, ...] = ("layout", *traits.epochs)
        self.prepares = implements(plugin, PreFilterPlugin)
        self.speaks = role.prepares
        self.place = role.place
        self.filters = role.filters and implements(plugin, FilterPlugin)
        self.scores = role.scores and implements(plugin, ScorePlugin)
        self.tiers = role.scores and implements(plugin, TierPlugin)
        self.scales = implements(plugin, NormalizeByRangePlugin)
        self.normalizes = implements(plugin, NormalizeScorePlugin)
        self.pre_scores = implements(plugin, PreScorePlugin)
        self.tabulates = implements(plugin, ScoreTablePlugin)
        self.opaque = self.normalizes or self.pre_scores
        self.asked = traits.scope is Scope.CLUSTER
        self.kept = traits.scope.cacheable
        self.of_node = traits.scope is Scope.NODE
        self.accepts_slices = traits.accepts_slices
        self.bounded_scores = traits.bounded_scores
        self.comparable_states = traits.comparable_states
        self.ignores_requests = traits.ignores_requests
        self.key_outside_spec = None
        if traits.reads_outside_spec:
            self.key_outside_spec = (
                plugin.key_outside_spec if implements(plugin, OutsideSpecKeyPlugin) else asked.reads
            )


def deciding(profile: Profile) -> tuple[PluginUse, ...]:
    """Plugins that have a say in where a pod goes, those that prepare in the order of preFilter."""
    asked = [
        p
        for p in profile.plugins
        if any(implements(p, x) for x in (PreFilterPlugin, FilterPlugin, ScorePlugin))
    ]
    if profile.lists:
        first = profile.having(PreFilterPlugin)
        asked = [*first, *(p for p in asked if p not in first)]
    return tuple(PluginUse(plugin, profile.role(plugin)) for plugin in asked)
