"""Find the reservations a pod may use: by owners, affinity, taints and exact match.

This runs for every pod, before its class is known, and nearly all pods own no reservation. Their
label groups are remembered, so that they cost one look-up and keep 0.89 to 0.94 of the rate that
they have without reservations (docs/performance.md).

For an owner, the user writes the costly part. A reservation affinity of 300 terms, compiled again
for each of 2,000 reservations, took 33 s in one step. Now it is compiled once and compared in steps
before the cycle. The results are cached by everything that they depend on (``_key``), in space that
namespaces share (decision 0020).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api import reservation_names as names
from holdfast.api.node import Taint
from holdfast.api.reservation import Reservation
from holdfast.api.tolerations import find_untolerated, tolerated
from holdfast.runtime.errors import BadRequest
from holdfast.runtime.shared_cache import SharedCache
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.hidden_reserve_pods import HiddenReservePods
from holdfast.state.columns.interner import ResourceNames
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.gpu_names import NO_NAMES, converted_amounts, reserved_device_names
from holdfast.state.reservations.operating_pods import owners_mistake
from holdfast.state.reservations.owners import OwnerGroup
from holdfast.state.reservations.reservation_annotations import (
    ReservationAffinity,
    affinity_of,
    exact_match_of,
    selects,
)

if TYPE_CHECKING:
    from holdfast.state.reservations.reservation_cache import ReservationCache


_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_MOST_MATCHES = 4096
_MAX_WITHOUT_OWNER = 65536
_MOST_REFUSALS = 131_072
_REQUIREMENTS_A_STEP = 4096
_IGNORING = "ignoring"
_PRE_ALLOCATING = "pre-allocating"
Slots = NDArray[np.intp]


class ReservationRequirements(NamedTuple):
    """The requirements of a pod for its reservation: affinity, and resources to match exactly."""

    affinity: ReservationAffinity | None
    exact: tuple[str, ...]

    @classmethod
    def of(cls, pod_info: PodInfo) -> ReservationRequirements:
        """Read the annotations of a pod; raise BadRequest for malformed ones."""
        return cls(affinity_of(pod_info.pod), exact_match_of(pod_info.pod))

    def __bool__(self) -> bool:
        return self.affinity is not None or bool(self.exact)

    @property
    def name(self) -> str:
        """The name of the reservation the pod asks for, or ""."""
        return self.affinity.name if self.affinity is not None else ""


class RefusalReason(Enum):
    """Why a reservation refuses one of its owners; the values are Koordinator's texts."""

    NAME = "didn't match the requested reservation name"
    UNSCHEDULABLE = "is unschedulable"
    TAINT = "had untolerated taint"
    AFFINITY = "didn't match affinity rules"
    EXACT = "is not exact matched"


class ReservationRefusal(NamedTuple):
    """The reason of a refusal; ``taint`` is the one the pod does not tolerate."""

    reason: RefusalReason
    taint: Taint | None = None


def refusal(
    reservations: ReservationCache, slot: int, pod_info: PodInfo, wishes: ReservationRequirements
) -> ReservationRefusal | None:
    """Return the first reason why a reservation refuses one of its owners, or None."""
    reason = _find_refusal(reservations, slot, pod_info, wishes)
    if reason is None and not _exactly(reservations, slot, pod_info, wishes.exact):
        reason = ReservationRefusal(RefusalReason.EXACT)
    return reason


