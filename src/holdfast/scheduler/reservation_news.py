"""News of reservations: which hold room, which look for a node, which cannot be read at all."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.pod import PodSpec
from holdfast.api.reservation import PENDING, PodTemplate, Reservation, ReservationSpec
from holdfast.capacity.offer import alike
from holdfast.capacity.owners import compile_owners
from holdfast.capacity.reserve_pod import reserve_pod
from holdfast.capacity.resizing import gives_back
from holdfast.client.response_decoding import UnreadableObject
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import HoldfastError, aggregate_message
from holdfast.framework.plugin import ClusterEvent
from holdfast.scheduler.event_handlers import EventHandlers
from holdfast.scheduler.resizing import Resizer
from holdfast.validation.reservation import check_reservation

Refuse = Callable[[PodInfo, str], object]
"""Tell the world why a reservation will not even be tried."""


class ReservationDesk:
    """Keeps the world and the queue as the API server last said reservations are."""

    def __init__(self, desk: EventHandlers, refuse: Refuse, resizer: Resizer | None = None) -> None:
        self._desk = desk
        self._refuse = refuse
        self._resizer = resizer
        self._refused: dict[str, str] = {}
        """Why a waiting reservation is not tried, by uid."""

    def on_reservation(self, _kind: str, old: Reservation | None, new: Reservation | None) -> None:
        """A reservation came, changed or went; a pending one queues for a node like a pod."""
        gone = old if new is None or (old is not None and old.uid != new.uid) else None
        if gone is not None:
            self._desk.world.delete(gone)
            self._withdraw(gone.uid)
            self._refused.pop(gone.uid, None)
            self._resize(gone, gone=True)
        if new is not None:
            self._take_in(new)
            self._queue(None if gone is not None else old, new)
        self._tell(old, new)
        if new is not None:
            self._resize(new, gone=not new.active)

    def _take_in(self, new: Reservation) -> None:
        try:
            self._desk.world.upsert(self._resizer.seen(new) if self._resizer else new)
        except HoldfastError:
            # What it holds stays as it was known; it is told what it was edited to.
            self._resize(new, gone=not new.active)
            raise

    def _resize(self, reservation: Reservation, *, gone: bool) -> None:
        if self._resizer is None:
            return
        if gone:
            self._resizer.gone(reservation.uid)
        elif self._desk.is_responsible_for(reservation.scheduler_name):
            self._resizer.consider(reservation)

    def on_unreadable(self, broken: UnreadableObject) -> None:
        """Say on a reservation without a node what of it makes no sense at all."""
        raw = broken.raw
        bare = {key: raw[key] for key in ("metadata", "status") if key in raw}
        try:
            known = convert_object(bare, Reservation)
        except msgspec.ValidationError:
            return
        if known.phase == PENDING and not known.status.node_name and broken.event_type != "DELETED":
            self._refuse(self._bare(known), f"{broken.field}: {broken.why}")

    def _queue(self, old: Reservation | None, new: Reservation) -> None:
        desk = self._desk
        waits = (
            new.phase == PENDING
            and not new.status.node_name
            and new.metadata.deletion_timestamp is None
            and desk.is_responsible_for(new.scheduler_name)
        )
        if not waits:
            self._withdraw(new.uid)
            self._refused.pop(new.uid, None)
        elif not desk.world.nodes.is_assumed(new.uid):
            wrong = self._wrong_with(old, new)
            if wrong:
                self._withdraw(new.uid)
                return
            pod_info = desk.world.reserve_pod_info(new)
            if promised := desk.world.nominations.node_of(new.uid):
                desk.world.nominations.set(pod_info, promised)
            desk.queue.update(pod_info, desk.now())
            if old is not None and _asks_otherwise(old, new):
                desk.queue.activate((new.uid,))

    def _withdraw(self, uid: str) -> None:
        """Let it queue and wait no longer, and be promised no node."""
        self._desk.stop_scheduling(uid)
        world = self._desk.world
        world.evictions.end(uid)
        promised = world.nominations.node_of(uid)
        if promised:
            pod_info = world.nominations.on(promised)[uid]
            world.nominations.clear(uid)
            self._desk.nomination_ended(pod_info, promised)

    def _wrong_with(self, old: Reservation | None, new: Reservation) -> str:
        """Say what keeps it from being tried, once; "" if nothing does."""
        if old is not None and not _asks_otherwise(old, new):
            return self._refused.get(new.uid, "")
        found = list(check_reservation(new))
        words = aggregate_message(found) if found else self._unfit(new)
        if not words:
            self._refused.pop(new.uid, None)
        elif self._refused.get(new.uid) != words:
            self._refused[new.uid] = words
            self._refuse(self._bare(new), words)
        return words

    def _unfit(self, new: Reservation) -> str:
        """Say why no reserve pod can be made of it, which no check foresaw."""
        try:
            self._desk.world.reserve_pod_info(new)
        except HoldfastError as wrong:
            return str(wrong)
        return ""

    def _bare(self, reservation: Reservation) -> PodInfo:
        """Know a reservation by its name alone: what it asks for makes no sense."""
        spec = PodSpec(scheduler_name=reservation.scheduler_name)
        empty = ReservationSpec(template=PodTemplate(spec=spec))
        return self._desk.world.reserve_pod_info(msgspec.structs.replace(reservation, spec=empty))

    def _tell(self, old: Reservation | None, new: Reservation | None) -> None:
        held = old is not None and old.active
        holds = new is not None and new.active
        if old is not None and held and not holds:
            # Room comes back, as when a pod goes; whoever waits for that waits for this too.
            self._desk.notify_queue("AssignedPod", "Delete", reserve_pod(old), None)
        elif new is not None and holds and not (old is not None and held and alike(old, new)):
            self._desk.notify_queue("Reservation", "Update" if held else "Add", old, new)
            self._tell_of_neighbour(new)
            if old is not None and held and gives_back(old, new):
                self._desk.notify_queue("AssignedPod", "Delete", reserve_pod(old), None)

    def _tell_of_neighbour(self, reservation: Reservation) -> None:
        """Others have a neighbour more; to its owners it is as if a pod had made room for them."""
        pod, rules = reserve_pod(reservation), compile_owners(reservation.spec.owners) or ()
        self._desk.notify_queue("AssignedPod", "Add", None, pod)
        self._desk.queue.requeue_for_event(
            ClusterEvent("AssignedPod", "Delete", pod, None), self._desk.now(),
            lambda queued: any(rule.owns(queued.pod_info.pod) for rule in rules),
        )  # fmt: skip


def _asks_otherwise(old: Reservation, new: Reservation) -> bool:
    """Tell whether anything was changed that may decide where it goes."""
    return (
        old.spec != new.spec
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.labels != new.metadata.labels
    )
