"""The conditions of a Reservation, as everybody who writes them must write them.

===========  ==========================  =====================================================
Scheduled    True/Scheduled              it is on a node
             False/Unschedulable         no node will do; the message says why
Ready        True/Available              owners may draw on it
             False/Waiting               it is on a node, the room is not free yet
             False/Overcommitted         somebody stands in the room past the scheduler
             False/Succeeded, Expired    it is over
Resized      True/Resized                it was edited while it held room, and holds that now
             False/Insufficient          its node has no room for it to grow
             False/Invalid               what it was edited to makes no sense
===========  ==========================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api.meta import Condition
from holdfast.api.timestamps import rfc3339

Raw = dict[str, Any]

SCHEDULED, READY, RESIZED = "Scheduled", "Ready", "Resized"
UNSCHEDULABLE = "Unschedulable"
AVAILABLE, WAITING, OVERCOMMITTED = "Available", "Waiting", "Overcommitted"
SUCCEEDED, EXPIRED = "Succeeded", "Expired"
INSUFFICIENT, INVALID = "Insufficient", "Invalid"


def refused(conditions: Iterable[Condition], message: str, now: float) -> list[Raw]:
    """Write that an attempt found no node.

    A condition that is there already changes its words and its probe time, never its transition
    time; one that says the reservation has its node changes its probe time alone.
    """
    at = rfc3339(now)
    kept = [msgspec.to_builtins(c) for c in conditions]
    old = next((c for c in kept if c.get("type") == SCHEDULED), None)
    if old is None:
        return [*kept, _condition(SCHEDULED, "False", UNSCHEDULABLE, at, message)]
    old["lastProbeTime"] = at
    if old.get("status") != "True":
        old |= {"reason": UNSCHEDULABLE, "message": message}
    return kept


def placed(now: float) -> list[Raw]:
    """Write that it has its node and the room, instead of everything said before."""
    at = rfc3339(now)
    return [
        _condition(SCHEDULED, "True", SCHEDULED, at),
        _condition(READY, "True", AVAILABLE, at),
    ]


def waiting(now: float, message: str) -> list[Raw]:
    """Write that it has its node but must wait for the room, instead of everything before."""
    at = rfc3339(now)
    return [
        _condition(SCHEDULED, "True", SCHEDULED, at),
        _condition(READY, "False", WAITING, at, message),
    ]


def with_ready(
    conditions: Iterable[Condition], status: str, reason: str, now: float, message: str = ""
) -> list[Raw]:
    """Write the conditions with a new Ready; its transition time moves with its status only."""
    return _with(conditions, _condition(READY, status, reason, rfc3339(now), message))


def with_resized(
    conditions: Iterable[Condition], status: str, reason: str, now: float, message: str = ""
) -> list[Raw]:
    """Write the conditions with a new Resized; its transition time moves with its status only."""
    return _with(conditions, _condition(RESIZED, status, reason, rfc3339(now), message))


def without_resized(conditions: Iterable[Condition]) -> list[Raw]:
    """Write the conditions without Resized: what was asked for was taken back."""
    return [msgspec.to_builtins(c) for c in conditions if c.type != RESIZED]


def _with(conditions: Iterable[Condition], new: Raw) -> list[Raw]:
    kept = [msgspec.to_builtins(c) for c in conditions]
    for index, old in enumerate(kept):
        if old.get("type") == new["type"]:
            if old.get("status") == new["status"] and old.get("lastTransitionTime"):
                new["lastTransitionTime"] = old["lastTransitionTime"]
            kept[index] = new
            return kept
    return [*kept, new]


def _condition(type_: str, status: str, reason: str, at: str, message: str = "") -> Raw:
    new = {"type": type_, "status": status, "reason": reason,
           "lastProbeTime": at, "lastTransitionTime": at}  # fmt: skip
    return {**new, "message": message} if message else new
