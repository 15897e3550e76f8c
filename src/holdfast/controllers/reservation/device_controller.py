"""Report reservations whose devices are gone or unhealthy: ``Ready=False/DevicesUnavailable``.

The scheduler gives such devices to no owner; the reservation keeps them until it ends.
"""

from __future__ import annotations

from holdfast.api import reservation_status
from holdfast.api.koordinator_names import DEVICE_ALLOCATED
from holdfast.api.meta import version_guard
from holdfast.api.reservation import AVAILABLE, Reservation
from holdfast.api.scheme import RESERVATIONS, SHARED_DEVICES
from holdfast.api.shared_device import SharedDevices
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.object_index import ObjectIndex
from holdfast.controllers.planned_writes import Patch, Plan, PlannedEvent, execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.allocation_annotation import read_device_ids

WELL_AGAIN = "all reserved devices are healthy again"


class ReservationDeviceController(Reconciler):
    """Writes the Ready condition of Reservations that hold devices."""

    name = "reservation-device-controller"
    required_resources = (RESERVATIONS, SHARED_DEVICES)
    optional = True

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._reservations = context.informers.get(RESERVATIONS)
        self._devices = context.informers.get(SHARED_DEVICES)
        self._on_node: ObjectIndex[Reservation] = ObjectIndex(_node_with_devices)
        self._reservations.add_handler(self._on_node.on_change)
        self._reservations.add_handler(self._on_reservation)
        self._devices.add_handler(self._on_devices)

    def _on_reservation(
        self, kind: ChangeType, old: Reservation | None, new: Reservation | None
    ) -> None:
        if new is not None and _node_with_devices(new):
            self.queue.add(new.key)

    def _on_devices(
        self, kind: ChangeType, old: SharedDevices | None, new: SharedDevices | None
    ) -> None:
        either = new or old
        if either is not None and (old is None or new is None or old.spec != new.spec):
            for reservation in self._on_node.of(either.name):
                self.queue.add(reservation.key)

    async def reconcile(self, key: str) -> None:
        """Write whether a Reservation can still use its devices."""
        reservation = self._reservations.cache.get(key)
        if reservation is None:
            return
        devices = self._devices.cache.get(reservation.status.node_name)
        plan = plan_devices(reservation, devices, self.clock.now())
        await execute_writes(self.client, plan.writes)
        for note in plan.events:
            self.record_event(reservation, note.type, note.reason, note.message)


def plan_devices(reservation: Reservation, devices: SharedDevices | None, now: float) -> Plan:
    """Plan the Ready condition by the state of the reserved devices.

    A conflict of policies, on which the scheduler depends, is not overwritten. A lack of other
    resources is overwritten, and is found again later.
    """
    ready = reservation.condition(reservation_status.READY)
    if not _node_with_devices(reservation) or reservation.policy_conflicts or ready is None:
        return Plan()
    reason = reservation_status.DEVICES_UNAVAILABLE
    problems = _problems(reservation, devices)
    if problems:
        message = f"node {reservation.status.node_name}: {', '.join(problems)}"
        if (ready.reason, ready.message) == (reason, message):
            return Plan()
        event = PlannedEvent("Warning", reason, message)
        return Plan((_write(reservation, "False", reason, now, message),), events=(event,))
    if ready.reason != reason:
        return Plan()
    event = PlannedEvent("Normal", reservation_status.AVAILABLE, WELL_AGAIN)
    return Plan((_write(reservation, "True", reservation_status.AVAILABLE, now),), events=(event,))


def _problems(reservation: Reservation, devices: SharedDevices | None) -> list[str]:
    try:
        held = read_device_ids(reservation.metadata.annotations)
    except BadRequest:
        return []
    states = {(info.type, info.minor): info for info in devices.spec.devices} if devices else {}
    problems = []
    for (kind, minor), device_id in sorted(held.items()):
        known = states.get((kind, minor))
        if known is None or not known.health:
            text = "is gone" if known is None else "is unhealthy"
            name = device_id or (known.id if known else "")
            problems.append(f"{kind} {minor}{f' ({name})' if name else ''} {text}")
    return problems


def _node_with_devices(reservation: Reservation) -> str:
    """Return the node of an Available reservation that holds devices, "" for others."""
    holds = reservation.phase == AVAILABLE and DEVICE_ALLOCATED in reservation.metadata.annotations
    return reservation.status.node_name if holds else ""


def _write(
    reservation: Reservation, status: str, reason: str, now: float, message: str = ""
) -> Patch:
    conditions = reservation_status.with_ready(
        reservation.status.conditions, status, reason, now, message
    )
    body = {"metadata": version_guard(reservation), "status": {"conditions": conditions}}
    return Patch(RESERVATIONS, reservation.name, body, subresource="status")
