"""The state of a pod that requests devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api import koordinator_names as names
from holdfast.api.pod import Pod
from holdfast.capacity.matching import ReservationMatch
from holdfast.capacity.reservation_cache import ReservationCache
from holdfast.capacity.reservation_info import ReservationInfo
from holdfast.capacity.reserved_resources import expected_reservation
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.device_share.ledger import DeviceShareLedger
from holdfast.device_share.node_holders import Holder, sum_of
from holdfast.device_share.requests import device_types
from holdfast.devices.inventory import Inventory
from holdfast.framework.plugin import NO_CHANGE, AnyRows, PodChange
from holdfast.plugins.device_share.searches import Found, Offer, Searches, asked_by

_GUIDING = (names.DEVICE_ALLOCATE_HINT, names.DEVICE_JOINT_ALLOCATE, names.GPU_PARTITION_SPEC)
"""Annotations that guide the choice of devices."""

_NO_TYPES: frozenset[str] = frozenset()
_NONE_SERVED: frozenset[int] = frozenset()


def guiding_metadata(pod: Pod) -> tuple[str | None, ...]:
    """Return the annotations and the label that decide which devices a pod gets."""
    annotations = pod.metadata.annotations
    provider = pod.metadata.labels.get(names.GPU_ISOLATION_PROVIDER)
    if not annotations:
        return (provider,)
    return (provider, *[annotations.get(key) for key in _GUIDING])


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """What a pod asks, the searches for it, and the reservations that it may use.

    ``searches_for`` returns the searches for what is left of the request when devices of a
    DeviceClass serve some of its resources. They do on nodes that have none of their own.
    """

    nodes: NodeTable
    ledger: DeviceShareLedger
    reservations: ReservationCache
    classes: Inventory
    searches_for: Callable[[frozenset[int]], Searches]
    match: ReservationMatch | None = None
    with_class: tuple[int, ...] = ()
    """Resources of the request that have a DeviceClass (epoch ``classes``)."""

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceState) and self._key == other._key

    @property
    def _key(self) -> tuple[int, int, tuple[int, ...]]:
        return id(self.searches_for(_NONE_SERVED)), id(self.match), self.with_class

    def cases(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return a number by row: equal ones have equal results without a reservation."""
        found = self.ledger.signatures()[rows].astype(np.int64)
        for resource in self.with_class:
            found = found * 2 + (self.nodes.allocatable[resource, rows] == 0)
        return found

    def of_case(self, number: int, *, unused: bool = False) -> Found:
        """Return the result for a number of ``cases``, or if nothing there were used."""
        served = []
        for resource in reversed(self.with_class):
            number, is_served = divmod(number, 2)
            if is_served:
                served.append(resource)
        signature = self.ledger.unused_signature(number) if unused else number
        return self.searches_for(frozenset(served)).of(signature)

    def _served_on(self, row: int, with_class: Iterable[int]) -> frozenset[int]:
        """Return which resources devices of a DeviceClass serve on a row."""
        allocatable = self.nodes.allocatable
        return frozenset(r for r in with_class if not allocatable[r, row])

    def _searches_on(self, row: int) -> Searches:
        served = self._served_on(row, self.with_class) if self.with_class else _NONE_SERVED
        return self.searches_for(served)

    @property
    def ignores_reservations(self) -> bool:
        """Whether the pod may use what is reserved for others."""
        return self.match is not None and self.match.ignores_reservations

    @property
    def pre_allocates(self) -> bool:
        """Whether the pod is a reserve pod that may take over devices of running pods."""
        return self.match is not None and self.match.pre_allocates

    def without_reservation(self, row: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result for a row if the pod uses no reservation there."""
        node = self.nodes.names[row]
        lent = self.ledger.reservations_on(node) if self.ignores_reservations else ()
        if not lent and not _concerns(change, row):
            return self._searches_on(row).of(self.ledger.signature(row))
        gone, coming = self._change(row, change)
        signature = self.ledger.signature_of(node, gone=gone, coming=coming, lent=lent)
        return self._searches_on(row).of(signature)

    def pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> Found:
        """Return the result for a row if a reservation takes over what pods there have."""
        taken_over = sum_of(self.ledger.use_of(pod.uid) for pod in pods)
        gone, coming = self._change(row, change)
        gone = gone.union(pod.uid for pod in pods)
        signature = self.ledger.signature_of(self.nodes.names[row], gone=gone, coming=coming)
        return self._searches_on(row).of(signature, Offer(taken_over, all_of_it=True))

    def of_reservation(self, slot: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result for one of the reservations that the pod may use, on its node."""
        info = self.reservations.at(slot)
        row = self.nodes.row_of.get(info.node, -1)
        if _concerns(change, row):
            found = self.ledger.changed_offer(info.uid, info.node, *self._change(row, change))
        else:
            found = self.ledger.offer(info.uid, info.node)
        searches = self._searches_on(row) if row >= 0 else self.searches_for(_NONE_SERVED)
        return searches.of(found[0], Offer(found[1], self._restricted(info)))

    def slots_on(self, row: int) -> list[int]:
        """Return the slots of the reservations on a row that the pod may use."""
        if self.match is None or self.match.ignores_reservations:
            return []
        slots: list[int] = self.match.slots[self.match.span(row)].tolist()
        return slots

    def best(self, row: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result of the row's best option: a reservation, or none.

        For a reservation that pre-allocates, it is that without any pod: they may have all that it
        takes over. The plugin that chooses these pods decides about the row.
        """
        if self.pre_allocates:
            signature = self.ledger.unused_signature(self.ledger.signature(row))
            return self._searches_on(row).of(signature)
        options = [self.of_reservation(slot, change) for slot in self.slots_on(row)]
        return min((*options, self.without_reservation(row, change)), key=_code)

    def _restricted(self, info: ReservationInfo) -> frozenset[str]:
        """Return the types of which owners get nothing but the devices of the reservation."""
        if info.policy != "Restricted":
            return _NO_TYPES
        names_of = self.nodes.resources
        return frozenset(device_types(names_of[resource] for resource in info.restricted))

    def _change(self, row: int, change: PodChange) -> tuple[frozenset[str], list[Holder]]:
        """Return the pods that leave a row, and what those that come would use of its devices."""
        gone = frozenset(pod.uid for pod in change.removed.get(row, ()))
        node, coming = self.nodes.names[row], list[Holder]()
        for pod in change.added.get(row, ()):
            served = self._served_on(row, self.classes.device_backed(pod.request))
            asked = asked_by(pod, self.nodes.resources, served)
            if isinstance(asked, Found):
                continue
            info, offer = expected_reservation(self.reservations, row, pod), None
            if info is None:
                signature = self.ledger.signature_of(node, gone=gone, coming=coming)
            else:
                signature, left = self.ledger.changed_offer(info.uid, node, gone, coming)
                offer = Offer(left, self._restricted(info))
            use = self._searches_on(row).use_by(asked, signature, offer)
            coming.append(Holder(use, "" if info is None else info.uid))
        return gone, coming


def _concerns(change: PodChange, row: int) -> bool:
    return bool(change) and (row in change.added or row in change.removed)


def _code(found: Found) -> int:
    return found.code
