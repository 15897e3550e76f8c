"""The amounts of all reservations as columns, one entry per slot, and what they hold on rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.cells import cells
from holdfast.state.columns.hidden_reserve_pods import ReservePodShape, ReservePodShapes
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.reservations.gpu_names import converted_amounts
from holdfast.state.reservations.reservation_info import AmountsByResource, ReservationInfo

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_FIRST_SLOTS = 16
_WIDE = ("held", "remaining", "reserved", "allocated", "restricts")
_FLAT = (
    "shape",
    "created",
    "default_policy",
    "restricted_policy",
    "has_owner",
    "has_ports_or_volumes",
    "matchable",
    "accepts_any_owner",
    "order",
    "row",
)
_FEW_SHAPES = 1024


class ReservationColumns:
    """Amounts are [resource, slot] in base units; everything else is [slot].

    ``held`` is what the reservation holds in addition to its owners, without pod slots. ``row`` is
    the node row or -1, ``order`` is the order label or 0, and ``created`` is the creation time.
    ``restricts`` tells whether a Restricted reservation limits its owners in a resource. ``shape``
    is the id of the shape of its reserve pod. The ``*_at`` are the same columns, cell by cell.
    """

    __slots__ = (
        *_WIDE,
        *_FLAT,
        "held_at",
        "matchable_at",
        "remaining_at",
        "resources",
        "allocated_at",
    )

    def __init__(self) -> None:
        self.held: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.remaining: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.reserved: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.allocated: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.restricts: Bools = np.zeros((PODS + 1, _FIRST_SLOTS), np.bool_)
        self.matchable: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.accepts_any_owner: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.has_owner: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.default_policy: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.restricted_policy: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.has_ports_or_volumes: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.shape: NDArray[np.int32] = np.zeros(_FIRST_SLOTS, np.int32)
        self.order: Ints = np.zeros(_FIRST_SLOTS, np.int64)
        self.created: NDArray[np.float64] = np.zeros(_FIRST_SLOTS, np.float64)
        self.row: NDArray[np.intp] = np.full(_FIRST_SLOTS, -1, np.intp)
        self.resources: list[int] = []
        """Resources that some reservation reserves or reserved."""
        self._open_cells()

    def _open_cells(self) -> None:
        self.held_at = [cells(column) for column in self.held]
        self.remaining_at = [cells(column) for column in self.remaining]
        self.allocated_at = [cells(column) for column in self.allocated]
        self.matchable_at = cells(self.matchable)

    def grow(self, resources: int, slots: int) -> None:
        """Grow to at least this many resources and slots."""
        width, length = self.remaining.shape
        if resources <= width and slots <= length:
            return
        width, length = max(width, resources), length if slots <= length else 2 * slots
        for name in _WIDE:
            old = getattr(self, name)
            new = np.zeros((width, length), old.dtype)
            new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)
        for name in _FLAT:
            old = getattr(self, name)
            new = np.full(length, -1 if name == "row" else 0, old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        self._open_cells()

    def write(self, info: ReservationInfo, row: int, shape: int) -> None:
        """Write all columns of a reservation."""
        slot = info.slot
        for column in (self.held, self.reserved, self.allocated, self.remaining, self.restricts):
            column[:, slot] = 0
        for resource, amount in info.reserved.items():
            self.reserved[resource, slot] = amount
            if resource not in self.resources:
                self.resources.append(resource)
        if info.policy == "Restricted":
            self.restricts[list(info.restricted), slot] = True
        self.accepts_any_owner[slot] = info.accepts_any_owner
        self.default_policy[slot] = info.policy == ""
        self.restricted_policy[slot] = info.policy == "Restricted"
        self.order[slot] = info.order
        self.created[slot] = info.created
        self.has_ports_or_volumes[slot] = bool(info.pod_info.host_ports or info.pod_info.mounts)
        self.shape[slot] = shape
        self.row[slot] = row
        self.update_allocated(info)

    def update_allocated(self, info: ReservationInfo) -> AmountsByResource:
        """Write what owners allocate; return what the reservation holds in addition."""
        slot = info.slot
        for resource in info.reserved:
            self.allocated_at[resource][slot] = info.allocated(resource)
            self.remaining_at[resource][slot] = info.remaining(resource)
        held = info.held_amounts
        for resource, amount in held.items():
            self.held_at[resource][slot] = amount
        self.remaining_at[PODS][slot] = info.remaining(PODS)
        self.matchable_at[slot] = info.matchable
        self.has_owner[slot] = bool(info.allocated_by_pod)
        return held

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.matchable[slot] = self.has_owner[slot] = False
        self.row[slot] = -1
        self.remaining[:, slot] = self.held[:, slot] = 0

    def fork(self) -> ReservationColumns:
        """Return an independent copy."""
        copy = ReservationColumns()
        for name in (*_WIDE, *_FLAT, "resources"):
            setattr(copy, name, getattr(self, name).copy())
        copy._open_cells()
        return copy


class ReservationHolds:
    """The columns of all reservations, and what they hold in the node table.

    ``shapes`` are the shapes of reserve pods; the columns refer to them by id.
    """

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self.columns = ReservationColumns()
        self.shapes = ReservePodShapes()

    def place(self, info: ReservationInfo, slots: int, every: Iterable[ReservationInfo]) -> None:
        """Write a reservation, one of ``slots``, and hold its resources if its node exists."""
        columns, node_table = self.columns, self._node_table
        self._convert(info)
        columns.grow(len(node_table.resources), slots)
        row = node_table.row_of.get(info.node, -1)
        columns.write(info, row, self._shape(info, slots, every))
        if row >= 0 and not info.reservation.is_pod:
            node_table.add_reserve_pod(info.pod_info, row)
        else:
            node_table.remove_reserve_pod(info.uid)
        if not self._hold(info, info.held_amounts) and row >= 0:
            node_table.journal.log(row)

    def update_allocated(self, info: ReservationInfo) -> None:
        """Write what owners allocate, and log the row even if what is held stays the same."""
        self._convert(info)
        held = self.columns.update_allocated(info)
        row = int(self.columns.row[info.slot])
        if not self._hold(info, held) and row >= 0:
            self._node_table.journal.log(row)

    def clear(self, info: ReservationInfo) -> None:
        """Release what a reservation holds, and log the row even if that is nothing."""
        row = int(self.columns.row[info.slot])
        if row >= 0:
            self._node_table.journal.log(row)
        self.columns.clear(info.slot)
        self._node_table.release(info.uid)
        self._node_table.remove_reserve_pod(info.uid)

    def fork(self, node_table: NodeTable) -> ReservationHolds:
        """Return a copy over a fork of the node table, which has the holds already."""
        copy = ReservationHolds(node_table)
        copy.columns, copy.shapes = self.columns.fork(), self.shapes.fork()
        return copy

    def _convert(self, info: ReservationInfo) -> None:
        """Count what owners request in other names than the reservation reserves."""
        if info.device_names:
            total: Counter[int] = Counter()
            for amounts in info.allocated_by_pod.values():
                total.update(
                    converted_amounts(amounts, info.device_names, self._node_table.resources)
                )
            info.converted = total

    def _hold(self, info: ReservationInfo, amounts: AmountsByResource) -> bool:
        """Hold what the reservation holds now; return whether that changed anything."""
        row = int(self.columns.row[info.slot])
        if row < 0:
            self._node_table.release(info.uid)
            return False
        pod_slots = info.held_pod_slots
        if counted := info.counted_in_pod:
            amounts = {r: amount - counted[r] for r, amount in amounts.items()}
            pod_slots -= counted[PODS]
        return self._node_table.hold(info.uid, row, amounts, pod_slots)

    def _shape(self, info: ReservationInfo, slots: int, every: Iterable[ReservationInfo]) -> int:
        if len(self.shapes) > _FEW_SHAPES + 2 * slots:
            self.shapes = ReservePodShapes()
            for other in every:
                self.columns.shape[other.slot] = self.shapes.id(ReservePodShape.of(other.pod_info))
        return self.shapes.id(ReservePodShape.of(info.pod_info))
