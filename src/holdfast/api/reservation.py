"""Reservation (scheduling.koordinator.sh/v1alpha1): room held for pods that may not exist yet."""

from __future__ import annotations

from holdfast.api import reservation_status as conditions
from holdfast.api.durations import parse_seconds
from holdfast.api.meta import Condition, LabelSelector, Object, ObjectMeta, ObjectReference, Struct
from holdfast.api.node import Taint
from holdfast.api.pod import PodSpec, ResourceAmounts
from holdfast.api.timestamps import parse_rfc3339
from holdfast.errors import BadRequest

PENDING, AVAILABLE, WAITING = "Pending", "Available", "Waiting"
SUCCEEDED, FAILED = "Succeeded", "Failed"
PHASES = (PENDING, AVAILABLE, WAITING, SUCCEEDED, FAILED)
HOLDING = (AVAILABLE, WAITING)
"""Phases in which room is held on a node."""
FINAL = (SUCCEEDED, FAILED)
"""Phases that nothing leads out of."""
DEFAULT_TTL = 86400.0


class PodTemplate(Struct, frozen=True):
    """The pod the room is held for."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ControllerOwner(Struct, frozen=True):
    """Match pods by the controller that made them; empty fields match anything."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""
    controller: bool | None = None


class ReservationOwner(Struct, frozen=True):
    """Who may use the room: all given parts must match."""

    object: ObjectReference | None = None
    controller: ControllerOwner | None = None
    label_selector: LabelSelector | None = None


class PreAllocationPolicy(Struct, frozen=True):
    """How running pods are chosen to give their room to the reservation."""

    mode: str = "Default"
    enable_multiple: bool = False


class ReservationSpec(Struct, frozen=True):
    """What to hold, for whom, and for how long."""

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
    """Where the room is held and who draws on it."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    current_owners: tuple[ObjectReference, ...] = ()
    node_name: str = ""
    allocatable: ResourceAmounts = {}
    allocated: ResourceAmounts = {}


class Reservation(Object, frozen=True):
    """A promise of room on a node."""

    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()

    @property
    def phase(self) -> str:
        """The phase; an empty one means Pending."""
        return self.status.phase or PENDING

    @property
    def active(self) -> bool:
        """Whether it holds room on a node."""
        return self.phase in HOLDING and bool(self.status.node_name)

    @property
    def expired(self) -> bool:
        """Whether it ended because its time was over or its node gone; other failures differ."""
        ready = self.condition(conditions.READY)
        return (
            self.phase == FAILED
            and ready is not None
            and (ready.status, ready.reason) == ("False", conditions.EXPIRED)
        )

    @property
    def scheduler_name(self) -> str:
        """The profile that is to find its node."""
        template = self.spec.template
        return (template and template.spec.scheduler_name) or "default-scheduler"

    def condition(self, type_: str) -> Condition | None:
        """Look a condition up by its type."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    @property
    def ends_at(self) -> float | None:
        """When its time is over, in seconds since the epoch; None for never.

        ``expires`` counts alone where it is given; else ``ttl`` after its creation, of which 0
        means for ever. What cannot be read counts as not given.
        """
        if self.spec.expires and (when := _time(self.spec.expires)) is not None:
            return when
        try:
            ttl = parse_seconds(self.spec.ttl) if self.spec.ttl else DEFAULT_TTL
        except BadRequest:
            ttl = DEFAULT_TTL
        made = _time(self.metadata.creation_timestamp or "")
        return None if ttl == 0 or made is None else made + ttl


def _time(text: str) -> float | None:
    try:
        return parse_rfc3339(text)
    except BadRequest:
        return None
