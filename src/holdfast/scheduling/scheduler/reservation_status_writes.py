"""Write conditions and events of reservations, independently of the scheduling of pods."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.api.meta import version_guard
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import RESERVATIONS
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.runtime.errors import HoldfastError

StartTask = Callable[[Coroutine[Any, Any, None]], object]


class ReservationStatusWrites:
    """Writes parts of the status of reservations; ``component`` of an event is their scheduler."""

    def __init__(
        self, client: Client, recorder: EventRecorder, start_task: StartTask, action: str
    ) -> None:
        self._client = client
        self._recorder = recorder
        self.start_task = start_task
        self._action = action
        self._writing: set[str] = set()

    async def patch(self, reservation: Reservation, status: dict[str, Any]) -> None:
        """Write parts of the status, unless the reservation has changed."""
        body = {"metadata": version_guard(reservation), "status": status}
        await self._client.patch(RESERVATIONS, reservation.name, body, subresource="status")

    def start(self, reservation: Reservation, status: dict[str, Any]) -> bool:
        """Write in the background; return False if a write of this reservation is under way.

        A refused write is dropped: a watch event follows, which tries again.
        """
        if reservation.uid in self._writing:
            return False
        self._writing.add(reservation.uid)
        self.start_task(self._write(reservation, status))
        return True

    async def _write(self, reservation: Reservation, status: dict[str, Any]) -> None:
        try:
            await self.patch(reservation, status)
        except HoldfastError:
            return
        finally:
            self._writing.discard(reservation.uid)

    def record(self, reservation: Reservation, type_: str, reason: str, message: str) -> None:
        """Record an event on a reservation."""
        self._recorder.record(
            reservation, type_, reason, message, action=self._action,
            component=reservation.scheduler_name,
        )  # fmt: skip
