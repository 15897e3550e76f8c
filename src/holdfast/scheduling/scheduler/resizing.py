"""Resize reservations on their nodes when they are edited.

Growing takes resources that a pod may request at the same moment, so it is decided in the event
loop that also places pods: the larger amount is entered into the reservation cache first and
written afterwards. Shrinking is written first. Until a watch event confirms what was written, the
larger of the two amounts is held.

A client may also change ``status.allocatable``. That is no edit: the size is restored, and the
condition ``Resized`` stays as it is.

Three details come from bugs. After a restart a reservation was read before the pods, and grew into
resources that they used (``begin``). A write that the server refused was repeated at once, for ever
(``_refused``). An edit of an allocate-once reservation was forgotten while its owner was being
bound (``consider``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api import reservation_status
from holdfast.api.quantity import AmountText
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_names import RESIZE
from holdfast.api.scheme import RESERVATIONS
from holdfast.client.backoff import Retries, retry
from holdfast.client.client import Client
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadRequest, HoldfastError, NotFound, Retryable
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.policy_edits import PolicyEdits
from holdfast.scheduling.scheduler.reservation_status_writes import ReservationStatusWrites
from holdfast.state.reservations.resizing import (
    larger_amounts,
    same_amounts,
    shortage,
    wanted_amounts,
    wanted_in_vain,
)

TRIES = 5
FIXED = "and is not resized: create another reservation"


@dataclass(slots=True)
class Resize:
    """A size that is being written; ``written`` until a watch event confirms it.

    ``restores``: the reservation was not edited, its status was.
    """

    amounts: dict[str, AmountText]
    restores: bool = False
    written: bool = False


class Resizer:
    """Resizes edited reservations on nodes; those that cannot grow are tried again.

    It passes edits to ``PolicyEdits`` first, because both decide what the cache must hold.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        world: World,
        writes: ReservationStatusWrites,
    ) -> None:
        self._client = client
        self._clock = clock
        self._world = world
        self._writes = writes
        self._policy_edits = PolicyEdits(clock, world, writes)
        self._ready = False
        self._resizing: dict[str, Resize] = {}
        self._settled: dict[str, tuple[object, str | None]] = {}
        """By uid: what a reservation requested when it was last seen with that size."""
        self._newest: dict[str, Reservation] = {}
        """Reservations being resized or waiting to grow, in their latest version."""

    def as_held(self, new: Reservation) -> Reservation:
        """Return the reservation as the cache must hold it while a resize is written."""
        new = self._policy_edits.as_judged(new)
        size = self._resizing.get(new.uid)
        if size is None:
            return new
        if not new.active or (size.written and same_amounts(new.status.allocatable, size.amounts)):
            del self._resizing[new.uid]
            return new
        return _with_allocatable(new, larger_amounts(new.status.allocatable, size.amounts))

    def forget(self, reservation: Reservation) -> None:
        """Forget a reservation that ended or was deleted."""
        uid = reservation.uid
        self._resizing.pop(uid, None)
        self._newest.pop(uid, None)
        self._settled.pop(uid, None)
        self._policy_edits.forget(reservation)

    def consider(self, reservation: Reservation) -> None:
        """Resize a reservation to the size it requests, if its node has the resources."""
        uid = reservation.uid
        self._newest[uid] = reservation
        self._policy_edits.consider(reservation)
        if not self._ready or uid in self._resizing:
            return
        try:
            amounts = wanted_amounts(reservation)
            if kept := wanted_in_vain(reservation):
                self._refuse(
                    reservation, reservation_status.INVALID, f"it holds certain {kept} {FIXED}"
                )
                return
        except BadRequest as wrong:
            self._refuse(reservation, reservation_status.INVALID, f"spec.template: {wrong}")
            return
        info = self._world.reservations.by_uid.get(uid)
        if amounts is None or info is None:
            del self._newest[uid]
            self._settled[uid] = _requested(reservation)
            self._clear_condition(reservation)
            return
        if not (info.matchable or info.policy_conflicts):
            return  # its only owner is being bound, and may still be undone: ``retry`` repeats this
        nominated = self._world.nominations.on(info.node).values()
        short = shortage(self._world.nodes, info, amounts, nominated)
        if short:
            missing = ", ".join(f"Insufficient {name}" for name in short)
            self._refuse(reservation, reservation_status.INSUFFICIENT,
                         f"node {info.node} cannot hold the new size: {missing}")  # fmt: skip
            return
        self._resizing[uid] = Resize(amounts, restores=self._is_unedited(reservation))
        self._world.upsert(self.as_held(reservation))
        self._writes.start_task(self._write(reservation, amounts))

    def _is_unedited(self, reservation: Reservation) -> bool:
        """Tell whether a reservation requests what it had already, or what it was created with."""
        if reservation.uid in self._settled:
            return self._settled[reservation.uid] == _requested(reservation)
        return reservation.metadata.generation == 1 and RESIZE not in (
            reservation.metadata.annotations
        )

    def begin(self) -> None:
        """Start to resize, once the whole cluster has been read.

        The lists of the informers arrive one after the other. Until the last one, a node looks
        emptier than it is.
        """
        self._ready = True
        self._policy_edits.begin()
        self.retry()

    def retry(self) -> None:
        """Try again the reservations that could not grow."""
        self._policy_edits.retry()
        for reservation in tuple(self._newest.values()):
            self.consider(reservation)

    async def _write(self, reservation: Reservation, amounts: dict[str, AmountText]) -> None:
        """Write the new size, unless the reservation was edited again or has ended."""
        retries = Retries(self._clock, tries=TRIES)
        while retries.any_left:
            try:
                await self._writes.patch(reservation, self._new_status(reservation, amounts))
                self._written(reservation, amounts)
                return
            except Retryable as failure:
                await retries.wait(failure)
            except HoldfastError as refusal:
                self._refused(reservation, refusal)
                return
            newest = await self._read_newest(reservation)
            if newest is None or not newest.active:
                break
            if same_amounts(newest.status.allocatable, amounts):
                self._written(reservation, amounts)
                return
            reservation = newest
        self._undo(reservation.uid)

    def _new_status(
        self, reservation: Reservation, amounts: dict[str, AmountText]
    ) -> dict[str, Any]:
        status = reservation.status
        removed = dict.fromkeys(status.allocatable.keys() - amounts.keys())
        new_status: dict[str, Any] = {"allocatable": {**amounts, **removed}}
        size = self._resizing.get(reservation.uid)
        if size is None or not size.restores:
            new_status["conditions"] = reservation_status.with_resized(
                status.conditions, "True", reservation_status.RESIZED, self._clock.now()
            )
        return new_status

    def _written(self, reservation: Reservation, amounts: dict[str, AmountText]) -> None:
        size = self._resizing.get(reservation.uid)
        if size is not None:
            size.written = True
        held = ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items()))
        if size is not None and size.restores:
            message = f"status.allocatable was changed by another client; holds {held} again"
            self._writes.record(reservation, "Warning", "Restored", message)
        else:
            message = f"holds {held} now"
            self._writes.record(reservation, "Normal", reservation_status.RESIZED, message)
        newest = self._newest.get(reservation.uid)
        if newest is not None and same_amounts(newest.status.allocatable, amounts):
            # The watch event came before the response.
            self._finish(newest)

    def _refused(self, reservation: Reservation, refusal: HoldfastError) -> None:
        """Keep the present size: the server would reject the same write again.

        The reservation is tried again when it changes, as it may have done since this write began.
        """
        if not isinstance(refusal, NotFound):
            message = f"the new size was not written: {refusal}"
            self._writes.record(reservation, "Warning", "FailedResize", message)
        self._resizing.pop(reservation.uid, None)
        newest = self._newest.pop(reservation.uid, None)
        if newest is None:
            return  # it is gone
        self._world.upsert(self.as_held(newest))
        if newest.metadata.resource_version != reservation.metadata.resource_version:
            self.consider(newest)

    def _undo(self, uid: str) -> None:
        newest = self._newest.get(uid)
        if newest is not None and uid in self._resizing:
            self._finish(newest)

    def _finish(self, newest: Reservation) -> None:
        self._resizing.pop(newest.uid, None)
        self._world.upsert(self.as_held(newest))
        self.consider(newest)

    async def _read_newest(self, reservation: Reservation) -> Reservation | None:
        """Read the reservation until there is an answer: until then it is unknown what is held."""

        async def read() -> Reservation | None:
            try:
                newest = await self._client.get(RESERVATIONS, reservation.name)
                return newest if newest.uid == reservation.uid else None
            except NotFound:
                return None

        return await retry(read, self._clock, on=HoldfastError, honor_retry_after=False)

    def _refuse(self, reservation: Reservation, reason: str, message: str) -> None:
        """Report once why it keeps its size."""
        old = reservation.condition(reservation_status.RESIZED)
        if old is not None and (old.status, old.reason, old.message) == ("False", reason, message):
            return
        conditions = reservation_status.with_resized(
            reservation.status.conditions, "False", reason, self._clock.now(), message
        )
        if self._writes.start(reservation, {"conditions": conditions}):
            self._writes.record(reservation, "Warning", "FailedResize", message)

    def _clear_condition(self, reservation: Reservation) -> None:
        old = reservation.condition(reservation_status.RESIZED)
        if old is not None and old.status == "False" and reservation.active:
            conditions = reservation_status.without_resized(reservation.status.conditions)
            self._writes.start(reservation, {"conditions": conditions})


def _requested(reservation: Reservation) -> tuple[object, str | None]:
    return reservation.spec.template, reservation.metadata.annotations.get(RESIZE)


def _with_allocatable(reservation: Reservation, amounts: dict[str, AmountText]) -> Reservation:
    status = msgspec.structs.replace(reservation.status, allocatable=amounts)
    return msgspec.structs.replace(reservation, status=status)
