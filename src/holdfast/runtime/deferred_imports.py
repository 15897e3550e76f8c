"""Names of a package that are imported when first used.

``import holdfast.client`` runs before any module of the package is imported, so imports in its
``__init__`` would cost every command 0.3 s for the HTTP client, and would load the API server in
every test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def deferred(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, from the module of each name.

    A module is a name below the package, with ``:attribute`` if it has another name there.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = modules[name].partition(":")
        return getattr(import_module(f"{package}.{module}"), attribute or name)

    return get
