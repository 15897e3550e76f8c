"""PodMigrationJob (scheduling.koordinator.sh/v1alpha1): reserve new resources, then move a pod."""

from __future__ import annotations

from typing import Any

from holdfast.api.meta import Condition, Object, ObjectReference, Struct

PENDING, RUNNING, SUCCEEDED, FAILED, ABORTED = (
    "Pending",
    "Running",
    "Succeeded",
    "Failed",
    "Aborted",
)
FINAL = (SUCCEEDED, FAILED, ABORTED)
"""Phases that never change again."""
RESERVATION_FIRST, EVICT_DIRECTLY = "ReservationFirst", "EvictDirectly"
MODES = (RESERVATION_FIRST, EVICT_DIRECTLY)
EVICTION, DELETE, SOFT = "Eviction", "Delete", "SoftEviction"
EVICTION_POLICIES = (EVICTION, DELETE, SOFT)
"""Evict through the subresource, delete, or annotate the pod so that its operator evicts it."""


class MigrationReservationOptions(Struct, frozen=True):
    """The reservation of a job: an existing one, or a template of it."""

    reservation_ref: ObjectReference | None = None
    template: dict[str, Any] | None = None
    preemption_options: dict[str, Any] | None = None


class PodMigrationJobSpec(Struct, frozen=True):
    """The pod to move, and the way to move it."""

    paused: bool = False
    ttl: str | None = None
    mode: str = ""
    pod_ref: ObjectReference | None = None
    reservation_options: MigrationReservationOptions | None = None
    delete_options: dict[str, Any] | None = None


class PodMigrationJobStatus(Struct, frozen=True):
    """The progress of the migration; ``pod_ref`` is the pod that replaces the moved one."""

    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    node_name: str = ""
    pod_ref: ObjectReference | None = None
    preempted_pods_ref: tuple[ObjectReference, ...] = ()
    preempted_pods_reservation: tuple[dict[str, Any], ...] = ()


class PodMigrationJob(Object, frozen=True):
    """Moves a pod to another node."""

    spec: PodMigrationJobSpec = PodMigrationJobSpec()
    status: PodMigrationJobStatus = PodMigrationJobStatus()

    @property
    def phase(self) -> str:
        """The phase; an empty one means Pending."""
        return self.status.phase or PENDING

    @property
    def finished(self) -> bool:
        """Whether the job is over."""
        return self.phase in FINAL

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, or None."""
        return next((c for c in self.status.conditions if c.type == type_), None)
