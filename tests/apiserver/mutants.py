"""Mutants: objects with one field removed, null, of a wrong type or empty."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]
REMOVED = object()
WRONG: tuple[Any, ...] = (None, "", "x", 7, -1.5, True, [], {}, [None], ["x"], {"x": 1}, [{}])


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values in a value."""
    below = value.items() if isinstance(value, dict) else enumerate(value)
    for name, one in below:
        yield (*above, name)
        if isinstance(one, dict | list):
            yield from paths(one, (*above, name))


def mutant(obj: Any, path: Path, value: Any) -> Any:
    """Return a copy of an object with another value at a path, or without the path."""
    made = copy.deepcopy(obj)
    holder = made
    for step in path[:-1]:
        holder = holder[step]
    if value is REMOVED:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(value)
    return made


def mutants(
    obj: Any, wrong: tuple[Any, ...] = WRONG, each: int | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the mutants of an object, each with a description.

    With ``each`` every path gets only that many of the wrong values, in turn.
    """
    for number, path in enumerate(paths(obj)):
        yield f"{path} removed", mutant(obj, path, REMOVED)
        first = 0 if each is None else number * each
        for place in range(first, first + (len(wrong) if each is None else each)):
            value = wrong[place % len(wrong)]
            yield f"{path} = {value!r}", mutant(obj, path, value)
