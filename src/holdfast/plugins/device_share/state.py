"""The state of a pod that requests devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.api import koordinator_names as names
from holdfast.api.pod import Pod
from holdfast.api.reservation_names import IGNORED
from holdfast.capacity.matching import ReservationMatch
from holdfast.capacity.reservation_cache import ReservationCache
from holdfast.capacity.reserved_resources import expected_reservation
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.device_share.ledger import DeviceShareLedger
from holdfast.device_share.node_holders import Holder, sum_of
from holdfast.device_share.offers import Offer
from holdfast.devices.inventory import Inventory
from holdfast.framework.plugin import NO_CHANGE, AnyRows, PodChange
from holdfast.framework.values import rows_at
from holdfast.numa.pod_trials import PodTrials
from holdfast.plugins.device_share.case_results import CaseResults
from holdfast.plugins.device_share.searches import Found, Searches, asked_by

_GUIDING = (
    names.DEVICE_ALLOCATE_HINT, names.DEVICE_JOINT_ALLOCATE, names.GPU_PARTITION_SPEC,
    names.RESOURCE_SPEC, names.NUMA_TOPOLOGY_SPEC,
)  # fmt: skip
"""Annotations that guide the choice of devices, or of NUMA nodes."""
_LABELS = (names.GPU_ISOLATION_PROVIDER, names.QOS_CLASS, names.PRIORITY_CLASS, IGNORED)
"""Labels that decide which devices a pod gets."""

_SIGNATURE_BITS = 20
"""More than there are signatures of NUMA nodes."""
_A_STEP = 32
"""So many searches take a few milliseconds at most."""
_NONE_SERVED: frozenset[int] = frozenset()


def guiding_metadata(pod: Pod) -> tuple[tuple[str | None, ...], ...]:
    """Return the annotations and labels that decide which devices a pod gets."""
    annotations, labels = pod.metadata.annotations, pod.metadata.labels
    of_labels = tuple([labels.get(key) for key in _LABELS]) if labels else ()
    return of_labels, tuple([annotations.get(key) for key in _GUIDING]) if annotations else ()


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
    numa: PodTrials | None = None
    """If the pod, or a node, has a NUMA policy: what decides about NUMA nodes."""

    _results: CaseResults = field(default_factory=CaseResults)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceState) and self._key == other._key

    @property
    def _key(self) -> Hashable:
        searches = self.searches_for(_NONE_SERVED)
        request = None if self.numa is None else self.numa.request
        return id(searches), id(self.match), self.with_class, request

    def cases(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return a number by row: equal ones have equal results without a reservation."""
        found = self.ledger.cases(self.with_class, rows)
        if self.numa is not None:
            found = (found << _SIGNATURE_BITS) + self.numa.ledger.signatures()[rows]
        return found

    @property
    def depends_on_cases_alone(self) -> bool:
        """Whether rows of one case have equal results if the pod uses no reservation there."""
        return not self.ignores_reservations and not self.pre_allocates

    def results(self, rows: AnyRows) -> tuple[CaseResults, NDArray[np.int64]]:
        """Return what was found without a reservation, and the case of each row."""
        cases = self.cases(rows)
        missing = self._results.missing(cases, self._version)
        if len(missing):
            self._search_rows(cases[missing], rows_at(rows, missing))
        return self._results, cases

    @property
    def _version(self) -> tuple[int, ...]:
        return self.ledger.version, -1 if self.numa is None else self.numa.ledger.generation

    def _search_rows(self, cases: NDArray[np.int64], rows: Iterable[int]) -> None:
        self._results.add(cases, [self.without_reservation(row) for row in rows])

    def search_in_steps(self) -> Iterator[None]:
        """Search what filter and score will read of all rows, with pauses; the world may change."""
        reservations = self.nodes.epochs["reservations"]
        yield from self.ledger.number_in_steps()
        if self.numa is not None:
            yield from self.numa.ledger.number_in_steps()
        version, count = self._version, self._state_count
        if self._results.is_complete(version, count - _A_STEP):
            return
        if self.depends_on_cases_alone:
            yield from self._search_cases_in_steps()
        if self.match is not None and not self.pre_allocates:
            yield from self._search_reservations_in_steps(self.match, reservations)
        self._results.set_complete(version, count)

    @property
    def _state_count(self) -> int:
        """The number of states; if few were added, few rows have another result."""
        return self.ledger.state_count + (
            0 if self.numa is None else self.numa.ledger.signature_count
        )

    def _search_cases_in_steps(self) -> Iterator[None]:
        rows = slice(0, self.nodes.size)
        while len(self._results.missing(self.cases(rows), self._version)):
            yield
            rows = slice(0, self.nodes.size)
            cases = self.cases(rows)
            missing = self._results.missing(cases, self._version)[:_A_STEP]
            self._search_rows(cases[missing], missing.tolist())

    def _search_reservations_in_steps(
        self, match: ReservationMatch, reservations: int
    ) -> Iterator[None]:
        """Search the rows with matched reservations, of this epoch; Searches keeps the results."""
        rows, epochs = match.rows.tolist(), self.nodes.epochs
        for begin in range(0, len(rows), _A_STEP):
            yield
            if epochs["reservations"] != reservations:
                return
            for row in rows[begin : begin + _A_STEP]:
                self.best(row)

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
            mask = self._numa_nodes(row)
            return self._searches_on(row).of(self.ledger.signature(row), numa_nodes=mask)
        removed, added = self._change(row, change)
        signature = self.ledger.signature_of(node, removed=removed, added=added, lent=lent)
        mask = self._numa_nodes(row, "", removed)
        return self._searches_on(row).of(signature, numa_nodes=mask)

    def pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> Found:
        """Return the result for a row if a reservation takes over what pods there have."""
        taken_over = sum_of(self.ledger.use_of(pod.uid) for pod in pods)
        removed, added = self._change(row, change)
        removed = removed.union(pod.uid for pod in pods)
        signature = self.ledger.signature_of(self.nodes.names[row], removed=removed, added=added)
        mask = self._numa_nodes(row, "", removed)
        return self._searches_on(row).of(signature, Offer(taken_over, all_of_it=True), mask)

    def of_reservation(self, slot: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result for one of the reservations that the pod may use, on its node."""
        info = self.reservations.at(slot)
        row = self.nodes.row_of.get(info.node, -1)
        removed = frozenset[str]()
        if _concerns(change, row):
            removed, added = self._change(row, change)
            signature, left = self.ledger.changed_offer(info.uid, info.node, removed, added)
        else:
            signature, left = self.ledger.offer(info.uid, info.node)
        offer = Offer(left, self.reservations.restricted_device_types(info.uid))
        if row < 0:
            return self.searches_for(_NONE_SERVED).of(signature, offer)
        return self._searches_on(row).of(signature, offer, self._numa_nodes(row, info.uid, removed))

    def best(self, row: int, change: PodChange = NO_CHANGE) -> Found:
        """Return the result of the row's best option: a reservation, or none.

        Of several that pass it is the reservation that is nominated first at equal scores.
        For a reservation that pre-allocates, it is that without any pod: they may have all that it
        takes over. The plugin that chooses these pods decides about the row.
        """
        if self.pre_allocates:
            return self.if_unused(row)
        slots = self.reservations.slots_on(self.match, row)
        options = [self.of_reservation(slot, change) for slot in slots]
        return min((*options, self.without_reservation(row, change)), key=_code)

    def if_unused(self, row: int) -> Found:
        """Return the result for a row if nothing of its devices were used."""
        signature = self.ledger.unused_signature(self.ledger.signature(row))
        return self._searches_on(row).of(signature)

    def _change(self, row: int, change: PodChange) -> tuple[frozenset[str], list[Holder]]:
        """Return the pods that leave a row, and what those that come would use of its devices."""
        removed = frozenset(pod.uid for pod in change.removed.get(row, ()))
        node, added = self.nodes.names[row], list[Holder]()
        for pod in change.added.get(row, ()):
            served = self._served_on(row, self.classes.device_backed(pod.request))
            asked = asked_by(pod, self.nodes.resources, served)
            if isinstance(asked, Found):
                continue
            info, offer = expected_reservation(self.reservations, row, pod), None
            if info is None:
                signature = self.ledger.signature_of(node, removed=removed, added=added)
            else:
                signature, left = self.ledger.changed_offer(info.uid, node, removed, added)
                offer = Offer(left, self.reservations.restricted_device_types(info.uid))
            use = self._searches_on(row).use_by(asked, signature, offer)
            added.append(Holder(use, "" if info is None else info.uid))
        return removed, added


def _concerns(change: PodChange, row: int) -> bool:
    return bool(change) and (row in change.added or row in change.removed)


def _code(found: Found) -> int:
    return found.code
