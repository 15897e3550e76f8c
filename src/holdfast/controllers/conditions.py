"""Read and set conditions; the transition time changes only with the status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.meta import Condition


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions if c.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Return whether a condition of this type exists and is True."""
    condition = find(conditions, type_)
    return condition is not None and condition.status == "True"


def to_raw(conditions: Iterable[Condition]) -> list[JsonObject]:
    """Return conditions in raw form."""
    return [msgspec.to_builtins(c) for c in conditions]


def with_condition(conditions: Iterable[Condition], new: JsonObject) -> list[JsonObject]:
    """Return raw conditions in which ``new`` replaces the one of its type, or is appended."""
    kept = to_raw(conditions)
    for index, old in enumerate(kept):
        if old.get("type", "") == new["type"]:
            kept[index] = new
            return kept
    return [*kept, new]


def set_condition(conditions: list[JsonObject], new: Mapping[str, Any], now: str) -> bool:
    """Set a condition in the list, in place, and return whether the list changed.

    ``new`` has type and status, and possibly reason, message and observedGeneration; other fields
    of the old condition are kept. ``now`` becomes the ``lastTransitionTime`` if the status changed.

    >>> conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "T0"}]
    >>> set_condition(conditions, {"type": "Ready", "status": "True"}, "T1"), conditions[0]
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
