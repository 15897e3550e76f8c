"""Check an edited ``allocatePolicy`` as the scheduler checks that of a new reservation.

On one node there are either reservations with a policy or reservations without one. If a
reservation is edited to the other kind while others are on its node, it keeps what it holds, but
gets no new owner until it is edited again or the others have ended. The condition
``Ready=False/PolicyConflict`` says so, also to the scheduler after a restart; the cache has it even
before it is written.
"""

from __future__ import annotations

import msgspec

from holdfast.api import reservation_status
from holdfast.api.meta import Condition
from holdfast.api.reservation import AVAILABLE, Reservation
from holdfast.runtime.clock import Clock
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.reservation_status_writes import ReservationStatusWrites

AGAIN = "no reservation on its node has a conflicting allocate policy any more"
_FLAG = Condition(
    type=reservation_status.READY, status="False", reason=reservation_status.POLICY_CONFLICT
)


class PolicyEdits:
    """Finds reservations whose edited policy conflicts with others, and reports them."""

    def __init__(self, clock: Clock, world: World, writes: ReservationStatusWrites) -> None:
        self._clock = clock
        self._world = world
        self._writes = writes
        self._ready = False
        self._conflicting: dict[str, Reservation] = {}
        """Those with a conflict, in their latest version."""

    def as_judged(self, new: Reservation) -> Reservation:
        """Return the reservation as the cache must have it: with the condition if it conflicts.

        One that is on its node with its policy already is not checked again: others came after it.
        """
        if new.phase != AVAILABLE or new.policy_conflicts:
            return new
        known = self._world.reservations.by_uid.get(new.uid)
        edited = known is None or (
            known.available and (known.policy_conflicts or (known.policy == "") != _default(new))
        )
        if not edited or not self._others(new):
            return new
        kept = [c for c in new.status.conditions if c.type != reservation_status.READY]
        status = msgspec.structs.replace(new.status, conditions=(*kept, _FLAG))
        return msgspec.structs.replace(new, status=status)

    def consider(self, reservation: Reservation) -> None:
        """Report that a conflict began or ended; other reservations' conflicts may have ended."""
        info = self._world.reservations.by_uid.get(reservation.uid)
        if info is not None and info.policy_conflicts:
            self._conflicting[reservation.uid] = reservation
        else:
            self._conflicting.pop(reservation.uid, None)
        self._retry_on(reservation.status.node_name)

    def forget(self, reservation: Reservation) -> None:
        """Forget a reservation that ended or was deleted."""
        self._conflicting.pop(reservation.uid, None)
        self._retry_on(reservation.status.node_name)

    def begin(self) -> None:
        """Start to write, once the whole cluster has been read."""
        self._ready = True
        self.retry()

    def retry(self) -> None:
        """Write what has changed."""
        for node in {reservation.status.node_name for reservation in self._conflicting.values()}:
            self._retry_on(node)

    def _retry_on(self, node: str) -> None:
        """Write what has changed on one node: only reservations of one node conflict."""
        for info in self._world.reservations.on_node(node) if self._ready else ():
            reservation = self._conflicting.get(info.uid)
            if reservation is None:
                continue
            others = self._others(reservation)
            if others and not reservation.policy_conflicts:
                self._report(reservation, others)
            elif not others:
                self._withdraw(reservation)

    def _report(self, reservation: Reservation, others: list[str]) -> None:
        reason = reservation_status.POLICY_CONFLICT
        policy = reservation.spec.allocate_policy or "absent"
        message = (
            f"spec.allocatePolicy: {policy} conflicts with {', '.join(others)} on node "
            f"{reservation.status.node_name}: there either all reservations have a policy or none "
            "has; until then it gets no new owners"
        )
        if self._write_ready(reservation, "False", reason, message):
            self._writes.record(reservation, "Warning", reason, message)

    def _withdraw(self, reservation: Reservation) -> None:
        if not reservation.policy_conflicts:
            # Nothing was written yet.
            self._conflicting.pop(reservation.uid)
            self._world.upsert(reservation)
        elif self._write_ready(reservation, "True", reservation_status.AVAILABLE, ""):
            self._writes.record(reservation, "Normal", reservation_status.AVAILABLE, AGAIN)

    def _write_ready(self, reservation: Reservation, status: str, reason: str, text: str) -> bool:
        conditions = reservation_status.with_ready(
            reservation.status.conditions, status, reason, self._clock.now(), text
        )
        return self._writes.start(reservation, {"conditions": conditions})

    def _others(self, reservation: Reservation) -> list[str]:
        """Return the names of the reservations of the other kind on the node that get owners."""
        return sorted(
            info.reservation.name
            for info in self._world.reservations.on_node(reservation.status.node_name)
            if info.uid != reservation.uid
            and info.matchable
            and (info.policy == "") != _default(reservation)
        )


def _default(reservation: Reservation) -> bool:
    return reservation.spec.allocate_policy == ""
