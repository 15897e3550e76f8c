"""Conditions in raw objects: one entry a type, with a transition time that means something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RawCondition = dict[str, Any]


def find_condition(conditions: list[RawCondition], type_: str) -> RawCondition | None:
    """Look a condition up by its type."""
    return next((c for c in conditions if c.get("type") == type_), None)


def set_condition(conditions: list[RawCondition], new: Mapping[str, Any], now: str) -> bool:
    """Put a condition into the list, in place, and tell whether anything changed.

    ``new`` has type and status and whatever else it says (reason, message, observedGeneration).
    ``now`` becomes its ``lastTransitionTime`` only when the status is another than before;
    fields that ``new`` does not mention stay.

    >>> found = [{"type": "Ready", "status": "True", "lastTransitionTime": "T0"}]
    >>> set_condition(found, {"type": "Ready", "status": "True"}, "T1"), found[0]
    (False, {'type': 'Ready', 'status': 'True', 'lastTransitionTime': 'T0'})
    """
    old = find_condition(conditions, new["type"])
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


def is_true(conditions: list[RawCondition], type_: str) -> bool:
    """Tell whether a condition is there and True."""
    found = find_condition(conditions, type_)
    return found is not None and found.get("status") == "True"
