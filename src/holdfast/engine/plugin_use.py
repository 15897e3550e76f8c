"""What a plugin can do, asked once a profile and not once a pod."""

from __future__ import annotations

from typing import Any

from holdfast.engine.profile import Profile, Role
from holdfast.framework.plugin import (
    Filters,
    Normalizes,
    Prepares,
    PreScores,
    Scales,
    Scope,
    Scores,
    Tabulates,
    Tiers,
    implements,
)

WHOLE = Role()
"""A plugin that is on wherever it can be."""


class PluginUse:
    """Which extension points a plugin has, and how its answers may be kept.

    ``asked``: from ``prepare`` on for every pod (scope CLUSTER). ``kept``: verdicts and raw scores
    are remembered (``by_row``: those of some states), ``of_node`` even while pods come and go.
    ``opaque``: its scores depend on which rows are feasible in a way that only the plugin knows.
    ``speaks``: what it says before any node
    is looked at counts. ``place`` is its turn among the filters.
    """

    __slots__ = ("asked", "beyond", "bounded", "by_row", "comparable", "epochs", "filters",
                 "ignores_amounts", "kept", "name", "normalizes", "of_node", "opaque", "place",
                 "plugin", "pre_scores", "prepares", "scales", "scores", "sliced", "speaks",
                 "tabulates", "tiers")  # fmt: skip

    def __init__(self, plugin: Any, role: Role = WHOLE) -> None:
        traits = plugin.traits
        self.plugin = plugin
        self.name: str = plugin.name
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
        self.by_row = getattr(plugin, "by_row", None)
        self.of_node = traits.scope is Scope.NODE
        self.sliced = traits.sliced
        self.bounded = traits.bounded
        self.comparable = traits.comparable
        self.ignores_amounts = traits.ignores_amounts
        self.beyond = getattr(plugin, "beyond", plugin.reads) if traits.beyond_spec else None


def deciding(profile: Profile) -> tuple[PluginUse, ...]:
    """Plugins that have a say in where a pod goes, those that prepare in the order of preFilter."""
    asked = [
        p for p in profile.plugins if any(implements(p, x) for x in (Prepares, Filters, Scores))
    ]
    if profile.lists:
        first = profile.having(Prepares)
        asked = [*first, *(p for p in asked if p not in first)]
    return tuple(PluginUse(plugin, profile.role(plugin)) for plugin in asked)
