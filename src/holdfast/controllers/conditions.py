"""Conditions as controllers write them: raw, with transition times that mean something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.api.meta import Condition

Raw = dict[str, Any]


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Look a condition up by its type."""
    return next((c for c in conditions if c.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Tell whether a condition is there and True."""
    found = find(conditions, type_)
    return found is not None and found.status == "True"


def to_raw(conditions: Iterable[Condition]) -> list[Raw]:
    """Write conditions back as they were read."""
    return [msgspec.to_builtins(c) for c in conditions]


def with_condition(conditions: Iterable[Condition], new: Raw) -> list[Raw]:
    """Write conditions with ``new`` in the place of the one of its type, or at the end."""
    kept = to_raw(conditions)
    for index, old in enumerate(kept):
        if old.get("type", "") == new["type"]:
            kept[index] = new
            return kept
    return [*kept, new]


def set_condition(conditions: list[Raw], new: Mapping[str, Any], now: str) -> bool:
    """Put a condition into the list, in place, and tell whether anything changed.

    ``new`` has type and status and whatever else it says (reason, message, observedGeneration).
    ``now`` becomes its ``lastTransitionTime`` only when the status is another than before;
    fields that ``new`` does not mention stay.

    >>> found = [{"type": "Ready", "status": "True", "lastTransitionTime": "T0"}]
    >>> set_condition(found, {"type": "Ready", "status": "True"}, "T1"), found[0]
    (False, {'type': 'Ready', 'status': 'True', 'lastTransitionTime': 'T0'})
    """
    old = next((c for c in conditions if c.get("type") == new["type"]), None)
    if old is None:
        conditions.append({"lastTransitionTime": now, **new})
        return True
    before = dict(old)
    old.update(new)
    if "lastTransitionTime" not in new and (
        before.get("status") != new["status"] or not before.get("lastTransitionTime")
    ):
        old["lastTransitionTime"] = now
    return old != before
