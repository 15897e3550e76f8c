"""Reservation (scheduling.koordinator.sh/v1alpha1): resources reserved for future pods."""

from __future__ import annotations

from holdfast.api import reservation_status as conditions
from holdfast.api.durations import parse_seconds
from holdfast.api.meta import Condition, LabelSelector, Object, ObjectMeta, ObjectReference, Struct
from holdfast.api.node import Taint
from holdfast.api.pod import PodSpec, ResourceAmounts
from holdfast.api.timestamps import seconds_of
from holdfast.runtime.errors import BadRequest

PENDING, AVAILABLE, WAITING = "Pending", "Available", "Waiting"
SUCCEEDED, FAILED = "Succeeded", "Failed"
PHASES = (PENDING, AVAILABLE, WAITING, SUCCEEDED, FAILED)
UNREADY = "Unready"
"""The phase of a pod that acts as a reservation and is not ready; no Reservation object has it."""
POD_KIND = "Pod"
"""The kind of a reservation that a pod acts as."""
HOLDING = (AVAILABLE, WAITING, UNREADY)
"""Phases in which resources are held on a node."""
FINAL = (SUCCEEDED, FAILED)
"""Phases that never change again."""
DEFAULT_TTL = 86400.0


class PodTemplate(Struct, frozen=True):
    """The template of the pod that resources are reserved for."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ControllerOwner(Struct, frozen=True):
    """Matches pods by their controller; empty fields match anything."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""
    controller: bool | None = None


class ReservationOwner(Struct, frozen=True):
    """Matches pods that may use the reservation: all given parts must match."""

    object: ObjectReference | None = None
    controller: ControllerOwner | None = None
    label_selector: LabelSelector | None = None


class PreAllocationPolicy(Struct, frozen=True):
    """How running pods are chosen for pre-allocation."""

    mode: str = "Default"
    enable_multiple: bool = False


class ReservationSpec(Struct, frozen=True):
    """What is reserved, for which pods, and for how long."""

    template: PodTemplate | None = None
    owners: tuple[ReservationOwner, ...] = ()
    ttl: str | None = None
    expires: str | None = None
    pre_allocation: bool = False
    pre_allocation_policy: PreAllocationPolicy | None = None
    allocate_once: bool = True
    allocate_policy: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ReservationStatus(Struct, frozen=True):
    """Where the resources are held, and which pods use them."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    current_owners: tuple[ObjectReference, ...] = ()
    node_name: str = ""
    allocatable: ResourceAmounts = {}
    allocated: ResourceAmounts = {}


class Reservation(Object, frozen=True):
    """Resources reserved on a node for the pods of its owners."""

    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()

    @property
    def phase(self) -> str:
        """The phase; an empty one means Pending."""
        return self.status.phase or PENDING

    @property
    def active(self) -> bool:
        """Whether it holds resources on a node."""
        return self.phase in HOLDING and bool(self.status.node_name)

    @property
    def is_pod(self) -> bool:
        """Whether a pod acts as this reservation; its request is counted as a pod's request."""
        return self.kind == POD_KIND

    @property
    def expired(self) -> bool:
        """Whether it ended because its time was over or its node is gone."""
        ready = self.condition(conditions.READY)
        return (
            self.phase == FAILED
            and ready is not None
            and (ready.status, ready.reason) == ("False", conditions.EXPIRED)
        )

    @property
    def policy_conflicts(self) -> bool:
        """Whether its policy was edited to one that other reservations on its node exclude."""
        ready = self.condition(conditions.READY)
        return ready is not None and (ready.status, ready.reason) == (
            "False",
            conditions.POLICY_CONFLICT,
        )

    @property
    def scheduler_name(self) -> str:
        """The name of the scheduler that places it."""
        template = self.spec.template
        return (template and template.spec.scheduler_name) or "default-scheduler"

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, or None."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    @property
    def ends_at(self) -> float | None:
        """When it ends, in seconds since the epoch; None for never.

        ``expires`` takes precedence over ``ttl``, which counts from its creation; a ``ttl`` of 0
        means never. A malformed value counts as absent.
        """
        if self.spec.expires and (when := seconds_of(self.spec.expires)) is not None:
            return when
        try:
            ttl = parse_seconds(self.spec.ttl) if self.spec.ttl else DEFAULT_TTL
        except BadRequest:
            ttl = DEFAULT_TTL
        made = seconds_of(self.metadata.creation_timestamp)
        return None if ttl == 0 or made is None else made + ttl
