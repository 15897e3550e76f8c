"""Count the entries of lists and maps against a table of field paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Branch:
    """One field: the most entries it may have, if that is limited, and the fields below it."""

    name: str
    attribute: str
    """The field's name on a typed object."""
    most: int | None = None
    below: list[Branch] = field(default_factory=list)


Tree = list[Branch]


def tree_of(table: Mapping[str, int]) -> Tree:
    """Arrange a table of field paths so that an object is walked once.

    >>> [branch.name for branch in tree_of({"spec.taints": 4, "spec.podCIDRs": 2})[0].below]
    ['taints', 'podCIDRs']
    """
    tree: Tree = []
    for path, most in table.items():
        *way, last = path.replace("[]", "").split(".")
        below = tree
        for name in way:
            below = _branch(below, name).below
        _branch(below, last).most = most
    return tree


def _branch(tree: Tree, name: str) -> Branch:
    """Find the branch of a name, made if it is not there yet."""
    branch = next((b for b in tree if b.name == name), None)
    if branch is None:
        branch = Branch(name, _snake(name))
        tree.append(branch)
    return branch


def count_beyond(tree: Tree, obj: Any, path: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield (path, count, most) of every list or map that has too many entries.

    ``obj`` is JSON or a typed object. What lies below a list that is too long is not looked at;
    fields of another type than expected are passed over.
    """
    as_json = isinstance(obj, dict)
    for branch in tree:
        value = obj.get(branch.name) if as_json else getattr(obj, branch.attribute, None)
        if not value:
            continue
        most = branch.most
        if most is not None and isinstance(value, list | tuple | dict) and len(value) > most:
            yield f"{path}{branch.name}", len(value), most
        elif branch.below and isinstance(value, list | tuple):
            for i, entry in enumerate(value):
                yield from count_beyond(branch.below, entry, f"{path}{branch.name}[{i}].")
        elif branch.below:
            yield from count_beyond(branch.below, value, f"{path}{branch.name}.")


def _snake(name: str) -> str:
    """Write a JSON field name as the attribute of a typed object.

    >>> _snake("topologySpreadConstraints")
    'topology_spread_constraints'
    """
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
