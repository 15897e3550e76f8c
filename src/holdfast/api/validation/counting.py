"""Count the entries of lists and maps against a table of field paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Branch:
    """One field: its maximum number of entries, if there is one, and the fields below it."""

    name: str
    attribute: str
    """The name of the field on a typed object."""
    most: int | None = None
    most_requirements: int | None = None
    """The maximum number of requirements of all selectors below it together."""
    below: list[Branch] = field(default_factory=list)


Tree = list[Branch]
ALL = "{}"
"""Ends a path whose limit is for the requirements of all selectors below it together."""
REQUIREMENTS = frozenset({"matchExpressions", "matchFields", "matchLabels"})


def tree_of(table: Mapping[str, int]) -> Tree:
    """Arrange a table of field paths as a tree, so that an object is walked once.

    >>> [branch.name for branch in tree_of({"spec.taints": 4, "spec.podCIDRs": 2})[0].below]
    ['taints', 'podCIDRs']
    """
    tree: Tree = []
    for path, most in table.items():
        *way, last = path.replace("[]", "").removesuffix(ALL).split(".")
        below = tree
        for name in way:
            below = _branch(below, name).below
        if path.endswith(ALL):
            _branch(below, last).most_requirements = most
        else:
            _branch(below, last).most = most
    return tree


def _branch(tree: Tree, name: str) -> Branch:
    """Return the branch of a name, created if there is none."""
    branch = next((b for b in tree if b.name == name), None)
    if branch is None:
        branch = Branch(name, _snake(name))
        tree.append(branch)
    return branch


def find_excess(tree: Tree, obj: Any, path: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield (path, count, maximum) of every list or map that has too many entries.

    ``obj`` is JSON or a typed object. The entries of a list that is too long are not checked;
    fields of an unexpected type are skipped.
    """
    for branch in tree:
        value = _field(obj, branch)
        if not value:
            continue
        most = branch.most
        if most is not None and isinstance(value, list | tuple | dict) and len(value) > most:
            yield f"{path}{branch.name}", len(value), most
        elif branch.below:
            yield from _below(branch, value, f"{path}{branch.name}")


def _below(branch: Branch, value: Any, path: str) -> Iterator[tuple[str, int, int]]:
    fine = True
    listed = isinstance(value, list | tuple)
    for i, entry in enumerate(value if listed else (value,)):
        for excess in find_excess(branch.below, entry, f"{path}[{i}]." if listed else f"{path}."):
            fine = False
            yield excess
    most = branch.most_requirements
    if most is not None and fine and (total := _requirements(branch, value)) > most:
        yield path, total, most


def _requirements(branch: Branch, value: Any) -> int:
    """Count the requirements of all selectors in the value of a field."""
    if branch.name in REQUIREMENTS:
        return len(value) if isinstance(value, list | tuple | dict) else 0
    entries = value if isinstance(value, list | tuple) else (value,)
    return sum(
        _requirements(below, inner)
        for entry in entries
        for below in branch.below
        if (inner := _field(entry, below))
    )


def _field(obj: Any, branch: Branch) -> Any:
    if isinstance(obj, dict):
        return obj.get(branch.name)
    return getattr(obj, branch.attribute, None)


def _snake(name: str) -> str:
    """Convert a JSON field name to the attribute of a typed object.

    >>> _snake("topologySpreadConstraints")
    'topology_spread_constraints'
    """
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
