"""Create the reservations of jobs; jobs of one workload evict in the order of their reservations.

The pod that replaces an evicted one may use the reservation of any job of its workload, and takes
the one with the lowest order. If a later job evicted first, its pod would take the room of an
earlier one, which then fails, and the later job would wait for a pod that never comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.api import reservation_names as names
from holdfast.api.decode import JsonObject
from holdfast.api.pod_migration_job import RUNNING, PodMigrationJob
from holdfast.api.reservation import AVAILABLE, Reservation
from holdfast.api.scheme import RESERVATIONS
from holdfast.controllers.pod_migration.job_status import EVICTION
from holdfast.controllers.pod_migration.plan import is_made_by
from holdfast.controllers.pod_migration.reservation_template import (
    reservation_body,
    reservation_options,
)
from holdfast.controllers.reconciler import ControllerContext
from holdfast.runtime.errors import AlreadyExists


class _OrderLabels:
    """Values of the order label: milliseconds since the epoch, never the same one twice."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: float) -> str:
        """Return the next value.

        >>> orders = _OrderLabels()
        >>> orders.next(1.5), orders.next(1.5), orders.next(1.6)
        ('1500', '1501', '1600')
        """
        self._last = max(int(now * 1000), self._last + 1)
        return str(self._last)


class ReservationMaker:
    """Writes reservations; each gets a different order."""

    def __init__(self, context: ControllerContext) -> None:
        self._client, self._clock = context.client, context.clock
        self._reserve_volume_claims = context.settings.migration.reserve_volume_claims
        self._orders = _OrderLabels()

    async def create(self, job: PodMigrationJob, pod: JsonObject) -> JsonObject:
        """Create the reservation of a job, and return the job's options with its reference.

        A reservation that the job has already created is used again. Raises BadRequest if the
        template of the job is malformed, AlreadyExists if another reservation has its name.
        """
        options = reservation_options(job, pod, reserve_volume_claims=self._reserve_volume_claims)
        reservation = await self._create_or_adopt(job, options["template"])
        reference = {
            "apiVersion": RESERVATIONS.api_version,
            "kind": RESERVATIONS.kind,
            "name": reservation.name,
            "uid": reservation.uid,
        }
        return {**options, "reservationRef": reference}

    async def complete(self, reservation: Reservation) -> None:
        """Set the order of a user's reservation, so that the pod prefers it to others."""
        if names.ORDER in reservation.metadata.labels:
            return
        labels = {names.ORDER: self._orders.next(self._clock.now())}
        patch = {"metadata": {"uid": reservation.uid, "labels": labels}}
        await self._client.patch(RESERVATIONS, reservation.name, patch)

    async def _create_or_adopt(self, job: PodMigrationJob, template: Any) -> Reservation:
        body = reservation_body(job, template, self._orders.next(self._clock.now()))
        try:
            return await self._client.create(RESERVATIONS, body)
        except AlreadyExists:
            reservation = await self._client.get(RESERVATIONS, body["metadata"]["name"])
            if not is_made_by(job, reservation):
                raise
            return reservation


def _order_of(reservation: Reservation) -> int:
    """Return the order of a reservation; one without order comes last."""
    label = reservation.metadata.labels.get(names.ORDER, "")
    return (int(label) if label.isascii() and label.isdigit() and len(label) < 20 else 0) or 2**63


def has_turn(own: Reservation, others: Iterable[tuple[PodMigrationJob, Reservation]]) -> bool:
    """Return whether no other job of the workload with an earlier reservation has yet to evict."""
    return not any(
        job.phase == RUNNING
        and not job.spec.paused
        and job.condition(EVICTION) is None
        and reservation.uid != own.uid
        and reservation.phase == AVAILABLE
        and _order_of(reservation) < _order_of(own)
        for job, reservation in others
    )
