"""Check the entries of lists and maps of raw objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.runtime.errors import Cause

ItemCheck = Callable[[Any, str], Iterable[Cause]]
"""Yield what is wrong with an item, given its path."""
_ELLIPSIS = "..."


def check_list(items: Sequence[Any], most: int, check: ItemCheck, path: str) -> Iterator[Cause]:
    """Check every item of a list; if it is too long, only the length is reported."""
    if len(items) > most:
        yield field_errors.too_many(path, len(items), most)
        return
    for i, item in enumerate(items):
        yield from check(item, f"{path}[{i}]")


def check_set(
    items: Sequence[Any],
    most: int,
    check: ItemCheck,
    key: Callable[[Any], Hashable],
    path: str,
) -> Iterator[Cause]:
    """Check a list whose items must have distinct keys."""
    yield from check_list(items, most, check, path)
    if len(items) <= most:
        yield from check_distinct([key(item) for item in items], path)


def check_distinct(keys: Iterable[Hashable], path: str) -> Iterator[Cause]:
    """Yield the keys that occurred before in their list."""
    seen: set[Hashable] = set()
    for i, key in enumerate(keys):
        if key in seen:
            yield field_errors.duplicate(f"{path}[{i}]", key)
        seen.add(key)


def check_map(
    entries: JsonMapping, check_key: ItemCheck, check: ItemCheck, path: str, longest_key: int
) -> Iterator[Cause]:
    """Check keys and values of a map; long keys are shortened in paths."""
    for key, value in entries.items():
        yield from check_key(key, path)
        yield from check(value or {}, f"{path}[{shortened(key, longest_key)}]")


def shortened(text: str, most: int) -> str:
    """Cut the middle out of a text that is too long.

    >>> shortened("abcdefghijklmnopqrstuvwxyz", 16)
    'abcdefg...uvwxyz'
    """
    if len(text) <= most:
        return text
    left = most - len(_ELLIPSIS)
    return text[: (left + 1) // 2] + _ELLIPSIS + text[len(text) - left // 2 :]


def is_same(new: Any, old: Any) -> bool:
    """Return whether two JSON values mean the same: nulls and empty values count as absent."""
    return bool(without_empty(new) == without_empty(old))


def without_empty(value: Any) -> Any:
    """Return a JSON value without nulls and empty values."""
    if isinstance(value, dict):
        parts = ((key, without_empty(part)) for key, part in value.items())
        return {key: part for key, part in parts if part not in (None, {}, [])}
    return [without_empty(item) for item in value] if isinstance(value, list) else value
