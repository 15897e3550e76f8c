"""Where plugins come from: ours by name, a user's as ``module:Class`` or by entry point."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from holdfast.engine.profile import Factory, PluginEntry
from holdfast.errors import BadConfiguration
from holdfast.framework import plugin as contract
from holdfast.framework.arguments import Args
from holdfast.framework.per_node import PerNodePlugin, columnar
from holdfast.framework.traits import Plugin, declaration_fault, methods_of
from holdfast.plugins import REGISTRY

ENTRY_POINTS = "holdfast.plugins"
_PROTOCOLS = {
    "pre_enqueue": contract.PreEnqueuePlugin,
    "pre_filter": contract.PreFilterPlugin,
    "filter": contract.FilterPlugin,
    "post_filter": contract.PostFilterPlugin,
    "pre_score": contract.PreScorePlugin,
    "score": contract.ScorePlugin,
    "tier": contract.TierPlugin,
    "reserve": contract.ReservePlugin,
    "permit": contract.PermitPlugin,
    "pre_bind": contract.PreBindPlugin,
    "bind": contract.BindPlugin,
    "post_bind": contract.PostBindPlugin,
}
"""The method that makes a class part of a point, and all that the point asks for."""


class Unknown(LookupError):
    """No plugin is called that."""


class Catalog:
    """Find plugins by name. ``foreign`` says whether a user's own code may be loaded.

    Modules are looked for where Python looks, and then in ``beside``.
    """

    def __init__(
        self,
        registry: Sequence[PluginEntry] = REGISTRY,
        *,
        foreign: bool = True,
        beside: Path | None = None,
    ) -> None:
        self.registry = registry
        self.ours = tuple(entry.name for entry in registry)
        self._known = {entry.name: entry for entry in registry}
        self._foreign = foreign
        self._beside = beside

    def find(self, name: str) -> PluginEntry:
        """How to make a plugin; raises Unknown, or BadConfiguration if it cannot be loaded."""
        entry = self._known.get(name)
        if entry is None:
            entry = self._known[name] = PluginEntry(_maker(name, self._load(name)), name)
        return entry

    def is_ours(self, name: str) -> bool:
        """Tell whether a plugin came with Holdfast."""
        return name in self.ours

    def _load(self, name: str) -> Any:
        if ":" not in name:
            return self._installed(name)
        if not self._foreign:
            raise BadConfiguration(
                f'plugin "{name}" is your own code, which is loaded only for a configuration that '
                "stands in a file: use --config FILE"
            )
        module, _, attribute = name.partition(":")
        if not module or not attribute:
            raise BadConfiguration(f'plugin "{name}" is no name of the form module:Class')
        return _attribute(name, self._module(name, module), attribute)

    def _installed(self, name: str) -> Any:
        points = metadata.entry_points(group=ENTRY_POINTS, name=name)
        if not points or not self._foreign:
            raise Unknown(name)
        try:
            return next(iter(points)).load()
        except Exception as failure:
            _cannot_import(name, next(iter(points)).value, failure)

    def _module(self, name: str, module: str) -> Any:
        if self._beside is not None and str(self._beside) not in sys.path:
            sys.path.append(str(self._beside))
        try:
            return importlib.import_module(module)
        except Exception as failure:
            _cannot_import(name, module, failure)


def _cannot_import(name: str, module: str, failure: Exception) -> NoReturn:
    if isinstance(failure, ModuleNotFoundError):
        advice = "install the package, or put the module beside the configuration file"
        raise BadConfiguration(
            f'plugin "{name}": cannot import {module}: {failure}: {advice}'
        ) from failure
    raise BadConfiguration(
        f'plugin "{name}": importing {module} failed: {type(failure).__name__}: {failure}'
    ) from failure


def _attribute(name: str, module: Any, attribute: str) -> Any:
    found = getattr(module, attribute, None)
    if found is None:
        mine = sorted(
            word
            for word, value in vars(module).items()
            if inspect.isclass(value) and value.__module__ == module.__name__
        )
        there = f"there are {', '.join(mine)}" if mine else "there is none at all"
        raise BadConfiguration(
            f'plugin "{name}": {module.__name__} has no class {attribute}; {there}'
        )
    return found


def _maker(name: str, kind: Any) -> Factory:
    """Check a class before anything of it runs, and make a factory of it."""
    if not inspect.isclass(kind):
        raise BadConfiguration(f'plugin "{name}" is not a class but {kind!r}')
    given = getattr(kind, "name", None)
    if not isinstance(given, str) or not given:
        raise BadConfiguration(
            f'plugin "{name}": class {kind.__name__} has no name: '
            f'write `name = "{kind.__name__}"` in it'
        )
    if not issubclass(kind, PerNodePlugin):
        _check_points(name, kind)
    construct: Any = kind

    def make(args: Args) -> Plugin:
        plugin: Plugin | PerNodePlugin = construct(args)
        if isinstance(plugin, PerNodePlugin):
            return columnar(plugin)
        if fault := declaration_fault(plugin):
            raise BadConfiguration(f'plugin "{name}": {fault}')
        return plugin

    return make


def _check_points(name: str, kind: type) -> None:
    """Refuse a class that is part of nothing, or only half of something."""
    found = [method for method in _PROTOCOLS if callable(getattr(kind, method, None))]
    if not found:
        raise BadConfiguration(
            f'plugin "{name}": class {kind.__name__} implements no extension point: it has none '
            f"of {', '.join(_PROTOCOLS)}; for one node at a time derive it from PerNodePlugin"
        )
    for method in found:
        parts = methods_of(_PROTOCOLS[method])
        missing = [part for part in parts if getattr(kind, part, None) is None]
        if missing:
            raise BadConfiguration(
                f'plugin "{name}": class {kind.__name__} has {method} and not '
                f"{', '.join(missing)}, which belong to it (see holdfast.framework.plugin)"
            )
