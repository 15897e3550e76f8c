"""Event handlers of reservations: they update the world and the scheduling queue."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.pod import PodSpec
from holdfast.api.reservation import PENDING, PodTemplate, Reservation, ReservationSpec
from holdfast.api.validation.reservation import check_reservation
from holdfast.client.response_decoding import UnreadableObject
from holdfast.runtime.errors import HoldfastError, aggregate_message
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.scheduling.scheduler.resizing import Resizer
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.owner_rules import compile_owners
from holdfast.state.reservations.reservation_info import holds_the_same
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.state.reservations.resizing import shrinks

Refuse = Callable[[PodInfo, str], object]
"""Reports why a reservation is not scheduled at all."""


class ReservationEventHandlers:
    """Handle events of reservations; a pending one is queued like a pod."""

    def __init__(
        self, handlers: EventHandlers, refuse: Refuse, resizer: Resizer | None = None
    ) -> None:
        self._handlers = handlers
        self._refuse = refuse
        self._resizer = resizer
        self._refused: dict[str, str] = {}
        """Why a pending reservation is not queued, by uid."""

    def on_reservation(self, _kind: str, old: Reservation | None, new: Reservation | None) -> None:
        """Handle a reservation that was added, updated or deleted."""
        removed = old if new is None or (old is not None and old.uid != new.uid) else None
        if removed is not None:
            self._handlers.world.delete(removed)
            self._withdraw(removed.uid)
            self._refused.pop(removed.uid, None)
            self._resize(removed, removed=True)
        if new is not None:
            if old is None and not self._handlers.is_responsible_for(new.scheduler_name):
                self._handlers.on_unclaimed(new, self._handlers.now())
            self._store(new)
            self._queue(None if removed is not None else old, new)
        self._notify(old, new)
        if new is not None:
            self._resize(new, removed=not new.active)

    def _store(self, new: Reservation) -> None:
        try:
            self._handlers.world.upsert(self._as_held(new))
        except HoldfastError:
            # The world keeps the previous version; the resize is rejected with its reason.
            self._resize(new, removed=not new.active)
            raise

    def _as_held(self, new: Reservation) -> Reservation:
        if self._resizer is None or not self._handlers.is_responsible_for(new.scheduler_name):
            return new
        return self._resizer.as_held(new)

    def _resize(self, reservation: Reservation, *, removed: bool) -> None:
        if self._resizer is None:
            return
        if removed:
            self._resizer.forget(reservation)
        elif self._handlers.is_responsible_for(reservation.scheduler_name):
            self._resizer.consider(reservation)

    def on_unreadable(self, broken: UnreadableObject) -> None:
        """Report which field of a pending reservation cannot be decoded."""
        raw = broken.raw
        bare = {key: raw[key] for key in ("metadata", "status") if key in raw}
        try:
            known = convert_object(bare, Reservation)
        except msgspec.ValidationError:
            return
        if known.phase == PENDING and not known.status.node_name and broken.event_type != "DELETED":
            self._refuse(self._empty_reserve_pod(known), f"{broken.field}: {broken.why}")

    def _queue(self, old: Reservation | None, new: Reservation) -> None:
        handlers = self._handlers
        waits = (
            new.phase == PENDING
            and not new.status.node_name
            and new.metadata.deletion_timestamp is None
            and handlers.is_responsible_for(new.scheduler_name)
        )
        if not waits:
            self._withdraw(new.uid)
            self._refused.pop(new.uid, None)
        elif not handlers.world.nodes.is_assumed(new.uid):
            error = self._check(old, new)
            if error:
                self._withdraw(new.uid)
                return
            pod_info = handlers.world.reserve_pod_info(new)
            if nominated_node := handlers.world.nominations.node_of(new.uid):
                handlers.world.nominations.set(pod_info, nominated_node)
            handlers.queue.update(pod_info, handlers.now())
            if old is not None and _scheduling_changed(old, new):
                handlers.queue.activate((new.uid,))

    def _withdraw(self, uid: str) -> None:
        """Remove a reservation from the queue, and end its nomination."""
        self._handlers.stop_scheduling(uid)
        world = self._handlers.world
        world.evictions.end(uid)
        nominated_node = world.nominations.node_of(uid)
        if nominated_node:
            pod_info = world.nominations.on(nominated_node)[uid]
            world.nominations.clear(uid)
            self._handlers.nomination_ended(pod_info, nominated_node)

    def _check(self, old: Reservation | None, new: Reservation) -> str:
        """Return why a reservation is not queued, reported once; "" if it is queued."""
        if old is not None and not _scheduling_changed(old, new):
            return self._refused.get(new.uid, "")
        problems = list(check_reservation(new))
        message = aggregate_message(problems) if problems else self._no_reserve_pod(new)
        if not message:
            self._refused.pop(new.uid, None)
        elif self._refused.get(new.uid) != message:
            self._refused[new.uid] = message
            self._refuse(self._empty_reserve_pod(new), message)
        return message

    def _no_reserve_pod(self, new: Reservation) -> str:
        """Return why no reserve pod can be built from a validated reservation, or ""."""
        try:
            self._handlers.world.reserve_pod_info(new)
        except HoldfastError as error:
            return str(error)
        return ""

    def _empty_reserve_pod(self, reservation: Reservation) -> PodInfo:
        """Return a reserve pod without requests, to report about a malformed reservation."""
        spec = PodSpec(scheduler_name=reservation.scheduler_name)
        empty = ReservationSpec(template=PodTemplate(spec=spec))
        return self._handlers.world.reserve_pod_info(
            msgspec.structs.replace(reservation, spec=empty)
        )

    def _notify(self, old: Reservation | None, new: Reservation | None) -> None:
        held = old is not None and old.active
        holds = new is not None and new.active
        if old is not None and held and not holds:
            # Resources become free, as when a pod is deleted.
            self._handlers.notify_queue(
                EventResource.ASSIGNED_POD, ActionType.DELETE, reserve_pod(old), None
            )
        elif (
            new is not None
            and holds
            and not (old is not None and held and holds_the_same(old, new))
        ):
            self._handlers.notify_queue(
                EventResource.RESERVATION, ActionType.UPDATE if held else ActionType.ADD, old, new
            )
            self._notify_of_reserve_pod(new)
            if old is not None and held and shrinks(old, new):
                self._handlers.notify_queue(
                    EventResource.ASSIGNED_POD, ActionType.DELETE, reserve_pod(old), None
                )

    def _notify_of_reserve_pod(self, reservation: Reservation) -> None:
        """Notify the queue of a reserve pod: as a new pod, and for its owners as a deleted one."""
        pod, rules = reserve_pod(reservation), compile_owners(reservation) or ()
        self._handlers.notify_queue(EventResource.ASSIGNED_POD, ActionType.ADD, None, pod)
        self._handlers.queue.requeue_for_event(
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, pod, None),
            self._handlers.now(),
            lambda queued: any(rule.owns(queued.pod_info.pod) for rule in rules),
        )


def _scheduling_changed(old: Reservation, new: Reservation) -> bool:
    """Tell whether anything changed that may decide where the reservation is placed."""
    return (
        old.spec != new.spec
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.labels != new.metadata.labels
    )