def allows_pre_allocation(
    pod_info: PodInfo,
    reservation: Reservation,
    node_labels: Mapping[str, str],
    reserved: Mapping[int, int],
    ids: ResourceNames,
) -> bool:
    """Tell whether the pod's own requirements allow a reservation to pre-allocate it."""
    if owners_mistake(pod_info.pod) == "":
        return False
    try:
        wishes = ReservationRequirements.of(pod_info)
    except BadRequest:
        return False
    affinity = wishes.affinity
    if wishes.name:
        if wishes.name != reservation.name:
            return False
    elif affinity is not None:
        own = (*affinity.tolerations, *pod_info.pod.spec.tolerations)
        if find_untolerated(reservation.spec.taints, own) is not None:
            return False
        if not selects(affinity, {**node_labels, **reservation.metadata.labels}, reservation.name):
            return False
    device_names = reserved_device_names(reserved, ids) if wishes.exact else NO_NAMES
    request = dict(pod_info.request)
    return _agree(
        request | converted_amounts(request, device_names, ids),
        reserved,
        [ids.find(name) for name in wishes.exact],
    )


def _find_refusal(
    reservations: ReservationCache, slot: int, pod_info: PodInfo, wishes: ReservationRequirements
) -> ReservationRefusal | None:
    info, affinity = reservations.at(slot), wishes.affinity
    reservation = info.reservation
    if reservation.metadata.deletion_timestamp is not None:
        # A terminating reservation accepts no new owner, not even by name. Without this rule a pod
        # that named it, or tolerated unschedulable, still got it.
        return ReservationRefusal(RefusalReason.UNSCHEDULABLE)
    if wishes.name:
        # A pod that names the reservation ignores its taints, labels and unschedulable.
        return None if wishes.name == reservation.name else ReservationRefusal(RefusalReason.NAME)
    own = affinity.tolerations if affinity else ()
    if reservation.spec.unschedulable and not tolerated(own, _UNSCHEDULABLE):
        return ReservationRefusal(RefusalReason.UNSCHEDULABLE)
    taint = find_untolerated(reservation.spec.taints, (*own, *pod_info.pod.spec.tolerations))
    if taint is not None:
        return ReservationRefusal(RefusalReason.TAINT, taint)
    if affinity is None or selects(affinity, reservations.labels_of(info), reservation.name):
        return None
    return ReservationRefusal(RefusalReason.AFFINITY)


def _exactly(
    reservations: ReservationCache, slot: int, pod_info: PodInfo, wanted: tuple[str, ...]
) -> bool:
    if not wanted:
        return True
    info, request = reservations.at(slot), dict(pod_info.request)
    return _agree(
        request | reservations.converted(info, request),
        info.reserved,
        [reservations.resource_id(name) for name in wanted],
    )


def _agree(request: Mapping[int, int], reserved: Mapping[int, int], ids: list[int]) -> bool:
    return all(request.get(r, 0) == reserved.get(r, 0) for r in ids)


@dataclass(frozen=True, slots=True)
class ReservationMatch:
    """The reservations one pod matches, also those that are not matchable now.

    ``slots`` are their slots in the order of rows; ``rows`` are the distinct rows; ``first`` is the
    position of each row's first slot; ``at`` is the position in ``rows`` of each slot.
    ``hidden_pods`` are their reserve pods. A pod that ignores reservations matches all of them.
    """

    key: Hashable
    slots: Slots
    rows: Slots
    first: Slots
    at: Slots
    hidden_pods: HiddenReservePods

    def span(self, row: int) -> slice:
        """Return the positions in ``slots`` of one row; an empty slice if it has none."""
        here = int(self.rows.searchsorted(row))
        if not len(self.slots) or here == len(self.rows) or self.rows[here] != row:
            return slice(0, 0)
        end = int(self.first[here + 1]) if here + 1 < len(self.rows) else len(self.slots)
        return slice(int(self.first[here]), end)

    @property
    def ignores_reservations(self) -> bool:
        """Tell whether the pod uses reserved resources without allocating from a reservation."""
        return self.key == _IGNORING

    @property
    def pre_allocates(self) -> bool:
        """Tell whether the pod is a reserve pod that may take over resources of running pods."""
        return self.key == _PRE_ALLOCATING


