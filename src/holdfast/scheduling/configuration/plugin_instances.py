"""Create the plugins of a profile with their arguments, validated and defaulted."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from holdfast.api.field_errors import duplicate, invalid
from holdfast.runtime.errors import BadConfiguration, Cause, NotBuilt
from holdfast.scheduling.configuration.catalog import Catalog, UnknownPlugin
from holdfast.scheduling.configuration.document import API_VERSION, GROUP, PluginConfig
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.framework.plugin import Plugin
from holdfast.scheduling.framework.points import Point

FIT = "NodeResourcesFit"
REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
UPSTREAM = frozenset({
    "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount", "NodeNUMAResource",
    "DeviceShare", "Coscheduling", "ElasticQuota", "LoadAwareScheduling",
})  # fmt: skip
"""Upstream plugins that a file may enable and that Holdfast may not have yet."""
WITH_ARGUMENTS = frozenset({
    "DefaultPreemption", "DynamicResources", "InterPodAffinity", "NodeAffinity",
    "NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread", "VolumeBinding",
    "Reservation", "NodeNUMAResource", "DeviceShare", "resourcepolicy", "ClassicDynamicResources",
})  # fmt: skip
_ALSO = {
    name: (f"{GROUP}/v1beta2", f"{GROUP}/v1beta3")
    for name in ("Reservation", "NodeNUMAResource", "DeviceShare")
}
"""Versions in which Koordinator's arguments are the same as in v1."""


class PluginArguments(NamedTuple):
    """Arguments, and their field path in the file."""

    args: dict[str, Any]
    path: str


class PluginInstances:
    """Plugins by their name in the file; without those that could not be created."""

    def __init__(self, catalog: Catalog, problems: Problems) -> None:
        self._catalog = catalog
        self._problems = problems
        self.plugins: dict[str, Plugin] = {}

    def make(
        self,
        needed: dict[str, str],
        config: Sequence[PluginConfig],
        path: str,
        ignored: Sequence[str] = (),
    ) -> None:
        """Create every needed plugin; also validate the arguments of plugins that are not needed.

        ``needed`` maps names to field paths, ``path`` is the field path of ``config``. Resources
        that extenders ignore replace ``ignoredResources`` of NodeResourcesFit, as upstream.
        """
        arguments = self._arguments(needed, config, path)
        if ignored:
            old = arguments.get(FIT, PluginArguments({}, ""))
            arguments[FIT] = PluginArguments(
                {**old.args, "ignoredResources": list(ignored)}, old.path
            )
        for name in dict.fromkeys((*needed, *arguments)):
            own = arguments.get(name, PluginArguments({}, ""))
            plugin = self._made(name, needed.get(name, own.path), own.args, own.path)
            if plugin is not None and name in needed:
                self.plugins[name] = plugin

    def _arguments(
        self, needed: dict[str, str], config: Sequence[PluginConfig], path: str
    ) -> dict[str, PluginArguments]:
        arguments: dict[str, PluginArguments] = {}
        for i, one in enumerate(config):
            at, ours = f"{path}[{i}]", self._catalog.is_built_in(one.name)
            if one.name in arguments:
                self._problems.add_errors(duplicate(at, one.name))
            elif one.name in REMOVED:
                self._problems.add_errors(removed_plugin_error(at, one.name))
            elif not ours and one.name not in needed:
                self._problems.add_warning(
                    f"{at}: plugin {one.name} is not enabled: its args are ignored"
                )
            else:
                args = read_arguments(one, f"{at}.args", self._problems, ours=ours)
                arguments[one.name] = PluginArguments(args or {}, f"{at}.args")
        return arguments

    def _made(self, name: str, where: str, args: dict[str, Any], path: str) -> Plugin | None:
        try:
            return self._catalog.find(name).factory(args)
        except UnknownPlugin:
            self._unknown(name, where)
        except BadConfiguration as error:
            if error.details.causes:
                self._problems.add_errors_below(path or where, error.details.causes)
            else:
                self._problems.add_errors(Cause(where, str(error)))
        except NotBuilt as error:
            self._problems.add_not_built(path or where, str(error))
        except Exception as failure:
            # A user's plugin may raise any exception.
            message = f'initializing plugin "{name}": {type(failure).__name__}: {failure}'
            self._problems.add_errors(Cause(path or where, message))
        return None

    def _unknown(self, name: str, where: str) -> None:
        if name in UPSTREAM:
            self._problems.add_not_built(where, f"plugin {name} is not built; leave it out")
            return
        point = next((p for p in Point if f".{p}.enabled" in where), None)
        kind = type_name(point) if point else "plugin"
        near = get_close_matches(name, self._catalog.built_in_names, 1)
        advice = f'did you mean "{near[0]}"?' if near else "name your own plugin as module:Class"
        self._problems.add_errors(Cause(where, f'{kind} "{name}" does not exist: {advice}'))


def removed_plugin_error(path: str, name: str) -> Cause:
    """Return the error for a plugin that upstream has removed."""
    message = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(path, name, message)


def read_arguments(
    config: PluginConfig, path: str, problems: Problems, *, ours: bool
) -> dict[str, Any] | None:
    """Return a plugin's arguments with upstream's defaults of weights; None if invalid.

    Arguments of built-in plugins follow upstream's rules, those of a user's plugin are not checked.
    """
    args = {} if config.args is None else config.args
    if not isinstance(args, dict):
        problems.add_errors(invalid(path, args, "must be an object"))
        return None
    if not ours:
        return args
    if not _is_its_own(config.name, args, path, problems):
        return None
    if config.name not in WITH_ARGUMENTS:
        for name in sorted(args.keys() - {"apiVersion", "kind"}, key=str):
            message = f'unknown field "{name}": {config.name} takes no arguments'
            problems.add_errors(Cause(f"{path}.{name}", message))
        return {}
    return _defaulted(config.name, args)


def _is_its_own(plugin: str, args: dict[str, Any], path: str, problems: Problems) -> bool:
    wanted = f"{plugin}Args"
    version, kind = args.get("apiVersion", API_VERSION), args.get("kind", wanted)
    if kind != wanted:
        group = str(version).rpartition("/")[0]
        message = (
            f"has to match plugin args: args for plugin {plugin} were not of type "
            f"{wanted}.{GROUP}, got {kind}.{group}"
        )
        problems.add_errors(invalid(path, kind, message))
        return False
    if version != API_VERSION and version not in _ALSO.get(plugin, ()):
        message = f'no kind "{wanted}" is registered for it; write {API_VERSION}'
        problems.add_errors(invalid(f"{path}.apiVersion", version, message))
        return False
    return True


def _defaulted(plugin: str, args: dict[str, Any]) -> dict[str, Any]:
    """Replace resource weights of 0 with 1, as upstream's defaulting does."""
    if plugin == "NodeResourcesBalancedAllocation":
        return _with_weights(args)
    strategy = args.get("scoringStrategy")
    if plugin == "NodeResourcesFit" and isinstance(strategy, dict):
        return {**args, "scoringStrategy": _with_weights(strategy)}
    return args


def _with_weights(holder: dict[str, Any]) -> dict[str, Any]:
    arguments = holder.get("resources")
    if not isinstance(arguments, list):
        return holder
    resources = [
        {**item, "weight": 1} if isinstance(item, dict) and item.get("weight") == 0 else item
        for item in arguments
    ]
    return {**holder, "resources": resources}


def type_name(point: Point) -> str:
    """Return upstream's name of the type of a point's plugins.

    >>> type_name(Point.PRE_BIND)
    'PreBindPlugin'
    """
    return f"{point.upstream_name}Plugin"
