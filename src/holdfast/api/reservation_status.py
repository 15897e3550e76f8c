"""The conditions of a Reservation.

===========  ==========================  =====================================================
Scheduled    True/Scheduled              it is on a node
             False/Unschedulable         no node fits; the message says why
Ready        True/Available              owners may use it
             False/Waiting               it is on a node, its resources are not free yet
             False/Overcommitted         pods that are not owners use its resources
             False/PolicyConflict        edited next to others on its node; no new owners
             False/DevicesUnavailable    a device that it holds is unhealthy or gone
             False/Succeeded, Expired    it has ended
Resized      True/Resized                it was edited on its node, and holds the new size
             False/Insufficient          its node cannot hold the new size
             False/Invalid               the new size is malformed
===========  ==========================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.meta import Condition
from holdfast.api.timestamps import rfc3339

SCHEDULED, READY, RESIZED = "Scheduled", "Ready", "Resized"
UNSCHEDULABLE = "Unschedulable"
AVAILABLE, WAITING, OVERCOMMITTED = "Available", "Waiting", "Overcommitted"
POLICY_CONFLICT, DEVICES_UNAVAILABLE = "PolicyConflict", "DevicesUnavailable"
ENABLE_MULTIPLE = "preAllocationPolicy.enableMultiple is false, so it pre-allocates no second pod"
STRONGER = (POLICY_CONFLICT, DEVICES_UNAVAILABLE)
"""Reasons of Ready that Overcommitted does not replace; the code that sets them clears them."""
SUCCEEDED, EXPIRED = "Succeeded", "Expired"
INSUFFICIENT, INVALID = "Insufficient", "Invalid"


def refused(conditions: Iterable[Condition], message: str, now: float) -> list[JsonObject]:
    """Return the conditions after an attempt that found no node.

    An existing condition gets a new message and probe time, but keeps its transition time; if it
    says that the reservation has a node, only the probe time changes.
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


def placed(now: float) -> list[JsonObject]:
    """Return the conditions of a reservation that has a node and is available."""
    at = rfc3339(now)
    return [
        _condition(SCHEDULED, "True", SCHEDULED, at),
        _condition(READY, "True", AVAILABLE, at),
    ]


def waiting(now: float, message: str) -> list[JsonObject]:
    """Return the conditions of a reservation that has a node and waits for its resources."""
    at = rfc3339(now)
    return [
        _condition(SCHEDULED, "True", SCHEDULED, at),
        _condition(READY, "False", WAITING, at, message),
    ]


def waiting_message(pods: Iterable[str], *, more: bool, several: bool) -> str:
    """Return the message that says what a reservation waits for.

    ``several``: it may pre-allocate more than one pod.

    >>> waiting_message(["ns/a"], more=False, several=False)
    'waiting for the resources of ns/a'
    """
    keys = ", ".join(sorted(pods))
    if not keys:
        return "waiting for resources to become free"
    if not more:
        return f"waiting for the resources of {keys}"
    advice = "" if several else f" ({ENABLE_MULTIPLE})"
    return f"waiting for the resources of {keys}, and for more to become free{advice}"


def with_ready(
    conditions: Iterable[Condition], status: str, reason: str, now: float, message: str = ""
) -> list[JsonObject]:
    """Return the conditions with a new Ready; its transition time moves with its status only."""
    return _with(conditions, _condition(READY, status, reason, rfc3339(now), message))


def with_resized(
    conditions: Iterable[Condition], status: str, reason: str, now: float, message: str = ""
) -> list[JsonObject]:
    """Return the conditions with a new Resized; its transition time moves with its status only."""
    return _with(conditions, _condition(RESIZED, status, reason, rfc3339(now), message))


def without_resized(conditions: Iterable[Condition]) -> list[JsonObject]:
    """Return the conditions without Resized."""
    return [msgspec.to_builtins(c) for c in conditions if c.type != RESIZED]


def _with(conditions: Iterable[Condition], new: JsonObject) -> list[JsonObject]:
    kept = [msgspec.to_builtins(c) for c in conditions]
    for index, old in enumerate(kept):
        if old.get("type") == new["type"]:
            if old.get("status") == new["status"] and old.get("lastTransitionTime"):
                new["lastTransitionTime"] = old["lastTransitionTime"]
            kept[index] = new
            return kept
    return [*kept, new]


def _condition(type_: str, status: str, reason: str, at: str, message: str = "") -> JsonObject:
    new = {"type": type_, "status": status, "reason": reason,
           "lastProbeTime": at, "lastTransitionTime": at}  # fmt: skip
    return {**new, "message": message} if message else new
