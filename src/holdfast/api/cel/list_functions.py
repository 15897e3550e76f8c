"""Functions on lists, searches in texts, and functions that the engine's macros need."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

import re2

from holdfast.api.patterns import PatternError, matcher
from holdfast.api.quantity import MAX_INT64
from holdfast.runtime.errors import BadRequest

INCLUDES_LIMIT = 48
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_OPTIONS, _SMALL = re2.Options(), re2.Options()
_OPTIONS.log_errors = _SMALL.log_errors = False
_SMALL.max_mem = 24 << 10
LARGEST_COMPUTED_PROGRAM = 2000
"""The most instructions of a pattern that is not a constant, with the memory above."""
COMPUTED_PATTERNS: Mapping[str, str] = {
    "matches": "@matches", "find": "@find", "findAll": "@findAll",
}  # fmt: skip
"""Functions whose pattern is not a constant; the size of the pattern is limited."""


def _same(a: Any, b: Any) -> bool:
    """Return whether two values are equal in CEL: booleans never equal numbers."""
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _includes(value: Any, item: Any) -> bool:
    if not isinstance(value, list):
        return _same(value, item)
    if any(_same(one, item) for one in value[:INCLUDES_LIMIT]):
        return True
    if len(value) > INCLUDES_LIMIT:
        raise BadRequest(
            f"'includes' function cannot be applied to lists longer than {INCLUDES_LIMIT} values"
        )
    return False


def _ordered(items: list[Any]) -> list[Any]:
    kinds = {bool if isinstance(one, bool) else float if isinstance(one, int) else type(one)
             for one in items}  # fmt: skip
    if len(kinds) > 1 or kinds & {list, dict, type(None)}:
        raise BadRequest("no such overload")
    return items


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(_ordered(items)))


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def pick(items: list[Any]) -> Any:
        if not items:
            raise BadRequest(f"{choose.__name__} called on empty list")
        return choose(_ordered(items))

    return pick


def _sum(items: list[Any]) -> Any:
    if any(isinstance(one, bool | str | bytearray) for one in items):
        raise BadRequest("no such overload")
    total = sum(_ordered(items))
    if isinstance(total, int) and not -MAX_INT64 - 1 <= total <= MAX_INT64:
        raise BadRequest("integer overflow")
    return total


def _sum_durations(items: list[timedelta]) -> timedelta:
    try:
        return sum(items, timedelta())
    except OverflowError:
        raise BadRequest("duration overflow") from None


def _index_of(value: Any, item: Any) -> int:
    if isinstance(value, str):
        return value.find(_text(item))
    return next((i for i, one in enumerate(value) if _same(one, item)), -1)


def _last_index_of(value: Any, item: Any) -> int:
    if isinstance(value, str):
        return value.rfind(_text(item))
    return next((i for i in range(len(value) - 1, -1, -1) if _same(value[i], item)), -1)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadRequest("no such overload")
    return value


def _substring(text: str, start: int, end: int) -> str:
    """Return a part of a text; the engine refuses the part up to the end."""
    if start > end:
        raise BadRequest(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise BadRequest(f"index out of range: {index}")
    return text[start:end]


@lru_cache(maxsize=256)
def _pattern(pattern: str, options: Any = _OPTIONS) -> Any:
    try:
        matcher(pattern)
        return re2.compile(pattern, options)
    except PatternError as wrong:
        raise BadRequest(f"Illegal regex: {wrong}") from None
    except re2.error:
        raise BadRequest("Illegal regex: a pattern that is not a constant is too large") from None


def _find(text: str, pattern: str, options: Any = _OPTIONS) -> str:
    match = _pattern(pattern, options).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1, options: Any = _OPTIONS) -> list[str]:
    """Return all matches; as in Go, an empty match right after another does not count."""
    matches: list[str] = []
    end = -1
    for match in _pattern(pattern, options).finditer(text):
        if len(matches) == limit:
            break
        if match.end() > match.start() or match.start() != end:
            matches.append(match[0])
        end = match.end()
    return matches


def _map_of(entries: list[Any]) -> dict[Any, Any]:
    """Return a map of ``[key, value]`` pairs, or of maps; the keys must differ."""
    mapping: dict[Any, Any] = {}
    for entry in entries:
        pairs = entry.items() if isinstance(entry, dict) else [entry]
        for key, value in pairs:
            if key in mapping:
                raise BadRequest(f"insert failed: key {key} already exists")
            mapping[key] = value
    return mapping


def _comparable(value: Any) -> Hashable:
    """Return a key that is equal for equal values; booleans never equal numbers."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return (list, *map(_comparable, value))
    if isinstance(value, dict):
        return (dict, frozenset((_comparable(k), _comparable(v)) for k, v in value.items()))
    return (bool(value), bool) if isinstance(value, bool) else value


def _as_set(items: list[Any]) -> set[Hashable]:
    return set(map(_comparable, items))


def _same_items(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and _as_set(a) == _as_set(b)


def _set_sum(a: list[Any], b: list[Any]) -> list[Any]:
    known = _as_set(a)
    return [*a, *(one for one in b if _comparable(one) not in known)]


def _map_sum(a: list[Any], b: list[Any], keys: list[str]) -> list[Any]:
    """Return the items of two lists whose items have keys; those of the second replace others."""
    merged = {_comparable([one.get(key) for key in keys]): one for one in (*a, *b)}
    return list(merged.values())


MAP_OF = "@map_of"
SUBSTRING = "string_substring_int_int"
SAME_ITEMS, SET_SUM, MAP_SUM = "@same_items", "@set_sum", "@map_sum"
OWN: Mapping[str, str] = {
    "sets.contains": "@sets_contain",
    "sets.equivalent": "@sets_are_equivalent",
    "sets.intersects": "@sets_intersect",
}
"""Functions that the engine has too, but in quadratic time."""
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"list_{kind}_is_sorted_bool": _is_sorted for kind in _COMPARABLE},
    **{f"list_{kind}_min_{kind}": _extreme(min) for kind in _COMPARABLE},
    **{f"list_{kind}_max_{kind}": _extreme(max) for kind in _COMPARABLE},
    **{f"list_{kind}_sum_{kind}": _sum for kind in ("int", "uint", "double")},
    "list_duration_sum_duration": _sum_durations,
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    SUBSTRING: _substring,
    "@matches": lambda text, pattern: _pattern(pattern, _SMALL).search(text) is not None,
    "@find": lambda text, pattern: _find(text, pattern, _SMALL),
    "@findAll": lambda text, pattern, limit=-1: _find_all(text, pattern, limit, _SMALL),
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
    "dra_includes_dyn_dyn": _includes,
    MAP_OF: _map_of,
    SAME_ITEMS: _same_items,
    SET_SUM: _set_sum,
    MAP_SUM: _map_sum,
    "@sets_contain": lambda a, b: _as_set(a) >= _as_set(b),
    "@sets_are_equivalent": lambda a, b: _as_set(a) == _as_set(b),
    "@sets_intersect": lambda a, b: not _as_set(a).isdisjoint(_as_set(b)),
}
"""By overload."""
