"""Read a KubeSchedulerConfiguration (``kubescheduler.config.k8s.io/v1``) as profiles.

Merging and expanding follow upstream: a profile's sets are merged with the defaults, then every
extension point gets its own list. Our profiles run one order of plugins at all points; where a
configuration asks for another order at one of them it is refused, never run differently.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import BadConfiguration, NotBuilt
from holdfast.framework.plugin import (
    AfterRejects,
    Binds,
    Filters,
    PreBinds,
    PreEnqueues,
    Prepares,
    Reserves,
    Scores,
)
from holdfast.framework.profile import Entry, Profile, build
from holdfast.plugins import PROFILE_NAMES, REGISTRY, default_profiles

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
UPSTREAM = frozenset({
    "GangScheduling", "NodeNUMAResource", "DeviceShare",
})  # fmt: skip
"""Plugins a user's file may well name and Holdfast may not have yet."""


class Point(NamedTuple):
    """An extension point: its protocol, and the method without which a plugin is not part of it."""

    protocol: type
    method: str


POINTS: dict[str, Point] = {
    "pre_enqueue": Point(PreEnqueues, "pre_enqueue"),
    "pre_filter": Point(Prepares, "prepare"),
    "filter": Point(Filters, "filter"),
    "post_filter": Point(AfterRejects, "after_reject"),
    "score": Point(Scores, "score"),
    "reserve": Point(Reserves, "reserve"),
    "pre_bind": Point(PreBinds, "pre_bind"),
    "bind": Point(Binds, "bind"),
}
_ENTRIES = {entry.name: entry for entry in REGISTRY}


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file; a field nobody knows is an error, as upstream."""


class PluginRef(_Part, frozen=True):
    """A plugin named in a set."""

    name: str = ""
    weight: int | None = None


class PluginSet(_Part, frozen=True):
    """What is switched on and off at one point, or at all of them."""

    enabled: tuple[PluginRef, ...] | None = None
    disabled: tuple[PluginRef, ...] | None = None

    @property
    def off(self) -> frozenset[str]:
        """Names switched off, ``*`` meaning all."""
        return frozenset(ref.name for ref in self.disabled or ())

    @property
    def on(self) -> tuple[PluginRef, ...]:
        """Plugins switched on."""
        return self.enabled or ()


class PluginSets(_Part, frozen=True):
    """The sets of a profile."""

    multi_point: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()


class PluginConfig(_Part, frozen=True):
    """One plugin's arguments."""

    name: str = ""
    args: dict[str, Any] | None = None


