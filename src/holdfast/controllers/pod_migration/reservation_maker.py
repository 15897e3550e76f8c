"""Create the reservations of jobs, and complete those that users give to them."""

from __future__ import annotations

from typing import Any

from holdfast.api import reservation_names as names
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import RESERVATIONS
from holdfast.controllers.pod_migration.eviction_turns import OrderLabels
from holdfast.controllers.pod_migration.plan import is_made_by
from holdfast.controllers.pod_migration.reservation_template import (
    Raw,
    reservation_body,
    reservation_options,
)
from holdfast.controllers.reconciler import ControllerContext
from holdfast.errors import AlreadyExists


class ReservationMaker:
    """Writes reservations; each gets an order of its own."""

    def __init__(self, context: ControllerContext) -> None:
        self._client, self._clock = context.client, context.clock
        self._reserve_volume_claims = context.settings.migration.reserve_volume_claims
        self._orders = OrderLabels()

    async def create(self, job: PodMigrationJob, pod: Raw) -> Raw:
        """Create the reservation of a job, and return the job's options with its reference.

        One that the job has created before is used again. Raises BadRequest if the template of the
        job is malformed, AlreadyExists if another reservation has its name.
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
        """Give a reservation of the user its order, so that the pod prefers it to others."""
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
