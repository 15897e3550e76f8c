"""Conditions as controllers write them: raw, with transition times that mean something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api.meta import Condition

Raw = dict[str, Any]


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Look a condition up by its type."""
    return next((c for c in conditions if c.type == type_), None)


def holds(conditions: Iterable[Condition], type_: str) -> bool:
    """Tell whether a condition is there and True."""
    found = find(conditions, type_)
    return found is not None and found.status == "True"


def raw(conditions: Iterable[Condition]) -> list[Raw]:
    """Write conditions back as they were read."""
    return [msgspec.to_builtins(c) for c in conditions]


def replaced(conditions: Iterable[Condition], new: Raw) -> list[Raw]:
    """Write conditions with ``new`` in the place of the one of its type, or at the end."""
    kept = raw(conditions)
    for index, old in enumerate(kept):
        if old.get("type", "") == new["type"]:
            kept[index] = new
            return kept
    return [*kept, new]
