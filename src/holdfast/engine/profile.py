"""Profiles: which plugins run, in which order, with which weights and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.errors import BadConfiguration
from holdfast.framework.arguments import Args
from holdfast.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    RequiredResourcesPlugin,
    ScorePlugin,
    State,
    implements,
)
from holdfast.framework.traits import P

Factory = Callable[[Args], Plugin]
Plugins = tuple[Plugin, ...]


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One entry of the plugin registry: how to create a plugin, and whether it is on by default.

    ``weight`` is the default score weight. The order of the registry is the default order.
    """

    factory: Factory
    name: str
    weight: int = 1
    default: bool = True


class EnabledPoints(NamedTuple):
    """The points at which a profile enables a plugin.

    A plugin that is disabled at PreFilter still runs there if it filters or scores, for its state;
    but it rejects nothing. ``filter_order`` is its place among the filters.
    """

    pre_filters: bool = True
    filters: bool = True
    scores: bool = True
    filter_order: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The plugins of one scheduler name, in order.

    ``plugins_by_point`` has, for some extension points, the enabled plugins in order; at the other
    points every plugin that implements the point is enabled, in the order of ``plugins``.
    """

    name: str
    plugins: Plugins
    weights: Mapping[str, int] = field(default_factory=dict)
    plugins_by_point: Mapping[type[Plugin], Plugins] = field(default_factory=dict)
    _points: dict[type, tuple[Any, ...]] = field(default_factory=dict, init=False, repr=False)
    _run_for: dict[tuple[type, tuple[str, ...]], list[Any]] = field(
        default_factory=dict, init=False, repr=False
    )
    _last_run_for: dict[type, tuple[Mapping[str, State], list[Any]]] = field(
        default_factory=dict, init=False, repr=False
    )

    def plugins_at(self, point: type[P]) -> tuple[P, ...]:
        """Return the plugins that are enabled at an extension point, in their order there."""
        found = self._points.get(point)
        if found is None:
            enabled = self.plugins_by_point.get(point, self.plugins)
            found = self._points[point] = tuple(p for p in enabled if implements(p, point))
        return found

    def plugins_run_for(self, point: type[P], states: Mapping[str, State]) -> list[P]:
        """Return the plugins of a point that have a state for the pod, or have no PreFilter.

        Do not modify the list: pods with states of the same plugins share it.
        """
        last = self._last_run_for.get(point)
        if last is not None and last[0] is states:
            return last[1]
        key = (point, tuple(states))
        found = self._run_for.get(key)
        if found is None:
            found = self._run_for[key] = [
                plugin
                for plugin in self.plugins_at(point)
                if plugin.name in states or not implements(plugin, PreFilterPlugin)
            ]
        self._last_run_for[point] = (states, found)
        return found

    def enabled_points(self, plugin: Plugin) -> EnabledPoints:
        """Return the points at which a plugin is enabled."""
        filtering = self.plugins_at(FilterPlugin)
        return EnabledPoints(
            pre_filters=plugin in self.plugins_at(PreFilterPlugin),
            filters=plugin in filtering,
            scores=plugin in self.plugins_by_point.get(ScorePlugin, self.plugins),
            filter_order=filtering.index(plugin) if plugin in filtering else len(filtering),
        )

    def weight(self, plugin: str) -> int:
        """Return the score weight of a plugin."""
        return self.weights.get(plugin, 1)

    def ignores_resource(self, resource: str) -> bool:
        """Return whether a plugin ignores a resource because an extender accounts for it."""
        return any(
            plugin.ignores_resource(resource) for plugin in self.plugins_at(RequiredResourcesPlugin)
        )

    def plugin(self, name: str) -> Plugin:
        """Return a plugin by name; raises KeyError if the profile does not have it."""
        for plugin in self.plugins:
            if plugin.name == name:
                return plugin
        raise KeyError(name)


def build_profile(
    name: str,
    registry: Sequence[PluginEntry],
    *,
    enabled: Iterable[tuple[str, int]] | None = None,
    args: Mapping[str, Args] | None = None,
) -> Profile:
    """Create a profile from the registry.

    ``enabled`` lists (plugin, weight) in order, with weight 0 for the default weight; without it
    all plugins run that are on by default. ``args`` are plugin arguments by plugin name.
    """
    known = {entry.name: entry for entry in registry}
    wanted = [(e.name, e.weight) for e in registry if e.default] if enabled is None else enabled
    arguments = dict(args or {})
    plugins, weights = [], {}
    for plugin, weight in wanted:
        entry = _lookup(known, plugin, name)
        if plugin in weights:
            raise BadConfiguration(f'profile "{name}": plugin "{plugin}" is enabled twice')
        plugins.append(entry.factory(arguments.pop(plugin, {})))
        weights[plugin] = weight or entry.weight
    for plugin in arguments:
        _lookup(known, plugin, name)
    profile = Profile(name, tuple(plugins), weights)
    if not profile.plugins_at(BindPlugin):
        raise BadConfiguration(
            f'at least one bind plugin is needed for profile with scheduler name "{name}"'
        )
    return profile


def _lookup(known: Mapping[str, PluginEntry], plugin: str, profile: str) -> PluginEntry:
    if plugin not in known:
        raise BadConfiguration(
            f'profile "{profile}": plugin "{plugin}" does not exist; '
            f"known plugins are {', '.join(sorted(known))}"
        )
    return known[plugin]
