"""The state of a pod that requests devices."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api import koordinator_names as names
from holdfast.api.pod import Pod
from holdfast.capacity.matching import ReservationMatch
from holdfast.capacity.reservation_cache import ReservationCache
from holdfast.capacity.reservation_info import ReservationInfo
from holdfast.columns.node_table import NodeTable
from holdfast.device_share.allocations import UNUSED, DeviceUse
from holdfast.device_share.ledger import DeviceShareLedger
from holdfast.device_share.requests import device_types
from holdfast.framework.plugin import NO_CHANGE, PodChange
from holdfast.plugins.device_share.searches import Found, Offer, Searches

_GUIDING = (names.DEVICE_ALLOCATE_HINT, names.DEVICE_JOINT_ALLOCATE, names.GPU_PARTITION_SPEC)
"""Annotations that guide the choice of devices."""


_NO_TYPES: frozenset[str] = frozenset()


def guiding_metadata(pod: Pod) -> tuple[str | None, ...]:
    """Return the annotations and the label that decide which devices a pod gets."""
    annotations = pod.metadata.annotations
    provider = pod.metadata.labels.get(names.GPU_ISOLATION_PROVIDER)
    if not annotations:
        return (provider,)
    return (provider, *[annotations.get(key) for key in _GUIDING])


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """What a pod asks, the searches for it, and the reservations that it may use."""

    nodes: NodeTable
    ledger: DeviceShareLedger
    searches: Searches
    reservations: ReservationCache
    match: ReservationMatch | None = None

    def __hash__(self) -> int:
        return id(self.searches)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeviceState)
            and self.searches is other.searches
            and self.match is other.match
        )

    @property
    def ignores_reservations(self) -> bool:
        """Whether the pod may use what is reserved for others."""
        return self.match is not None and self.match.ignores_reservations

    def without_reservation(self, row: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result for a row if the pod uses no reservation there."""
        node = self.nodes.names[row]
        lent = self.ledger.reservations_on(node) if self.ignores_reservations else ()
        if not lent and not _concerns(change, row):
            return self.searches.of(self.ledger.signature(row))
        gone, more = self._change(row, change)
        return self.searches.of(self.ledger.signature_of(node, gone=gone, lent=lent, more=more))

    def of_reservation(self, slot: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result for one of the reservations that the pod may use, on its node."""
        info = self.reservations.at(slot)
        row = self.nodes.row_of.get(info.node, -1)
        if _concerns(change, row):
            found = self.ledger.changed_offer(info.uid, info.node, *self._change(row, change))
        else:
            found = self.ledger.offer(info.uid, info.node)
        return self.searches.of(found[0], Offer(found[1], self._restricted(info)))

    def slots_on(self, row: int) -> list[int]:
        """Return the slots of the reservations on a row that the pod may use."""
        if self.match is None or self.match.ignores_reservations:
            return []
        slots: list[int] = self.match.slots[self.match.span(row)].tolist()
        return slots

    def best(self, row: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result of the row's best option: a reservation, or none."""
        options = [self.of_reservation(slot, change) for slot in self.slots_on(row)]
        return min((*options, self.without_reservation(row, change)), key=_code)

    def _restricted(self, info: ReservationInfo) -> frozenset[str]:
        """Return the types of which owners get nothing but the devices of the reservation."""
        if info.policy != "Restricted":
            return _NO_TYPES
        names_of = self.nodes.resources
        return frozenset(device_types(names_of[resource] for resource in info.restricted))

    def _change(self, row: int, change: PodChange) -> tuple[frozenset[str], DeviceUse]:
        """Return the pods that leave a row, and what those that come would use of its devices.

        A pod that comes may use one of its reservations; then it takes nothing that is free.
        """
        gone = frozenset(pod.uid for pod in change.removed.get(row, ()))
        node, more = self.nodes.names[row], UNUSED
        for pod in change.added.get(row, ()):
            match = self.reservations.match(pod)
            if isinstance(match, ReservationMatch) and len(match.slots[match.span(row)]):
                continue
            signature = self.ledger.signature_of(node, gone=gone, more=more)
            more = more.plus(self.searches.use_by(pod, signature, self.nodes.resources))
        return gone, more


def _concerns(change: PodChange, row: int) -> bool:
    return bool(change) and (row in change.added or row in change.removed)


def _code(found: Found) -> int:
    return found.code
