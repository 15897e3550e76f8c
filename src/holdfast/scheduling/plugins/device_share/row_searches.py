"""Search devices for a pod on one row, or in one reservation there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange, Rows, Verdicts
from holdfast.scheduling.framework.reservation_options import ReservationFilter
from holdfast.scheduling.plugins.device_share.searches import Searches, StateResult, asked_by
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.candidates import DeviceOffer
from holdfast.state.device_share.ledger import DeviceShareLedger
from holdfast.state.device_share.node_holders import DeviceHolder, sum_of
from holdfast.state.devices.inventory import Inventory
from holdfast.state.numa.pod_trials import PodTrials
from holdfast.state.reservations.matching import ReservationMatch
from holdfast.state.reservations.reservation_cache import ReservationCache
from holdfast.state.reservations.reserved_resources import expected_reservation

NONE_SERVED: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class RowSearches(ReservationFilter):
    """The searches for what a pod asks on single rows, and the reservations that it may use.

    ``searches_for`` returns the searches for the rest of the request when devices of a DeviceClass
    serve some of its resources. They do so on nodes that do not have these resources themselves.
    """

    nodes: NodeTable
    ledger: DeviceShareLedger
    reservations: ReservationCache
    classes: Inventory
    searches_for: Callable[[frozenset[int]], Searches]
    match: ReservationMatch | None = None
    with_class: tuple[int, ...] = ()
    """Resources of the request that have a DeviceClass (epoch ``classes``)."""
    numa: PodTrials | None = None
    """The trials that decide about NUMA nodes, if the pod or a node has a NUMA policy."""

    @property
    def ignores_reservations(self) -> bool:
        """Whether the pod may use what is reserved for others."""
        return self.match is not None and self.match.ignores_reservations

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row."""
        return self.best(row, change).code

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why the devices of the node do not serve the request."""
        return self.without_reservation(row, change).reasons

    def filter_reservations(self, slots: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Exclude reservations with which the devices of their node do not serve the request."""
        codes = [self.of_reservation(slot, change).code for slot in slots.tolist()]
        return np.array(codes, np.int8)

    def reservation_reasons(self, slot: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why the devices of the reservation's node do not serve the request."""
        return self.of_reservation(slot, change).reasons

    def filter_pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> int:
        """Return whether a reservation can have the devices of pods, and others that it needs."""
        return self.pre_allocation(row, pods, change).code

    def best(self, row: int, change: PodChange = NO_CHANGE) -> StateResult:
        """Return the result of the row's best option: a reservation, or none.

        If several pass, it is the reservation that is nominated first at equal scores.
        """
        slots = self.reservations.slots_on(self.match, row)
        options = [self.of_reservation(slot, change) for slot in slots]
        return min(
            (*options, self.without_reservation(row, change)), key=lambda result: result.code
        )

    def without_reservation(self, row: int, change: PodChange = NO_CHANGE) -> StateResult:
        """Return the result for a row if the pod uses no reservation there."""
        node = self.nodes.names[row]
        lent = self.ledger.reservations_on(node) if self.ignores_reservations else ()
        if not lent and not _concerns(change, row):
            mask = self._numa_nodes(row)
            return self.searches_on(row).of(self.ledger.signature(row), numa_nodes=mask)
        removed, added = self._change(row, change)
        signature = self.ledger.signature_of(node, removed=removed, added=added, lent=lent)
        mask = self._numa_nodes(row, "", removed)
        return self.searches_on(row).of(signature, numa_nodes=mask)

    def pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> StateResult:
        """Return the result for a row if a reservation takes over what pods there have."""
        taken_over = sum_of(self.ledger.use_of(pod.uid) for pod in pods)
        removed, added = self._change(row, change)
        removed = removed.union(pod.uid for pod in pods)
        signature = self.ledger.signature_of(self.nodes.names[row], removed=removed, added=added)
        mask = self._numa_nodes(row, "", removed)
        return self.searches_on(row).of(signature, DeviceOffer(taken_over, all_of_it=True), mask)

    def of_reservation(self, slot: int, change: PodChange = NO_CHANGE) -> StateResult:
        """Return the result for one of the reservations that the pod may use, on its node."""
        info = self.reservations.at(slot)
        row = self.nodes.row_of.get(info.node, -1)
        removed = frozenset[str]()
        if _concerns(change, row):
            removed, added = self._change(row, change)
            signature, left = self.ledger.changed_offer(info.uid, info.node, removed, added)
        else:
            signature, left = self.ledger.offer(info.uid, info.node)
        offer = DeviceOffer(left, self.reservations.restricted_device_types(info.uid))
        if row < 0:
            return self.searches_for(NONE_SERVED).of(signature, offer)
        return self.searches_on(row).of(signature, offer, self._numa_nodes(row, info.uid, removed))

    def _numa_nodes(
        self, row: int, reservation: str = "", removed: Collection[str] = ()
    ) -> int | None:
        """Return the NUMA nodes for all resources of the pod as a mask, None for any.

        The ledger of NUMA nodes gives the same answer to the plugin that allocates CPUs; what it
        rejects is rejected there.
        """
        if self.numa is None:
            return None
        merged = self.numa.alignment(row, reservation, removed)
        return merged.mask if merged.admitted else None

    def _served_on(self, row: int, with_class: Iterable[int]) -> frozenset[int]:
        """Return which resources devices of a DeviceClass serve on a row."""
        allocatable = self.nodes.allocatable
        return frozenset(r for r in with_class if not allocatable[r, row])

    def searches_on(self, row: int) -> Searches:
        """Return the searches for what devices of a DeviceClass do not serve on a row."""
        served = self._served_on(row, self.with_class) if self.with_class else NONE_SERVED
        return self.searches_for(served)

    def _change(self, row: int, change: PodChange) -> tuple[frozenset[str], list[DeviceHolder]]:
        """Return the pods that leave a row, and what the added pods would use of its devices."""
        removed = frozenset(pod.uid for pod in change.removed.get(row, ()))
        node, added = self.nodes.names[row], list[DeviceHolder]()
        for pod in change.added.get(row, ()):
            served = self._served_on(row, self.classes.device_backed(pod.request))
            asked = asked_by(pod, self.nodes.resources, served)
            if isinstance(asked, StateResult):
                continue
            info, offer = expected_reservation(self.reservations, row, pod), None
            if info is None:
                signature = self.ledger.signature_of(node, removed=removed, added=added)
            else:
                signature, left = self.ledger.changed_offer(info.uid, node, removed, added)
                offer = DeviceOffer(left, self.reservations.restricted_device_types(info.uid))
            use = self.searches_on(row).use_by(asked, signature, offer)
            added.append(DeviceHolder(use, "" if info is None else info.uid))
        return removed, added


def _concerns(change: PodChange, row: int) -> bool:
    return bool(change) and (row in change.added or row in change.removed)