class ReservationMatcher:
    """Finds the reservations of a pod and caches them until reservations change."""

    def __init__(self, reservations: ReservationCache, node_table: NodeTable) -> None:
        self._reservations = reservations
        self._node_table = node_table
        self._matches: dict[Hashable, ReservationMatch | None] = {}
        self._hidden_pods: dict[Hashable, HiddenReservePods] = {}
        self._refusals = SharedCache[dict[int, ReservationRefusal | None]](_MOST_REFUSALS)
        """By key and slot, of pods with requirements."""
        self._version = 0
        self._without_owner: set[int] = set()
        """Ids of label groups whose pods own no reservation: most groups. Empty while an owner rule
        uses anything else than a label, such as the name of a pod."""

    def forget(self) -> None:
        """Clear the cache: reservations or their owners changed."""
        self._matches.clear()
        self._refusals.clear()
        self._version += 1
        self._without_owner.clear()

    def match(self, pod_info: PodInfo) -> ReservationMatch | None:
        """Return the reservations a pod matches now, or None."""
        if pod_info.is_reserve_pod:
            return self._for_pre_allocation(pod_info)
        if owners_mistake(pod_info.pod) == "":
            # It acts as a reservation, so it uses none: otherwise pods that own nothing of what is
            # reserved for it could use that.
            return None
        groups: Sequence[OwnerGroup] = ()
        key: Hashable = _IGNORING
        if not ignores_reservations(pod_info):
            kind = self._node_table.label_group_of(pod_info)
            if kind.id in self._without_owner:
                return None
            groups = self._reservations.index.owned_by(pod_info.pod)
            if not groups:
                if self._reservations.index.has_no_owner_rule(pod_info.labels):
                    if len(self._without_owner) >= _MAX_WITHOUT_OWNER:
                        self._without_owner.clear()
                    self._without_owner.add(kind.id)
                return None
            key = _key(groups, pod_info)
        if key not in self._matches:
            if len(self._matches) >= _MOST_MATCHES:
                self._matches.clear()
            slots = self._accepting(groups, pod_info) if groups else self._all()
            self._matches[key] = self._match(slots, key)
        return self._matches[key]

    def match_in_steps(self, pod_info: PodInfo) -> Iterator[None]:
        """Find what ``match`` will return, with pauses in which reservations may change."""
        if pod_info.is_reserve_pod:
            return
        groups = self._reservations.index.owned_by(pod_info.pod)
        try:
            wishes = ReservationRequirements.of(pod_info)
        except BadRequest:
            return
        key, version, compared = _key(groups, pod_info), self._version, 0
        known = self._refusals.get(key, pod_info.namespace) is not None and key in self._matches
        if known or not groups or wishes.affinity is None:
            return
        refusals: dict[int, ReservationRefusal | None] = {}
        for slot in self._slots(groups).tolist():
            compared += 1 + wishes.affinity.size
            if compared > _REQUIREMENTS_A_STEP:
                compared = 0
                yield
                if self._version != version:
                    return
            refusals[slot] = refusal(self._reservations, slot, pod_info, wishes)
        self._refusals.put(key, refusals, pod_info.namespace, max(len(refusals), 1))
        self.match(pod_info)

    def refusals(
        self, groups: Sequence[OwnerGroup], pod_info: PodInfo, slots: Slots,
        wishes: ReservationRequirements,
    ) -> Sequence[ReservationRefusal | None]:  # fmt: skip
        """Return why these slots of an owner's groups refuse it, None for those that do not."""
        key = _key(groups, pod_info)
        known = self._refusals.get(key, pod_info.namespace)
        if known is None:
            known = {}
            self._refusals.put(key, known, pod_info.namespace, max(len(slots), 1))
        for slot in slots.tolist():
            if slot not in known:
                known[slot] = refusal(self._reservations, slot, pod_info, wishes)
        return [known[slot] for slot in slots.tolist()]

    def _slots(self, groups: Sequence[OwnerGroup]) -> Slots:
        """Return the slots of groups whose reservations have a node."""
        slots = np.concatenate([group.slots for group in groups])
        placed_slots: Slots = slots[self._reservations.columns.row[slots] >= 0]
        return placed_slots

    def _for_pre_allocation(self, pod_info: PodInfo) -> ReservationMatch | None:
        """Match a pre-allocating reserve pod with every row and with no reservation."""
        reservation = self._reservations.pending.get(pod_info.uid)
        if reservation is None or not reservation.spec.pre_allocation:
            return None
        none, rows = np.zeros(0, np.intp), self._node_table.rows
        first = np.zeros(len(rows), np.intp)
        return ReservationMatch(
            _PRE_ALLOCATING, none, rows, first, none, self._hide(none, _PRE_ALLOCATING)
        )

    def _all(self) -> Slots:
        slots: Slots = (self._reservations.columns.row >= 0).nonzero()[0]
        return slots

    def _accepting(self, groups: Sequence[OwnerGroup], pod_info: PodInfo) -> Slots:
        """Return the slots of these groups whose reservations accept the pod."""
        reservations = self._reservations
        slots = self._slots(groups)
        try:
            wishes = ReservationRequirements.of(pod_info)
        except BadRequest:
            # The scheduling attempt reports the error; here it means that nothing matches.
            return np.zeros(0, np.intp)
        # A pod without requirements need not be checked against reservations that accept any owner.
        welcome = reservations.columns.accepts_any_owner[slots] & (not wishes)
        asked = slots[~welcome]
        refused = self.refusals(groups, pod_info, asked, wishes)
        kept = asked[np.array([why is None for why in refused], np.bool_)]
        return np.concatenate([slots[welcome], kept])

    def _match(self, slots: Slots, key: Hashable) -> ReservationMatch | None:
        if not len(slots):
            return None
        of_slot = self._reservations.columns.row[slots]
        order = np.lexsort((slots, of_slot))
        slots = slots[order]
        rows, first, at = np.unique(of_slot[order], return_index=True, return_inverse=True)
        return ReservationMatch(key, slots, rows, first, at, self._hide(slots, key))

    def _hide(self, slots: Slots, key: Hashable) -> HiddenReservePods:
        """Return the hidden reserve pods of a match.

        The object stays the same while its content changes: plans and corrected counters refer to
        it, and computing all of them again for each new reservation would be expensive.
        """
        hidden_pods = self._hidden_pods.get(key)
        if hidden_pods is None:
            if len(self._hidden_pods) >= _MOST_MATCHES:
                self._hidden_pods.clear()
                # Plans that refer to a discarded object must be made again.
                self._node_table.epochs.bump(Epoch.LAYOUT)
            hidden_pods = self._hidden_pods[key] = HiddenReservePods(self._node_table)
        columns = self._reservations.columns
        with_ports_or_volumes: dict[int, tuple[PodInfo, ...]] = {}
        for slot in slots[columns.has_ports_or_volumes[slots]].tolist():
            row = int(columns.row[slot])
            with_ports_or_volumes[row] = (
                *with_ports_or_volumes.get(row, ()),
                self._reservations.at(slot).pod_info,
            )
        hidden_pods.update(
            columns.row[slots],
            columns.shape[slots],
            self._reservations.shapes,
            with_ports_or_volumes,
        )
        return hidden_pods


def ignores_reservations(pod_info: PodInfo) -> bool:
    """Tell whether the pod carries the label that makes it ignore reservations."""
    return pod_info.labels.get(names.IGNORED) == "true"


def _key(groups: Sequence[OwnerGroup], pod_info: PodInfo) -> Hashable:
    """Return everything of a pod that decides which reservations of its groups accept it."""
    notes = pod_info.pod.metadata.annotations
    exact = notes.get(names.EXACT_MATCH)
    return (
        tuple([group.number for group in groups]),
        notes.get(names.AFFINITY),
        exact and (exact, pod_info.request),
        pod_info.pod.spec.tolerations,
    )
