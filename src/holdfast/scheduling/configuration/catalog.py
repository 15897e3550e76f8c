"""Find plugins: built-in ones by name, a user's as ``module:Class`` or by entry point."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from holdfast.runtime.errors import BadConfiguration
from holdfast.scheduling.engine.profile import Factory, PluginEntry
from holdfast.scheduling.framework.arguments import Args
from holdfast.scheduling.framework.declarations import declaration_fault
from holdfast.scheduling.framework.per_node import PerNodePlugin, columnar
from holdfast.scheduling.framework.plugin import Plugin
from holdfast.scheduling.framework.points import Point, has_point
from holdfast.scheduling.plugins import REGISTRY

ENTRY_POINTS = "holdfast.plugins"


class UnknownPlugin(LookupError):
    """No plugin has this name."""


class Catalog:
    """Find plugins by name; without ``load_user_code`` only built-in ones.

    A user's modules are searched in Python's path, then in ``module_dir``.
    """

    def __init__(
        self,
        registry: Sequence[PluginEntry] = REGISTRY,
        *,
        load_user_code: bool = True,
        module_dir: Path | None = None,
    ) -> None:
        self.registry = registry
        self.built_in_names = tuple(entry.name for entry in registry)
        self._known = {entry.name: entry for entry in registry}
        self._load_user_code = load_user_code
        self._module_dir = module_dir

    def find(self, name: str) -> PluginEntry:
        """Return a plugin's entry; raise UnknownPlugin, or BadConfiguration if it does not load."""
        entry = self._known.get(name)
        if entry is None:
            entry = self._known[name] = PluginEntry(_maker(name, self._load(name)), name)
        return entry

    def is_built_in(self, name: str) -> bool:
        """Return whether a plugin is part of Holdfast."""
        return name in self.built_in_names

    def _load(self, name: str) -> Any:
        if ":" not in name:
            return self._installed(name)
        if not self._load_user_code:
            raise BadConfiguration(
                f'plugin "{name}" is your own code, which is loaded only for a configuration in a '
                "file: use --config FILE"
            )
        module, _, attribute = name.partition(":")
        if not module or not attribute:
            raise BadConfiguration(f'plugin "{name}": the name must have the form module:Class')
        return _attribute(name, self._module(name, module), attribute)

    def _installed(self, name: str) -> Any:
        points = metadata.entry_points(group=ENTRY_POINTS, name=name)
        if not points or not self._load_user_code:
            raise UnknownPlugin(name)
        try:
            return next(iter(points)).load()
        except Exception as failure:
            _cannot_import(name, next(iter(points)).value, failure)

    def _module(self, name: str, module: str) -> Any:
        if self._module_dir is not None and str(self._module_dir) not in sys.path:
            sys.path.append(str(self._module_dir))
        try:
            return importlib.import_module(module)
        except Exception as failure:
            _cannot_import(name, module, failure)


def _cannot_import(name: str, module: str, failure: Exception) -> NoReturn:
    if isinstance(failure, ModuleNotFoundError):
        advice = "install the package, or put the module next to the configuration file"
        raise BadConfiguration(
            f'plugin "{name}": cannot import {module}: {failure}: {advice}'
        ) from failure
    raise BadConfiguration(
        f'plugin "{name}": importing {module} failed: {type(failure).__name__}: {failure}'
    ) from failure


def _attribute(name: str, module: Any, attribute: str) -> Any:
    plugin_class = getattr(module, attribute, None)
    if plugin_class is None:
        mine = sorted(
            word
            for word, value in vars(module).items()
            if inspect.isclass(value) and value.__module__ == module.__name__
        )
        there = f"it has {', '.join(mine)}" if mine else "it has no classes"
        raise BadConfiguration(
            f'plugin "{name}": {module.__name__} has no class {attribute}; {there}'
        )
    return plugin_class


def _maker(name: str, kind: Any) -> Factory:
    """Check a class before any of its code runs, and return a factory for it."""
    if not inspect.isclass(kind):
        raise BadConfiguration(f'plugin "{name}" is not a class: {kind!r}')
    own_name = getattr(kind, "name", None)
    if not isinstance(own_name, str) or not own_name:
        raise BadConfiguration(
            f'plugin "{name}": class {kind.__name__} has no name: '
            f'write `name = "{kind.__name__}"` in it'
        )
    construct: Any = kind

    def make(args: Args) -> Plugin:
        plugin: Plugin | PerNodePlugin = construct(args)
        if isinstance(plugin, PerNodePlugin):
            return columnar(plugin)
        if fault := declaration_fault(plugin):
            raise BadConfiguration(f'plugin "{name}": {fault}')
        if not any(has_point(plugin, point) for point in Point):
            raise BadConfiguration(
                f'plugin "{name}": class {kind.__name__} implements no extension point: it has '
                "neither pre_filter nor another method of Plugin (see docs/plugins.md); to judge "
                "one node at a time derive it from PerNodePlugin"
            )
        return plugin

    return make
