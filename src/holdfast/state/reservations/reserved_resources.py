"""Compute what reservations hold on a row, for one pod, and under a hypothetical change.

For an owner, what its reservations hold does not count as requested; only the requests of their
owners do. Filters decide this for each reservation by its allocate policy. Scores simply ignore
what the matchable reservations of the pod hold.

Under a hypothetical change, a removed pod frees resources on its node or in its reservations, and
an added pod takes them. An added pod that owns a reservation on the row is expected to allocate
from it, so other owners cannot have these resources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.interner import PODS
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.request_fit import short_of
from holdfast.state.reservations.matching import ReservationMatch
from holdfast.state.reservations.reservation_info import ReservationInfo

if TYPE_CHECKING:
    from holdfast.state.reservations.reservation_cache import ReservationCache


Rows = NDArray[np.intp]
Ints = NDArray[np.int64]
_NOTHING: Mapping[int, int] = {}
RowAmounts = dict[int, dict[int, int]]


class ReservedForPod:
    """Amounts held on each row by the reservations of one match; always the current ones."""

    __slots__ = ("_known", "_nodes", "_reservations", "_seq", "_slots_at", "match")

    def __init__(
        self, reservations: ReservationCache, match: ReservationMatch, nodes: NodeTable
    ) -> None:
        self._reservations = reservations
        self.match = match
        self._nodes = nodes
        self._slots_at: dict[int, list[int]] = {}
        self._seq = -1
        self._known: dict[int, Mapping[int, int]] = {}

    def among(self, rows: Rows | slice) -> tuple[Rows, Rows]:
        """Return those of the given rows that have a matched reservation: positions, and rows."""
        matched = self.match.rows
        if isinstance(rows, slice):
            start, stop = rows.start or 0, rows.stop
            here = matched[matched.searchsorted(start) : matched.searchsorted(stop)]
            return here - start, here
        there = matched.take(matched.searchsorted(rows), mode="clip")
        positions = (there == rows).nonzero()[0]
        return positions, rows[positions]

    def many(self, resource: int, rows: Rows) -> Ints:
        """Return what is held of a resource on rows that have a matched reservation."""
        match, columns = self.match, self._reservations.columns
        if resource >= len(columns.held):
            return np.zeros(len(rows), np.int64)
        held = columns.held[resource].take(match.slots) * columns.matchable.take(match.slots)
        by_row: Ints = np.add.reduceat(held, match.first)
        if len(rows) == len(match.rows) and (rows == match.rows).all():
            return by_row
        return by_row[match.rows.searchsorted(rows)]

    def at(self, row: int) -> Mapping[int, int]:
        """Return what is held of each resource on a row."""
        seq = self._nodes.seq
        if self._seq != seq:
            self._seq, self._known = seq, {}
        amounts = self._known.get(row)
        if amounts is None:
            amounts = self._known[row] = self._held_at(row)
        return amounts

    def _held_at(self, row: int) -> Mapping[int, int]:
        slots = self._slots_at.get(row)
        if slots is None:
            slots = self._slots_at[row] = self.match.slots[self.match.span(row)].tolist()
        reservations = self._reservations
        matchable = [
            reservations.at(slot) for slot in slots if reservations.columns.matchable_at[slot]
        ]
        if len(matchable) == 1:
            return matchable[0].held_amounts
        amounts: dict[int, int] = {}
        for info in matchable:
            for resource, amount in info.held_amounts.items():
                amounts[resource] = amounts.get(resource, 0) + amount
        return amounts or _NOTHING


@dataclass(frozen=True, slots=True)
class FreedCapacity:
    """Amounts freed (taken, if negative) on rows, and in reservations by slot."""

    rows: RowAmounts
    slots: RowAmounts
    matchable: Mapping[int, bool] = field(default_factory=dict)
    """Whether a reservation is matchable after the change, by slot, where the change decides: one
    that allocates once is not if an owner is added, and is again if its owner is removed."""

    def to_rows(self, rows: NDArray[np.intp], resource: int) -> Ints | int:
        """Return what is freed of a resource on each row."""
        return _amounts_at(self.rows, rows, resource)

    def to_reservations(self, slots: NDArray[np.intp], resource: int) -> Ints | int:
        """Return what is freed of a resource in each reservation."""
        return _amounts_at(self.slots, slots, resource)


NOTHING_FREED = FreedCapacity({}, {})


class AddedAndRemovedPods(Protocol):
    """A hypothetical change: pods added to rows, and removed from them."""

    @property
    def added(self) -> Mapping[int, Sequence[PodInfo]]:
        """Added pods, by row."""
        ...

    @property
    def removed(self) -> Mapping[int, Sequence[PodInfo]]:
        """Removed pods, by row."""
        ...

    def freed_resources(self, row: int) -> tuple[dict[int, int], int]:
        """Amounts and pod slots the change frees on a row, as if no pod used a reservation."""
        ...


def freed_capacity(reservations: ReservationCache, change: AddedAndRemovedPods) -> FreedCapacity:
    """Compute what a change frees: in reservations what pods allocated there, the rest on rows."""
    matchable: dict[int, bool] = {}
    freed = FreedCapacity({}, {}, matchable)
    for row in {*change.removed, *change.added}:
        amounts, pod_slots = change.freed_resources(row)
        to_row = freed.rows[int(row)] = {**amounts, PODS: pod_slots}
        removed = {pod.uid for pod in change.removed.get(row, ())}
        coming, replaced = _expected_allocations(
            reservations, int(row), change.added.get(row, ()), removed
        )
        for resource, amount in replaced.items():
            to_row[resource] = to_row.get(resource, 0) + amount
        more_held: dict[str, Mapping[int, int]] = {}
        for info, held, remaining in reservations.freed_if_removed(removed, coming):
            more_held[info.uid] = held
            freed.slots[info.slot] = dict(remaining)
            taken = (info.uid, info.node) in coming
            matchable[info.slot] = info.matchable_if(
                allocated=taken or bool(info.allocated_by_pod.keys() - removed)
            )
            for resource, amount in held.items():
                to_row[resource] = to_row.get(resource, 0) - amount
        for uid in removed & reservations.by_uid.keys():
            # A pod that acts as a reservation. Its request is freed above, but what its owner
            # shares with it stays requested.
            info = reservations.by_uid[uid]
            held = {**info.held_amounts, PODS: info.held_pod_slots}
            for resource, counted in info.counted_in_pod.items():
                then = held[resource] + more_held.get(uid, {}).get(resource, 0)
                to_row[resource] = to_row.get(resource, 0) + then - counted
            freed.slots[info.slot] = {r: -info.remaining(r) for r in (*info.reserved, PODS)}
            matchable[info.slot] = False
    return freed


def _expected_allocations(
    reservations: ReservationCache, row: int, pods: Sequence[PodInfo], removed: Collection[str]
) -> tuple[dict[tuple[str, str], Counter[int]], Counter[int]]:
    """Return what added pods would allocate beyond, and instead of, terminating owners."""
    wanted_by_uid: dict[str, Counter[int]] = {}
    taken = set(removed)
    for pod in pods:
        info = expected_reservation(reservations, row, pod, taken)
        if info is not None:
            wanted_by_uid.setdefault(info.uid, Counter()).update({**dict(pod.request), PODS: 1})
            if info.reservation.spec.allocate_once:
                taken.add(info.uid)
    coming, replaced = {}, Counter[int]()
    for uid, wanted in wanted_by_uid.items():
        info = reservations.by_uid[uid]
        left = Counter[int]()
        for owner in set(reservations.terminating_owners(info)).difference(removed):
            left.update(info.allocated_by_pod[owner])
        replaced += wanted & left
        coming[uid, info.node] = wanted - left
    return coming, replaced


def expected_reservation(
    reservations: ReservationCache, row: int, pod: PodInfo, taken: Collection[str] = ()
) -> ReservationInfo | None:
    """Return the reservation on a row that a pod will probably allocate from, or None.

    Those in ``taken``, by uid, are left to other pods.
    """
    match = reservations.match(pod)
    if match is None or match.ignores_reservations:
        return None
    here = [
        reservations.at(int(slot))
        for slot in match.slots[reservations.columns.row[match.slots] == row]
    ]

    requests = {info.uid: dict(pod.request) for info in here}
    for info in here:
        requests[info.uid] |= reservations.converted(info, requests[info.uid])

    def rank(info: ReservationInfo) -> tuple[bool, bool, tuple[int, float, str, str]]:
        asked = {r: a for r, a in requests[info.uid].items() if r in info.reserved}
        full = bool(short_of(asked, {r: info.remaining(r) for r in asked}))
        small = bool(short_of(asked, {r: info.reserved[r] - info.inner.get(r, 0) for r in asked}))
        return full, small, info.nomination_order

    usable = [
        info
        for info in here
        if (info.matchable or info.is_waiting)
        and info.uid not in taken
        and not requests[info.uid].keys().isdisjoint(info.reserved)
    ]
    return min(usable, default=None, key=rank)


def _amounts_at(amounts: RowAmounts, places: NDArray[np.intp], resource: int) -> Ints | int:
    if not amounts:
        return 0
    return np.array([amounts.get(int(p), {}).get(resource, 0) for p in places], np.int64)
