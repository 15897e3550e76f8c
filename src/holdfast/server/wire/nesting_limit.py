"""Limits on the nesting of JSON values that clients send."""

from __future__ import annotations

from typing import Any

from holdfast.runtime.errors import BadRequest

DEPTH_LIMIT = 200
PATH_LIMIT = 8 * 1024
"""The most characters in the path of a field."""
_COLLECTIONS = (dict, list)


def too_deep(depth: int = DEPTH_LIMIT) -> BadRequest:
    """Build the error for a value nested deeper than a limit."""
    return BadRequest(f"the object is nested more than {depth} levels deep")


def check_nesting(value: Any, depth: int = DEPTH_LIMIT) -> None:
    """Raise BadRequest for a value that is nested too deep or has too long field paths.

    Code that walks the value recurses once per level and builds the path of each field.

    >>> check_nesting([[[[1]]]], 2)
    Traceback (most recent call last):
    holdfast.runtime.errors.BadRequest: the object is nested more than 2 levels deep
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
    """Return the non-empty collections in a value, with the lengths of their paths."""
    if isinstance(value, dict):
        return [(path + len(k), [v]) for k, v in value.items() if v and type(v) in _COLLECTIONS]
    if isinstance(value, list):
        collections = [v for v in value if v and type(v) in _COLLECTIONS]
        return [(path, collections)] if collections else []
    return []
