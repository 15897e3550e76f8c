"""What a plugin can do, asked once a profile and not once a pod."""

from __future__ import annotations

from typing import Protocol, cast

from holdfast.engine.profile import Profile, Role
from holdfast.framework.plugin import (
    NONE,
    AnyRows,
    Change,
    Filters,
    Normalizes,
    Plugin,
    Prepares,
    PreScores,
    RawScores,
    ReadsBeyondSpec,
    Reject,
    Rows,
    Scales,
    Scope,
    Scores,
    Skip,
    State,
    Tabulates,
    Tiers,
    Verdicts,
    implements,
)

WHOLE = Role()
"""A plugin that is on wherever it can be."""


class Deciding(
    Prepares, Filters, PreScores, Scores, Normalizes, Scales, Tabulates, Tiers, Protocol
):
    """All that a plugin may be asked while a pod is decided on; ``PluginUse`` tells what it has.

    Rows are a slice only where the plugin is ``sliced``.
    """

    def filter(self, state: State, rows: AnyRows, change: Change = NONE) -> Verdicts:
        """As ``Filters``."""
        ...

    def pre_score(self, state: State, feasible: AnyRows) -> Skip | Reject | None:
        """As ``PreScores``."""
        ...

    def score(self, state: State, rows: AnyRows) -> RawScores:
        """As ``Scores``."""
        ...

    def normalize(self, state: State, rows: AnyRows, raw: RawScores) -> RawScores:
        """As ``Normalizes``."""
        ...

    def tabulate(self, state: State, rows: AnyRows) -> tuple[Rows, RawScores] | None:
        """As ``Tabulates``."""
        ...


class PluginUse:
    """Which extension points a plugin has, and how its answers may be kept.

    ``asked``: from ``prepare`` on for every pod (scope CLUSTER). ``kept``: verdicts and raw scores
    are remembered, ``of_node`` even while pods come and go.
    ``opaque``: its scores depend on which rows are feasible in a way that only the plugin knows.
    ``speaks``: what it says before any node
    is looked at counts. ``place`` is its turn among the filters.
    """

    __slots__ = ("asked", "beyond", "bounded", "comparable", "epochs", "filters",
                 "ignores_amounts", "kept", "name", "normalizes", "of_node", "opaque", "place",
                 "plugin", "pre_scores", "prepares", "scales", "scores", "sliced", "speaks",
                 "tabulates", "tiers")  # fmt: skip

    def __init__(self, plugin: Plugin, role: Role = WHOLE) -> None:
        traits = plugin.traits
        self.plugin = asked = cast("Deciding", plugin)
        self.name = plugin.name
        self.epochs: tuple[str, ...] = ("layout", *traits.epochs)
        self.prepares = implements(plugin, Prepares)
        self.speaks = role.prepares
        self.place = role.place
        self.filters = role.filters and implements(plugin, Filters)
        self.scores = role.scores and implements(plugin, Scores)
        self.tiers = role.scores and implements(plugin, Tiers)
        self.scales = implements(plugin, Scales)
        self.normalizes = implements(plugin, Normalizes)
        self.pre_scores = implements(plugin, PreScores)
        self.tabulates = implements(plugin, Tabulates)
        self.opaque = self.normalizes or self.pre_scores
        self.asked = traits.scope is Scope.CLUSTER
        self.kept = traits.scope.kept
        self.of_node = traits.scope is Scope.NODE
        self.sliced = traits.sliced
        self.bounded = traits.bounded
        self.comparable = traits.comparable
        self.ignores_amounts = traits.ignores_amounts
        self.beyond = None
        if traits.beyond_spec:
            self.beyond = plugin.beyond if implements(plugin, ReadsBeyondSpec) else asked.reads


def deciding(profile: Profile) -> tuple[PluginUse, ...]:
    """Plugins that have a say in where a pod goes, those that prepare in the order of preFilter."""
    asked = [
        p for p in profile.plugins if any(implements(p, x) for x in (Prepares, Filters, Scores))
    ]
    if profile.lists:
        first = profile.having(Prepares)
        asked = [*first, *(p for p in asked if p not in first)]
    return tuple(PluginUse(plugin, profile.role(plugin)) for plugin in asked)
