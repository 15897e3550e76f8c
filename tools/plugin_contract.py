"""Find the classes of the plugin contract, and the classes that implement them.

A point of the contract is a public class of the framework (a module below ``framework`` or
``contract``) of one of these kinds:

- ``Plugin``, and every class that is derived from it: the protocols of the extension points;
- a class that leaves a method to the author (its body is ``...``, it is abstract or raises
  NotImplementedError) and is not a protocol, such as ``PerNodePlugin``;
- a class from which a class of ``plugins`` is derived, and classes derived from that in the
  framework: base classes with defaults, such as ``NodeFilter``.

Data classes are not points: structs, enums, named tuples, exceptions. The other protocols of the
framework are not points either: ledgers and the scheduler implement them, not plugins.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_modules import Function, Module

FRAMEWORK = {"framework", "contract"}
DATA = {"Struct", "Enum", "IntEnum", "StrEnum", "NamedTuple", "Exception", "ValueError"}


class Contract:
    """The points of the plugin contract, and the other protocols of the framework."""

    def __init__(self, modules: list[Module]) -> None:
        self._own = dict(_classes(m for m in modules if FRAMEWORK & set(m.parts)))
        self._plugins = dict(_classes(m for m in modules if "plugins" in m.parts))
        bases = {base for node in self._plugins.values() for base in _bases(node)}
        roots = {
            name
            for name, node in self._own.items()
            if name == "Plugin" or name in bases or _leaves_a_method(node)
        }
        self.points = [
            name
            for name, node in self._own.items()
            if not name.startswith("_")
            and ({name} | self._ancestors(node)) & roots
            and not self._ancestors(node) & DATA
        ]
        self.other_protocols = [
            name
            for name, node in self._own.items()
            if "Protocol" in _bases(node) and name not in self.points
        ]

    def rarely_implemented(self) -> dict[str, list[str]]:
        """Return the points that at most one class of ``plugins`` implements, with that class.

        A class implements a point if it is derived from it, or declares traits (so it is a plugin)
        and has all methods of the point.
        """
        implementers = {
            point: [name for name, node in self._plugins.items() if self._implements(node, point)]
            for point in self.points
            if point != "Plugin"
        }
        return {point: names for point, names in implementers.items() if len(names) < 2}

    def _implements(self, node: ast.ClassDef, point: str) -> bool:
        ancestors = self._ancestors(node)
        members = _members(node)
        for name in ancestors & self._plugins.keys():
            members |= _members(self._plugins[name])
        methods = {name for name in _members(self._own[point]) if not name.startswith("_")}
        return point in ancestors or ("traits" in members and methods <= members)

    def _ancestors(self, node: ast.ClassDef) -> set[str]:
        """Return the names of all bases that are known by name."""
        names, waiting = set(), _bases(node)
        while waiting:
            name = waiting.pop()
            if name not in names:
                names.add(name)
                if known := self._own.get(name) or self._plugins.get(name):
                    waiting |= _bases(known)
        return names


def _classes(modules: Iterator[Module]) -> Iterator[tuple[str, ast.ClassDef]]:
    for module in modules:
        yield from ((n.name, n) for n in module.tree.body if isinstance(n, ast.ClassDef))


def _bases(node: ast.ClassDef) -> set[str]:
    """Return the names of the direct bases, without modules and type arguments."""
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def _members(node: ast.ClassDef) -> set[str]:
    """Return the names of methods and of attributes that have a value."""
    names = {n.name for n in node.body if isinstance(n, Function)}
    targets = (n.targets[0] for n in node.body if isinstance(n, ast.Assign))
    annotated = (n.target for n in node.body if isinstance(n, ast.AnnAssign))
    return names | {t.id for t in (*targets, *annotated) if isinstance(t, ast.Name)}


def _leaves_a_method(node: ast.ClassDef) -> bool:
    return "Protocol" not in _bases(node) and any(
        any(ast.unparse(d).endswith("abstractmethod") for d in n.decorator_list)
        or ast.unparse(n.body[-1]) in ("...", "raise NotImplementedError")
        for n in node.body
        if isinstance(n, Function)
    )