class ProfileConfig(_Part, frozen=True):
    """One profile."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: PluginSets | None = None
    plugin_config: tuple[PluginConfig, ...] | None = None


class Configuration(_Part, frozen=True):
    """The file. What concerns the process and not deciding is accepted and has no effect here."""

    api_version: str = API_VERSION
    kind: str = KIND
    profiles: tuple[ProfileConfig, ...] | None = None
    extenders: tuple[Any, ...] | None = None
    parallelism: int | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    client_connection: Any = None
    leader_election: Any = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    delay_cache_until_active: bool | None = None


def read_profiles(raw: Any) -> dict[str, Profile]:
    """Make the profiles of a configuration, by scheduler name; without any, the built-in ones."""
    try:
        config = msgspec.convert(raw, Configuration)
    except msgspec.ValidationError as wrong:
        words, _, path = str(wrong).partition(" - at `")
        raise BadConfiguration(f"{path.rstrip('`').lstrip('$.') or KIND}: {words}") from wrong
    if (config.api_version, config.kind) != (API_VERSION, KIND):
        raise BadConfiguration(
            f"kind: expected {API_VERSION} {KIND}, found {config.api_version} {config.kind}"
        )
    if config.extenders:
        raise NotBuilt("extenders: HTTP extenders are not built; leave them out")
    if not config.profiles:
        return default_profiles()
    found: dict[str, Profile] = {}
    for i, profile in enumerate(config.profiles):
        name = profile.scheduler_name
        if not name:
            if len(config.profiles) > 1:
                raise BadConfiguration(f"profiles[{i}].schedulerName: Required value")
            name = PROFILE_NAMES[0]
        if name in found:
            raise BadConfiguration(f'profiles[{i}].schedulerName: Duplicate value: "{name}"')
        found[name] = _Reading(name, f"profiles[{i}]", profile).profile()
    return found


class _Reading:
    """One profile being read; ``path`` is where it stands in the file."""

    def __init__(self, name: str, path: str, config: ProfileConfig) -> None:
        self._name = name
        self._path = path
        self._config = config
        self._sets = config.plugins or PluginSets()

    def profile(self) -> Profile:
        """Merge, expand, build."""
        self._check_names()
        self._check_queue_sort()
        multi = self._merged()
        lists = {point: self._expanded(point, list(multi)) for point in POINTS}
        named = dict.fromkeys([*multi, *(name for names in lists.values() for name in names)])
        order = [name for name in named if name in _ENTRIES]
        self._check_order(order, lists)
        scored = {ref.name: ref.weight or 1 for ref in self._sets.score.on}
        weights = [(name, scored.get(name, multi.get(name, 1))) for name in order]
        whole = build(self._name, REGISTRY, enabled=weights, args=self._arguments())
        parts = [part for p in whole.plugins if (part := self._reduced(p, lists)) is not None]
        if not any(isinstance(part, Binds) for part in parts):
            raise BadConfiguration(
                f"{self._path}.plugins.bind: at least one bind plugin is needed for profile with "
                f'scheduler name "{self._name}"'
            )
        return replace(whole, plugins=tuple(parts))

    def _merged(self) -> dict[str, int]:
        """The multiPoint set on top of the defaults: names in order, with their weights."""
        custom = {ref.name: ref.weight or 1 for ref in self._sets.multi_point.on}
        off = self._sets.multi_point.off
        merged: dict[str, int] = {}
        if "*" not in off:
            for entry in REGISTRY:
                if entry.default and entry.name not in off:
                    merged[entry.name] = custom.get(entry.name, entry.weight)
        return {**merged, **custom}

    def _expanded(self, point: str, multi: Sequence[str]) -> list[str]:
        """Which plugins run at a point, in upstream's order."""
        own: PluginSet = getattr(self._sets, point)
        listed = [ref.name for ref in own.on]
        if "*" in own.off:
            return listed
        through = [n for n in multi if _extends(n, point) and n not in own.off]
        first = [name for name in listed if name in multi]
        rest = [name for name in listed if name not in multi]
        return [*first, *(name for name in through if name not in first), *rest]

    def _reduced(self, plugin: Any, lists: Mapping[str, Sequence[str]]) -> Any:
        """The plugin without the points it is off at; None if it is off everywhere."""
        name = plugin.name
        off = [p for p in POINTS if _extends(name, p) and name not in lists[p]]
        if not off:
            return plugin
        on = [p for p in POINTS if name in lists[p]]
        if not on:
            return None
        if "pre_filter" in off and {"filter", "score"} & set(on):
            raise NotBuilt(
                f"{self._path}.plugins.preFilter: {name} cannot filter or score without its "
                "preFilter; switch it off at all of them or at none"
            )
        without = {POINTS[point].method: None for point in off}
        made = copy.copy(plugin)
        made.__class__ = type(f"{type(plugin).__name__}InPart", (type(plugin),), without)
        return made

    def _arguments(self) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for i, config in enumerate(self._config.plugin_config or ()):
            path = f"{self._path}.pluginConfig[{i}]"
            self._check_name(config.name, path)
            if config.name in found:
                raise BadConfiguration(f"{path}: repeated config for plugin {config.name}")
            found[config.name] = config.args or {}
            try:
                _ENTRIES[config.name].factory(found[config.name])
            except BadConfiguration as wrong:
                raise BadConfiguration(f"{path}.args: {wrong}", wrong.details) from wrong
        return found

    def _check_names(self) -> None:
        for point, i, ref in self._named():
            self._check_name(ref.name, f"{self._path}.plugins.{point}.enabled[{i}].name")

    def _named(self) -> Iterator[tuple[str, int, PluginRef]]:
        for field in PluginSets.__struct_fields__:
            seen: set[str] = set()
            own: PluginSet = getattr(self._sets, field)
            for i, ref in enumerate(own.on):
                if ref.name in seen:
                    raise BadConfiguration(
                        f"{self._path}.plugins.{_camel(field)}.enabled[{i}]: plugin "
                        f'"{ref.name}" already registered'
                    )
                seen.add(ref.name)
                if field in POINTS and ref.name in _ENTRIES and not _extends(ref.name, field):
                    self._check_point(ref.name, field, i)
                yield _camel(field), i, ref

    def _check_point(self, name: str, point: str, i: int) -> None:
        if point in ("filter", "score"):
            raise BadConfiguration(
                f"{self._path}.plugins.{point}.enabled[{i}].name: plugin "
                f'"{name}" does not extend {point.capitalize()} plugin'
            )

    def _check_name(self, name: str, path: str) -> None:
        if name in _ENTRIES:
            return
        if name in UPSTREAM:
            raise NotBuilt(f"{path}: plugin {name} is not built; leave it out")
        raise BadConfiguration(
            f'{path}: plugin "{name}" does not exist; there are {", ".join(_ENTRIES)}'
        )

    def _check_queue_sort(self) -> None:
        own = self._sets.queue_sort
        if own.off & {"*", "PrioritySort"} and not own.on:
            raise BadConfiguration(
                f"{self._path}.plugins.queueSort: only one queue sort plugin required for "
                f'profile with scheduler name "{self._name}", but got 0'
            )
        unscored = self._sets.pre_score.off - self._sets.score.off
        if unscored and "*" not in self._sets.score.off:
            raise NotBuilt(
                f"{self._path}.plugins.preScore: switching off preScore alone is not built; "
                f"switch off score too for {', '.join(sorted(unscored))}"
            )

    def _check_order(self, order: Sequence[str], lists: Mapping[str, Sequence[str]]) -> None:
        for point, names in lists.items():
            ours = [name for name in order if name in names]
            if point != "score" and ours != [name for name in names if name in _ENTRIES]:
                raise NotBuilt(
                    f"{self._path}.plugins.{_camel(point)}: plugins run in one order at all "
                    f"points; put them into this order under multiPoint: {', '.join(names)}"
                )


def _extends(name: str, point: str) -> bool:
    """Tell whether a plugin has an extension point."""
    entry: Entry | None = _ENTRIES.get(name)
    return entry is not None and hasattr(entry.factory, POINTS[point].method)


def _camel(field: str) -> str:
    head, *rest = field.split("_")
    return head + "".join(word.capitalize() for word in rest)
