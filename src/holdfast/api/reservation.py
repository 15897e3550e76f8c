"""Reservation (scheduling.koordinator.sh/v1alpha1): room held for pods that may not exist yet."""

from __future__ import annotations

from holdfast.api.meta import Condition, LabelSelector, Object, ObjectMeta, ObjectReference, Struct
from holdfast.api.node import Taint
from holdfast.api.pod import PodSpec, ResourceAmounts


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
        return self.status.phase or "Pending"
