"""What a plugin can do, asked once a profile and not once a pod."""

from __future__ import annotations

from typing import Any

from holdfast.framework.plugin import (
    Filters,
    Normalizes,
    Prepares,
    PreScores,
    Scales,
    Scope,
    Scores,
    Tiers,
    implements,
)


class Traits:
    """Which extension points a plugin has, and how its answers may be kept.

    ``asked``: from ``prepare`` on for every pod (scope CLUSTER). ``kept``: verdicts and raw scores
    are remembered, ``of_node`` even while pods come and go. ``opaque``: its scores depend on which
    rows are feasible in a way that only the plugin knows.
    """

    __slots__ = ("asked", "beyond", "comparable", "epochs", "filters", "kept", "name", "of_node",
                 "opaque", "plugin", "prepares", "scales", "scores", "sliced",
                 "tiers")  # fmt: skip

    def __init__(self, plugin: Any) -> None:
        scope = getattr(plugin, "scope", Scope.CLUSTER)
        self.plugin = plugin
        self.name: str = plugin.name
        self.epochs: tuple[str, ...] = ("layout", *getattr(plugin, "epochs", ()))
        self.prepares = implements(plugin, Prepares)
        self.filters = implements(plugin, Filters)
        self.scores = implements(plugin, Scores)
        self.tiers = implements(plugin, Tiers)
        self.scales = implements(plugin, Scales)
        self.opaque = implements(plugin, Normalizes) or implements(plugin, PreScores)
        self.asked = scope is Scope.CLUSTER
        self.kept = scope.kept
        self.of_node = scope is Scope.NODE
        self.sliced: bool = getattr(plugin, "sliced", False)
        self.comparable: bool = getattr(plugin, "comparable", False)
        beyond = getattr(plugin, "beyond_spec", False)
        self.beyond = getattr(plugin, "beyond", plugin.reads) if beyond else None

    @property
    def decides(self) -> bool:
        """Whether the plugin has a say in where a pod goes."""
        return self.prepares or self.filters or self.scores
