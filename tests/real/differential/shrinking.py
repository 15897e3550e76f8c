"""Minimize a differing case: remove the objects and fields that the difference does not need."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from real.differential.comparison import REFUSED, differences
from real.differential.dice import Raw
from real.differential.families import Case
from real.differential.referee import ask_both

Path = tuple[Any, ...]
_KEPT = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"),
         ("metadata", "uid")}  # fmt: skip


def shrink(case: Case, seconds: float) -> Case:
    """Remove objects and fields while the difference remains, for at most ``seconds``."""
    wanted, end = _fields(case), time.monotonic() + seconds
    smaller: Case | None = case
    while smaller is not None and time.monotonic() < end:
        case = smaller
        smaller = _fewer_objects(case, wanted) or _fewer_fields(case, wanted)
    return case


def _fields(case: Case) -> set[str]:
    (theirs,), (ours,) = ask_both([case])
    return {_field(found) for found in differences(theirs, ours)}


def _field(difference: str) -> str:
    """Return the field of a difference without the node's name."""
    head, _, tail = difference.partition(":")[0].partition(".")
    return tail or head


def _first(cases: list[Case], wanted: set[str]) -> Case | None:
    """Return the first case that still differs in one of the wanted fields."""
    theirs, ours = ask_both(cases)
    for case, one, other in zip(cases, theirs, ours, strict=True):
        found = differences(one, other)
        if any(REFUSED in words for words in found):
            continue
        if wanted & {_field(words) for words in found}:
            return case
    return None


def _fewer_objects(case: Case, wanted: set[str]) -> Case | None:
    others = [o for o in case.objects if not _is_pod(o, case)]
    subject = [o for o in case.objects if _is_pod(o, case)]
    found = _fewer(others, lambda kept: case.having([*kept, *subject]), wanted)
    return found


def _fewer_fields(case: Case, wanted: set[str]) -> Case | None:
    paths = [
        (at, *path)
        for at, obj in enumerate(case.objects)
        for path in _paths(obj)
        if path not in _KEPT
    ]
    # Outer fields first: removing one removes all its inner fields.
    for depth in sorted({len(path) for path in paths}):
        tried = [case.having(_without(case.objects, p)) for p in paths if len(p) == depth]
        found = _first(tried, wanted) if tried else None
        if found is not None:
            return found
    return None


def _fewer(
    items: Sequence[Raw], made: Callable[[list[Raw]], Case], wanted: set[str]
) -> Case | None:
    """Return the case without some of the items, trying larger parts first."""
    size = max(len(items) // 2, 1)
    while items and size:
        tried = [
            made([*items[:start], *items[start + size :]]) for start in range(0, len(items), size)
        ]
        found = _first(tried, wanted)
        if found is not None:
            return found
        size //= 2
    return None


def _is_pod(obj: Raw, case: Case) -> bool:
    meta = obj["metadata"]
    return obj["kind"] == "Pod" and f"{meta.get('namespace')}/{meta['name']}" == case.pod


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in inner:
        yield (*path, key)
        if isinstance(child, dict | list):
            yield from _paths(child, (*path, key))


def _without(objects: list[Raw], path: Path) -> list[Raw]:
    at, *steps, last = path
    changed = copy.deepcopy(objects[at])
    place: Any = changed
    for step in steps:
        place = place[step]
    del place[last]
    return [*objects[:at], changed, *objects[at + 1 :]]
