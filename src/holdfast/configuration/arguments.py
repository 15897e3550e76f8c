"""A plugin's arguments before the plugin reads them: are they its own, what is filled in."""

from __future__ import annotations

from typing import Any

from holdfast.api.causes import invalid
from holdfast.configuration.document import API_VERSION, GROUP, PluginConfig
from holdfast.configuration.findings import Findings
from holdfast.errors import Cause

WITH_ARGUMENTS = frozenset({
    "DefaultPreemption", "DynamicResources", "InterPodAffinity", "NodeAffinity",
    "NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread", "VolumeBinding",
    "Reservation", "NodeNUMAResource", "DeviceShare",
})  # fmt: skip
_ALSO = {
    name: (f"{GROUP}/v1beta2", f"{GROUP}/v1beta3")
    for name in ("Reservation", "NodeNUMAResource", "DeviceShare")
}
"""Versions in which Koordinator's arguments are the same as in v1."""


def read_arguments(
    config: PluginConfig, path: str, found: Findings, *, ours: bool
) -> dict[str, Any] | None:
    """The arguments with defaults that the plugins themselves do not know; None if they are wrong.

    A user's plugin takes what it likes; to ours upstream's rules apply.
    """
    args = {} if config.args is None else config.args
    if not isinstance(args, dict):
        found.wrong(invalid(path, args, "must be an object"))
        return None
    if not ours:
        return args
    if not _is_its_own(config.name, args, path, found):
        return None
    if config.name not in WITH_ARGUMENTS:
        for name in sorted(args.keys() - {"apiVersion", "kind"}, key=str):
            words = f'unknown field "{name}": {config.name} takes no arguments'
            found.wrong(Cause(f"{path}.{name}", words))
        return {}
    return _defaulted(config.name, args)


def _is_its_own(plugin: str, args: dict[str, Any], path: str, found: Findings) -> bool:
    wanted = f"{plugin}Args"
    version, kind = args.get("apiVersion", API_VERSION), args.get("kind", wanted)
    if kind != wanted:
        group = str(version).rpartition("/")[0]
        words = (
            f"has to match plugin args: args for plugin {plugin} were not of type "
            f"{wanted}.{GROUP}, got {kind}.{group}"
        )
        found.wrong(invalid(path, kind, words))
        return False
    if version != API_VERSION and version not in _ALSO.get(plugin, ()):
        words = f'no kind "{wanted}" is registered for it; write {API_VERSION}'
        found.wrong(invalid(f"{path}.apiVersion", version, words))
        return False
    return True


def _defaulted(plugin: str, args: dict[str, Any]) -> dict[str, Any]:
    """Upstream makes a weight of 0 the default one before anybody looks at it."""
    if plugin == "NodeResourcesBalancedAllocation":
        return _with_weights(args)
    strategy = args.get("scoringStrategy")
    if plugin == "NodeResourcesFit" and isinstance(strategy, dict):
        return {**args, "scoringStrategy": _with_weights(strategy)}
    return args


def _with_weights(holder: dict[str, Any]) -> dict[str, Any]:
    given = holder.get("resources")
    if not isinstance(given, list):
        return holder
    resources = [
        {**item, "weight": 1} if isinstance(item, dict) and item.get("weight") == 0 else item
        for item in given
    ]
    return {**holder, "resources": resources}
