"""Profiles: which plugins run, in which order, with which weights and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from holdfast.runtime.errors import BadConfiguration
from holdfast.scheduling.framework.arguments import Args
from holdfast.scheduling.framework.plan import PodPlan, Reserver
from holdfast.scheduling.framework.plugin import Plugin
from holdfast.scheduling.framework.points import Point, has_point, overrides, plan_has_point
from holdfast.scheduling.framework.values import Placement
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo

Factory = Callable[[Args], Plugin]
Plugins = tuple[Plugin, ...]
R = TypeVar("R")


class PluginMeter:
    """Counts the rows that plugins evaluate, and measures their calls while it is ``on``.

    This base class does neither; the scheduler uses ``scheduler.metrics.Meter``.
    """

    on: bool = False

    def counter(self, plugin: str, point: Point, profile: str) -> list[float]:
        """Return a cell to which evaluations are added."""
        return [0.0]

    def call(self, plugin: str, point: Point, method: Callable[..., R], *arguments: object) -> R:
        """Call a method, measured while the meter is on."""
        if self.on:
            return self.measure(plugin, point, method, *arguments)
        return method(*arguments)

    def measure(self, plugin: str, point: Point, method: Callable[..., R], *arguments: object) -> R:
        """Call a method and record how long it takes."""
        return method(*arguments)


NO_METER = PluginMeter()
ReserversByPoint = Mapping[Point, Sequence[tuple[str, Reserver]]]


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

    A plugin that is disabled at PreFilter still runs there if it filters or scores, for its plan;
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
    points every plugin that has the point is enabled, in the order of ``plugins``.
    """

    name: str
    plugins: Plugins
    weights: Mapping[str, int] = field(default_factory=dict)
    plugins_by_point: Mapping[Point, Plugins] = field(default_factory=dict)
    meter: PluginMeter = NO_METER
    _known: dict[object, Plugins] = field(default_factory=dict, init=False, repr=False)
    _reserving: dict[tuple[object, ...], Mapping[Point, list[str]]] = field(
        default_factory=dict, init=False, repr=False
    )
    """The plugins whose plans have a point of Reserver, by the classes of a pod's plans."""
    allocates_reservations: bool = field(init=False)
    """Whether a filter gives reserved resources to owners; else they are in use for all."""

    def __post_init__(self) -> None:
        allocates = any(p.traits.allocates_reservations for p in self.plugins_at(Point.FILTER))
        object.__setattr__(self, "allocates_reservations", allocates)

    def view(self, pod: PodInfo, world: World, now: float) -> View:
        """Return the world as a pod of this profile sees it."""
        return View(world, pod, now, reservations=self.allocates_reservations)

    def plugins_at(self, point: Point) -> Plugins:
        """Return the plugins that are enabled at an extension point, in their order there."""
        plugins = self._known.get(point)
        if plugins is None:
            enabled = self.plugins_by_point.get(point, self.plugins)
            plugins = self._known[point] = tuple(p for p in enabled if has_point(p, point))
        return plugins

    def plugins_with(self, method: Callable[..., Any]) -> Plugins:
        """Return the plugins that have a method other than the default one."""
        plugins = self._known.get(method)
        if plugins is None:
            plugins = self._known[method] = tuple(p for p in self.plugins if overrides(p, method))
        return plugins

    def reservers(self, point: Point, placement: Placement) -> Sequence[tuple[str, Reserver]]:
        """Return the plans of a pod that have a point of Reserver, with their plugins' names."""
        if placement.reservers is None:
            placement.reservers = self.reservers_of(placement.plans)
        return placement.reservers[point]

    def reservers_of(self, plans: Mapping[str, PodPlan]) -> ReserversByPoint:
        """Return these plans by their points of Reserver."""
        return {
            point: [(name, cast("Reserver", plans[name])) for name in names]
            for point, names in self._names_of_reservers(plans).items()
        }

    def _names_of_reservers(self, plans: Mapping[str, PodPlan]) -> Mapping[Point, list[str]]:
        key = (*map(type, plans.values()), *plans)
        names = self._reserving.get(key)
        if names is None:
            names = self._reserving[key] = {
                point: [
                    plugin.name
                    for plugin in self.plugins_at(point)
                    if plugin.name in plans and plan_has_point(plans[plugin.name], point)
                ]
                for point in (Point.RESERVE, Point.PRE_BIND, Point.POST_BIND)
            }
        return names

    def plugins_for(self, point: Point, plans: Mapping[str, PodPlan]) -> list[Plugin]:
        """Return the plugins of a point that have a plan for the pod, or need none."""
        return [
            plugin
            for plugin in self.plugins_at(point)
            if plugin.name in plans or not overrides(plugin, Plugin.pre_filter)
        ]

    def enabled_points(self, plugin: Plugin) -> EnabledPoints:
        """Return the points at which a plugin is enabled."""
        filtering = self.plugins_at(Point.FILTER)
        return EnabledPoints(
            pre_filters=plugin in self.plugins_at(Point.PRE_FILTER),
            filters=plugin in filtering,
            scores=plugin in self.plugins_by_point.get(Point.SCORE, self.plugins),
            filter_order=filtering.index(plugin) if plugin in filtering else len(filtering),
        )

    def weight(self, plugin: str) -> int:
        """Return the score weight of a plugin."""
        return self.weights.get(plugin, 1)

    def ignores_resource(self, resource: str) -> bool:
        """Return whether a plugin ignores a resource because an extender accounts for it."""
        return any(
            plugin.ignores_resource(resource)
            for plugin in self.plugins_with(Plugin.ignores_resource)
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
    if not profile.plugins_at(Point.BIND):
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
