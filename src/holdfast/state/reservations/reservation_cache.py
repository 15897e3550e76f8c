"""The reservation cache: every reservation that holds resources on a node, in columns.

For each resource the cache stores what is reserved (T), what is reserved inside for no owner (I),
and what owners allocate (A). Three sums follow, and nothing else says what a reservation has::

    hold      = max(T, A + I)        what pods other than owners cannot use
    held      = hold - A             what is entered into the node table in addition to A
    remaining = max(0, T - I - A)    what an owner may still allocate

Pod slots follow the same sums: every owner uses one, and a reservation that does not reserve
``pods`` reserves one slot. Labels, affinity terms, ports and volumes are those of its reserve pod,
which is entered into the node table and is hidden from its owners.

An allocate-once reservation stops matching as soon as a pod is assumed into it, not when its
status is written, so two owners can never both allocate from it.

What owners allocate is stored in a ledger (``AllocationLedger``), by reservation and node, not in
the reservation. Events of pods and reservations come in any order, and when one was stored within
the other, an owner of two reservations lost what it had of the second when the first ended. The
node is in the key because a user may write the uid of a reservation on a pod elsewhere: that made
reserved resources free for other pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.api import reservation_names as names
from holdfast.api.node import Node
from holdfast.api.reservation import HOLDING, Reservation
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.hidden_reserve_pods import ReservePodShapes
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.requests import device_types
from holdfast.state.reservations.gpu_names import converted_amounts
from holdfast.state.reservations.matching import (
    ReservationMatch,
    ReservationMatcher,
    ReservationRefusal,
    ReservationRequirements,
)
from holdfast.state.reservations.owners import OwnerGroup, OwnerIndex
from holdfast.state.reservations.reservation_columns import ReservationHolds
from holdfast.state.reservations.reservation_content import (
    ReservationContent,
    read_allocations,
    read_content,
)
from holdfast.state.reservations.reservation_info import (
    AllocationLedger,
    AmountsByResource,
    ReservationAndNode,
    ReservationInfo,
    WaitingReservations,
    holds_the_same,
)
from holdfast.state.reservations.reserved_resources import ReservedForPod


class ReservationCache:
    """Every reservation that holds resources, and what pods allocate from it.

    The epoch ``reservations`` moves when the set of reservations or their owners change. Changes of
    amounts, and of whether an allocate-once reservation is matchable, are logged as changed rows.
    """

    takes = (Reservation, Node)

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self.by_uid: dict[str, ReservationInfo] = {}
        self._slots: list[ReservationInfo | None] = []
        self._free: list[int] = []
        self.index = OwnerIndex()
        self._ledger = AllocationLedger()
        self.pending: dict[str, Reservation] = {}
        """Pending reservations, by uid."""
        self.being_bound: dict[str, tuple[int, bool]] = {}
        """Pending reservations that are being bound: row, and whether the policy is Default."""
        self.awaiting_binds: dict[str, str] = {}
        """Pending reservations that wait until assumed pods on a node are bound: its name."""
        self._unconfirmed: dict[str, ReservationAndNode] = {}
        """Running pods chosen for pre-allocation whose annotation is not confirmed yet, by uid."""
        self._holds = ReservationHolds(node_table)
        self.columns = self._holds.columns
        self._on_node: dict[str, dict[str, None]] = {}
        self.waiting = WaitingReservations()
        self._node_labels: dict[str, Mapping[str, str] | None] = {}
        """Labels of nodes with reservations; a reservation selector matches them too."""
        self._matcher = ReservationMatcher(self, node_table)
        self._reserved_for_pod: ReservedForPod | None = None
        """The result for the last match: several plugins request it in one attempt."""

    def __len__(self) -> int:
        return len(self.by_uid)

    def __iter__(self) -> Iterator[ReservationInfo]:
        return iter(self.by_uid.values())

    @property
    def shapes(self) -> ReservePodShapes:
        """The shapes of reserve pods, by their ids in the columns."""
        return self._holds.shapes

    def at(self, slot: int) -> ReservationInfo:
        """Return the reservation in a slot."""
        info = self._slots[slot]
        assert info is not None, f"reservation slot {slot} is empty"
        return info

    def name_of(self, uid: str) -> str:
        """Return the name of a reservation, its uid if it is not known."""
        info = self.by_uid.get(uid)
        return uid if info is None else info.reservation.name

    # --- changes ------------------------------------------------------------------------------

    def upsert(self, obj: Reservation | Node) -> None:
        """Store a reservation, or a node on which reservations may be."""
        if isinstance(obj, Node):
            self._node_changed(obj.name, obj.metadata.labels)
        else:
            self._upsert(obj)

    def delete(self, obj: Reservation | Node) -> None:
        """Remove a reservation, or a node on which reservations may be."""
        if isinstance(obj, Node):
            self._node_changed(obj.name)
        else:
            self.pending.pop(obj.uid, None)
            self.being_bound.pop(obj.uid, None)
            self.awaiting_binds.pop(obj.uid, None)
            self.cancel_pre_allocation(obj.uid)
            self._drop(obj.uid)
            self._node_table.forget(obj.uid)

    def pod_set(self, pod_info: PodInfo, node: str) -> None:
        """Read what a bound pod allocates from its annotations."""
        allocations = read_allocations(pod_info, self._node_table.resources)
        if not allocations and pod_info.uid in self._unconfirmed:
            return
        self._unconfirmed.pop(pod_info.uid, None)
        self._allocate(pod_info.uid, {(uid, node): amounts for uid, amounts in allocations.items()})

    def pod_removed(self, uid: str) -> None:
        """Release what a deleted pod allocated."""
        self._unconfirmed.pop(uid, None)
        self.deallocate(uid)

    def allocate(self, pod_uid: str, allocations: Mapping[str, AmountsByResource]) -> None:
        """Replace what a pod allocates, by the uid of the reservation."""
        self._allocate(pod_uid, {(uid, self.by_uid[uid].node): a for uid, a in allocations.items()})

    def deallocate(self, pod_uid: str) -> None:
        """Release what a pod allocated; an allocate-once reservation may match again."""
        self._allocate(pod_uid, {})

    def pre_allocate(self, pods: Iterable[PodInfo], uid: str, node: str) -> None:
        """Enter the running pods that a reservation pre-allocates on the node it is bound to."""
        for pod in pods:
            self._unconfirmed[pod.uid] = (uid, node)
            self._allocate(pod.uid, {(uid, node): {**dict(pod.request), PODS: pod.pod_slots}})

    def cancel_pre_allocation(self, uid: str) -> None:
        """Undo ``pre_allocate`` for the pods of a reservation that are not confirmed yet."""
        for pod_uid in [pod for pod, key in self._unconfirmed.items() if key[0] == uid]:
            del self._unconfirmed[pod_uid]
            self.deallocate(pod_uid)

    def is_pre_allocating(self, pod_uid: str, uid: str) -> bool:
        """Tell whether a reservation pre-allocates a pod, and the annotation is not confirmed."""
        return self._unconfirmed.get(pod_uid, ("", ""))[0] == uid

    # --- queries ------------------------------------------------------------------------------

    def match(self, pod_info: PodInfo) -> ReservationMatch | None:
        """Return the reservations a pod matches now, or None."""
        return self._matcher.match(pod_info) if self.by_uid or self.pending else None

    def match_in_steps(self, pod_info: PodInfo) -> Iterator[None] | None:
        """Find what ``match`` will return, with pauses in which reservations may change.

        None: that takes no time, since the pod has no reservation affinity.
        """
        if not self.by_uid or names.AFFINITY not in pod_info.pod.metadata.annotations:
            return None
        return self._matcher.match_in_steps(pod_info)

    def refusals(
        self, groups: Sequence[OwnerGroup], pod_info: PodInfo, slots: NDArray[np.intp],
        wishes: ReservationRequirements,
    ) -> Sequence[ReservationRefusal | None]:  # fmt: skip
        """Return why these slots of an owner's groups refuse it, None for those that do not."""
        return self._matcher.refusals(groups, pod_info, slots, wishes)

    def slots_on(self, match: ReservationMatch | None, row: int) -> list[int]:
        """Return the slots of the reservations that a pod may use on a row, in nomination order.

        A pod that ignores reservations uses none. Slots have no order, because they are reused.
        When plugins took the first slot that fitted, a scheduler scored differently after a
        restart.
        """
        if match is None or match.ignores_reservations:
            return []
        slots: list[int] = match.slots[match.span(row)].tolist()
        if len(slots) > 1:
            slots.sort(key=lambda slot: self.at(slot).nomination_order)
        return slots

    def reserved_for_pod(self, pod_info: PodInfo) -> ReservedForPod | None:
        """Return what the reservations of a pod hold; None if it matches none."""
        match = self.match(pod_info)
        if match is None or not len(match.slots):
            return None
        if self._reserved_for_pod is None or self._reserved_for_pod.match is not match:
            self._reserved_for_pod = ReservedForPod(self, match, self._node_table)
        return self._reserved_for_pod

    def is_allocated_elsewhere(self, pod_uid: str, uid: str) -> bool:
        """Tell whether a pod allocates from, or is pre-allocated by, another reservation."""
        return any(
            key[0] != uid and (key[0] in self.pending or self._info(key) is not None)
            for key in self._ledger.keys_of(pod_uid)
        )

    def resource_id(self, name: str) -> int:
        """Return the id of a resource name that a pod writes; -1 if nothing has that name."""
        return self._node_table.resources.find(name)

    def allocations_of(self, pod_uid: str) -> dict[int, AmountsByResource]:
        """Return what a pod allocates, by the slot of the reservation."""
        infos = map(self._info, self._ledger.keys_of(pod_uid))
        return {info.slot: info.allocated_by_pod[pod_uid] for info in infos if info is not None}

    def freed_if_removed(
        self,
        gone: Iterable[str],
        coming: Mapping[ReservationAndNode, AmountsByResource] | None = None,
    ) -> list[tuple[ReservationInfo, AmountsByResource, AmountsByResource]]:
        """List (reservation, more held, more remaining) as if some pods were removed.

        ``coming`` is what other pods would allocate instead.
        """
        coming = coming or {}
        removed: dict[ReservationAndNode, list[str]] = {key: [] for key in coming}
        for pod_uid in gone:
            for key in self._ledger.keys_of(pod_uid):
                removed.setdefault(key, []).append(pod_uid)
        pairs = ((self._info(key), pods) for key, pods in removed.items())
        return [
            (info, *self._freed_if_removed(info, pods, coming.get((info.uid, info.node), {})))
            for info, pods in pairs
            if info is not None
        ]

    def _freed_if_removed(
        self, info: ReservationInfo, gone: list[str], coming: AmountsByResource
    ) -> tuple[dict[int, int], dict[int, int]]:
        more: Counter[int] = Counter()
        if info.device_names:
            more.update(self.converted(info, coming))
            for uid in gone:
                more.subtract(self.converted(info, info.allocated_by_pod[uid]))
        return info.freed_if_removed(gone, coming, more)

    def converted(self, info: ReservationInfo, request: AmountsByResource) -> dict[int, int]:
        """Return what a request amounts to in reserved names that it does not use itself."""
        return converted_amounts(request, info.device_names, self._node_table.resources)

    def restricted_device_types(self, uid: str) -> frozenset[str]:
        """Return the types of which owners get only the devices of a reservation."""
        info, names = self.by_uid.get(uid), self._node_table.resources
        if info is None or info.policy != "Restricted":
            return frozenset()
        return frozenset(device_types(names[resource] for resource in info.restricted))

    def terminating_owners(self, info: ReservationInfo) -> list[str]:
        """Return the uids of owners that are terminating."""
        placed = ((uid, self._node_table.pod(uid)) for uid in info.allocated_by_pod)
        return [
            uid
            for uid, pod_and_row in placed
            if pod_and_row is not None and pod_and_row[0].terminating
        ]

    def on_node(self, name: str) -> list[ReservationInfo]:
        """Return the reservations on a node, also if the node is not known."""
        return [self.by_uid[uid] for uid in self._on_node.get(name, ())]

    def on_row(self, row: int) -> list[ReservationInfo]:
        """Return the reservations on a row, matchable or not."""
        return [self.at(int(slot)) for slot in (self.columns.row == row).nonzero()[0]]

    def rows_with_allocations(self) -> NDArray[np.intp]:
        """Return the rows where some pod allocates from a reservation."""
        rows: NDArray[np.intp] = self.columns.row[self.columns.has_owner]
        return rows[rows >= 0]

    def rows_with_other_policy(self, *, default: bool) -> NDArray[np.intp]:
        """Return the rows of matchable reservations of the other policy: Default, or not Default.

        Reservations that are being bound count too.
        """
        columns = self.columns
        rows: NDArray[np.intp] = columns.row[
            columns.matchable & (columns.default_policy != default)
        ]
        coming = [row for row, theirs in self.being_bound.values() if theirs != default]
        return np.concatenate([rows[rows >= 0], np.array(coming, np.intp)])

    def labels_of(self, info: ReservationInfo) -> dict[str, str]:
        """Return the labels a reservation selector matches: the reservation's over the node's."""
        row = self._node_table.row_of.get(info.node)
        node = self._node_table.nodes[row] if row is not None else None
        return {**(node.metadata.labels if node else {}), **info.reservation.metadata.labels}

    def fork(self, node_table: NodeTable) -> ReservationCache:
        """Return a copy over a fork of the node table, which has the holds already."""
        copy = ReservationCache(node_table)
        copy._ledger = self._ledger.fork()
        copy.by_uid = {
            uid: replace(info, allocations=copy._ledger.entries((uid, info.node)))
            for uid, info in self.by_uid.items()
        }
        copy._slots = [o and copy.by_uid[o.uid] for o in self._slots]
        copy._free = list(self._free)
        copy.pending, copy.being_bound = dict(self.pending), dict(self.being_bound)
        copy._unconfirmed, copy.awaiting_binds = dict(self._unconfirmed), dict(self.awaiting_binds)
        for info in copy.by_uid.values():
            info.group = copy.index.add(info.slot, info.reservation)
            copy._on_node.setdefault(info.node, {})[info.uid] = None
            copy.waiting.add(info)
        copy._holds = self._holds.fork(node_table)
        copy.columns = copy._holds.columns
        return copy

    # --- internals ----------------------------------------------------------------------------

    def _upsert(self, reservation: Reservation) -> None:
        if reservation.phase == "Pending":
            self.pending[reservation.uid] = reservation
        else:
            self.pending.pop(reservation.uid, None)
            self.being_bound.pop(reservation.uid, None)
            self.awaiting_binds.pop(reservation.uid, None)
        if reservation.phase not in HOLDING or not reservation.status.node_name:
            self._drop(reservation.uid)
            if reservation.phase != "Pending":
                # It ended before it was seen to hold anything: no event will confirm the reserve
                # pod, which stayed assumed for ever.
                self._node_table.forget(reservation.uid)
            return
        old = self.by_uid.get(reservation.uid)
        if old is not None and holds_the_same(old.reservation, reservation):
            # Most events are like this: the status is written whenever an owner is added or
            # removed. What follows here makes every cached result about reservations outdated.
            old.reservation = reservation
            return
        # Raises BadRequest for a malformed amount, before anything is changed.
        content = read_content(reservation, self._node_table)
        if old is not None:
            self._leave(old)
        # From here on the hold counts, no longer the assumed reserve pod.
        self._node_table.forget(reservation.uid)
        self._enter(self._compile(reservation, content, old))
        self._changed()

    def _compile(
        self, reservation: Reservation, content: ReservationContent, old: ReservationInfo | None
    ) -> ReservationInfo:
        slot = old.slot if old else self._take_slot()
        return ReservationInfo(
            reservation,
            slot=slot,
            group=self.index.add(slot, reservation),
            allocations=self._ledger.entries((reservation.uid, reservation.status.node_name)),
            **content._asdict(),
        )

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._slots.append(None)
        return len(self._slots) - 1

    def _enter(self, info: ReservationInfo) -> None:
        self.by_uid[info.uid] = info
        self._slots[info.slot] = info
        self._on_node.setdefault(info.node, {})[info.uid] = None
        self.waiting.add(info)
        self._node_table.add_selector_keys(info.group.label_keys)
        self._holds.place(info, len(self._slots), self)

    def _leave(self, info: ReservationInfo) -> None:
        self.index.remove(info.slot, info.group)
        self._ledger.drop_if_empty((info.uid, info.node))
        on_node = self._on_node[info.node]
        del on_node[info.uid]
        self.waiting.remove(info)
        if not on_node:
            del self._on_node[info.node]
            self._node_labels.pop(info.node, None)

    def _drop(self, uid: str) -> None:
        """Release a reservation; its owners then count as ordinary pods."""
        info = self.by_uid.pop(uid, None)
        if info is None:
            return
        self._leave(info)
        self._slots[info.slot] = None
        self._free.append(info.slot)
        self._holds.clear(info)
        self._changed()

    def _changed(self) -> None:
        """Invalidate what is cached about reservations and owners."""
        self._matcher.forget()
        self._node_table.epochs.bump(Epoch.RESERVATIONS)

    def _allocate(
        self, pod_uid: str, allocations: Mapping[ReservationAndNode, AmountsByResource]
    ) -> None:
        for key in self._ledger.allocate(pod_uid, allocations):
            info = self._info(key)
            if info is None:
                self._ledger.drop_if_empty(key)
            else:
                self._holds.update_allocated(info)

    def _info(self, key: ReservationAndNode) -> ReservationInfo | None:
        """Return the reservation of a key, if it holds resources on that node now."""
        info = self.by_uid.get(key[0])
        return info if info is not None and info.node == key[1] else None

    def _node_changed(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Hold resources again, or release them, after a node was added, deleted or changed."""
        if name not in self._on_node:
            return
        row = self._node_table.row_of.get(name, -1)
        moved = [info for info in self.on_node(name) if self.columns.row[info.slot] != row]
        for info in moved:
            self._holds.place(info, len(self._slots), self)
        relabelled = self._node_labels.get(name) != labels
        self._node_labels[name] = labels
        if moved or relabelled:
            self._changed()
