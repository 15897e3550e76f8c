"""In which order jobs of one workload evict: that in which its pods take the reservations.

The pod that replaces an evicted one may use the reservation of any job of its workload, and takes
the one with the lowest order. If a later job evicted first, its pod would take the room of an
earlier one, which then fails, and the later job would wait for a pod that never comes.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api import reservation_names as names
from holdfast.api.pod_migration_job import RUNNING, PodMigrationJob
from holdfast.api.reservation import AVAILABLE, Reservation
from holdfast.controllers.pod_migration.job_status import EVICTION


class OrderLabels:
    """Values of the order label: milliseconds since the epoch, never the same one twice."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: float) -> str:
        """Return the next value.

        >>> orders = OrderLabels()
        >>> orders.next(1.5), orders.next(1.5), orders.next(1.6)
        ('1500', '1501', '1600')
        """
        self._last = max(int(now * 1000), self._last + 1)
        return str(self._last)


def order_of(reservation: Reservation) -> int:
    """Return the order of a reservation; one without order comes last."""
    label = reservation.metadata.labels.get(names.ORDER, "")
    return (int(label) if label.isascii() and label.isdigit() and len(label) < 20 else 0) or 2**63


def has_turn(own: Reservation, others: Iterable[tuple[PodMigrationJob, Reservation]]) -> bool:
    """Return whether no other job of the workload has an earlier reservation and yet to evict."""
    return not any(
        job.phase == RUNNING
        and not job.spec.paused
        and job.condition(EVICTION) is None
        and reservation.uid != own.uid
        and reservation.phase == AVAILABLE
        and order_of(reservation) < order_of(own)
        for job, reservation in others
    )
