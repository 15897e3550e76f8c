"""How deep the values that clients send may be nested, whatever form they come in."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadRequest

DEPTH_LIMIT = 200
PATH_LIMIT = 8 * 1024
"""The most characters of all names on the way from the root to a field."""
_COLLECTIONS = (dict, list)


def too_deep(depth: int = DEPTH_LIMIT) -> BadRequest:
    """Build the error for a value that is nested deeper than a limit."""
    return BadRequest(f"the object is nested more than {depth} levels deep")


def check_nesting(value: Any, depth: int = DEPTH_LIMIT) -> None:
    """Refuse what is nested too deep, or below names too long, for code that walks it.

    Depth costs stack. The names on the way to a field are its path, which is written out for
    each field below.

    >>> check_nesting([[[[1]]]], 2)
    Traceback (most recent call last):
    holdfast.errors.BadRequest: the object is nested more than 2 levels deep
    """
    level: list[tuple[int, list[Any]]] = [(0, [value])]  # values below a path of this length
    for _ in range(depth + 1):
        inner: list[tuple[int, list[Any]]] = []
        for path, values in level:
            for item in values:
                inner += _below(path, item)
        if not inner:
            return
        if any(path > PATH_LIMIT for path, _ in inner):
            raise BadRequest(f"the path of a field is longer than {PATH_LIMIT} characters")
        level = inner
    raise too_deep(depth)


def _below(path: int, value: Any) -> list[tuple[int, list[Any]]]:
    """List the collections in a value; empty ones are left out."""
    if isinstance(value, dict):
        return [(path + len(k), [v]) for k, v in value.items() if v and type(v) in _COLLECTIONS]
    if isinstance(value, list):
        found = [v for v in value if v and type(v) in _COLLECTIONS]
        return [(path, found)] if found else []
    return []
