"""The status of a PodMigrationJob: its conditions, reasons and messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.api.decode import JsonObject
from holdfast.api.meta import ObjectReference
from holdfast.api.pod_migration_job import (
    FAILED,
    PENDING,
    SUCCEEDED,
    PodMigrationJob,
    PodMigrationJobStatus,
)
from holdfast.api.timestamps import rfc3339, seconds_of
from holdfast.controllers.conditions import set_condition, to_raw
from holdfast.controllers.planned_writes import PlannedEvent
from holdfast.state.migration.limits import Limit

RESERVATION_CREATED, RESERVATION_SCHEDULED = "ReservationCreated", "ReservationScheduled"
EVICTION, POD_SCHEDULED = "Eviction", "PodScheduled"
RESERVATION_BOUND, BOUND_POD_READY = "ReservationBound", "BoundPodReady"
POD_BOUND_RESERVATION = "PodBoundReservation"

TIMEOUT, INVALID_POD_REF = "Timeout", "InvalidPodRef"
FAILED_CREATE_RESERVATION, MISSING_RESERVATION = "FailedCreateReservation", "MissingReservation"
RESERVATION_EXPIRED, UNSCHEDULABLE = "ReservationExpired", "Unschedulable"
FORBIDDEN, MISSING_POD = "ForbiddenMigratePod", "MissingPod"
EVICTING, FAILED_EVICT, EVICT_COMPLETE = "Evicting", "FailedEvict", "EvictComplete"
WAIT_FOR_BINDING = "WaitForPodBindReservation"
WAIT_FOR_READY = "WaitForBoundPodReady"
COMPLETE = "Complete"
LIMITED = "Limited"
"""The condition of a job that a limit delays; the reason is the argument that sets the limit.

Its ``lastProbeTime``, written when the limit ends, is the time from which the ttl counts.
"""


@dataclass(slots=True)
class StatusChange:
    """A status that is being changed, and the events about the changes."""

    status: PodMigrationJobStatus
    now: float
    fields: JsonObject = field(default_factory=dict)
    """The changed fields in raw form, for a merge patch."""
    events: list[PlannedEvent] = field(default_factory=list)
    _conditions: list[JsonObject] | None = None

    @classmethod
    def of(cls, job: PodMigrationJob, now: float) -> StatusChange:
        """Return a change of a job's status, without changes yet."""
        return cls(job.status, now)

    def is_true(self, type_: str) -> bool:
        """Return whether a condition is True, with the changes so far."""
        return any(c.get("type") == type_ and c.get("status") == "True" for c in self._current())

    def is_new(self, type_: str) -> bool:
        """Return whether a condition is True with the changes so far, and was not before."""
        before = any(c.type == type_ and c.status == "True" for c in self.status.conditions)
        return self.is_true(type_) and not before

    def reason(self, type_: str) -> str:
        """Return the reason of a condition, with the changes so far; "" without a condition."""
        return next((c.get("reason", "") for c in self._current() if c.get("type") == type_), "")

    def set(self, type_: str, status: str, reason: str = "", message: str = "") -> bool:
        """Set a condition and return whether it changed; if so, the job's status shows it."""
        conditions = self._current()
        new = {"type": type_, "status": status, "reason": reason, "message": message}
        old = next((c for c in conditions if c.get("type") == type_), {})
        if all(old.get(key, "") == value for key, value in new.items()):
            return False
        set_condition(conditions, new, rfc3339(self.now))
        self.fields["conditions"] = [_without_empty(c) for c in conditions]
        self.fields |= {"status": type_, "reason": reason, "message": message}
        return True

    @property
    def failed(self) -> bool:
        """Whether the change ends the job without success."""
        return self.fields.get("phase") == FAILED

    def fail(self, reason: str, message: str) -> None:
        """End the job without success."""
        self.fields |= {"phase": FAILED, "reason": reason, "message": message}
        self.events.append(PlannedEvent("Warning", reason, message))

    def limit(self, limit: Limit, pod: str) -> None:
        """Record which limit delays the job."""
        message = f"Pod {pod} waits for {limit.argument}: {limit.message}"
        self.set(LIMITED, "True", limit.argument, message)

    def end_limit(self, ttl_begins_at: float | None) -> None:
        """Record that no limit delays the job any more, and extend its ttl by the limited time.

        The displayed step stays, unless it is the limit.
        """
        condition = next((c for c in self._current() if c.get("type") == LIMITED), None)
        if condition is None or condition.get("status") != "True":
            return
        since = seconds_of(condition.get("lastTransitionTime"))
        if since is not None and ttl_begins_at is not None:
            condition["lastProbeTime"] = rfc3339(ttl_begins_at + max(0.0, self.now - since))
        step = {name: self.fields.get(name) for name in ("status", "reason", "message")}
        self.set(LIMITED, "False")
        for name, value in step.items():
            if value is not None or self.status.status == LIMITED:
                self.fields[name] = value or ""
            else:
                del self.fields[name]

    def complete(self, message: str) -> None:
        """End the job with success."""
        self.fields |= {"phase": SUCCEEDED, "status": COMPLETE, "reason": "", "message": message}
        self.events.append(PlannedEvent("Normal", COMPLETE, message))

    def tell(self, reason: str, message: str, *, type_: str = "Normal") -> None:
        """Add an event."""
        self.events.append(PlannedEvent(type_, reason, message))

    def patch(self) -> JsonObject:
        """Return the merge patch of the status; empty fields are removed."""
        return {name: value if value != "" else None for name, value in self.fields.items()}

    def fill(self) -> None:
        """Set a missing phase to Pending, and a missing step to the phase."""
        phase = self.fields.get("phase", self.status.phase)
        if not phase:
            phase = self.fields["phase"] = PENDING
        if not self.fields.get("status", self.status.status):
            self.fields["status"] = phase

    def _current(self) -> list[JsonObject]:
        if self._conditions is None:
            self._conditions = to_raw(self.status.conditions)
        return self._conditions


def reference(ref: ObjectReference) -> dict[str, str]:
    """Return the raw form of a reference to a pod."""
    given = {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid}
    return {name: value for name, value in given.items() if value}


def _without_empty(condition: JsonObject) -> JsonObject:
    return {name: value for name, value in condition.items() if value not in ("", None)}
