"""One reservation that holds resources on a node, what pods allocated from it, and what is left.

Allocations are stored by reservation *and* node, because any client may write the annotation: a
pod on another node allocates nothing from the reservation. They are also stored for reservations
that hold nothing yet, because a pod may be seen before its reservation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.reservation import Reservation
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.gpu_names import NO_NAMES
from holdfast.state.reservations.owners import OwnerGroup

AmountsByResource = Mapping[int, int]
Amount = TypeVar("Amount", int, NDArray[np.int64])
ReservationAndNode = tuple[str, str]
"""The uid of a reservation, and the node of the pods that allocate from it."""
_NO_KEYS: tuple[ReservationAndNode, ...] = ()
_NO_ORDER = 2**63
"""Sorts after every order label."""


class AllocatedAmounts:
    """What each pod allocates under one key, by pod uid, and the sums by resource."""

    __slots__ = ("by_pod", "sums")

    def __init__(self) -> None:
        self.by_pod: dict[str, AmountsByResource] = {}
        self.sums: dict[int, int] = {}

    def set(self, pod_uid: str, amounts: AmountsByResource | None) -> bool:
        """Replace what a pod allocates, None for nothing; return whether that changed anything."""
        old = self.by_pod.get(pod_uid)
        if old == amounts:
            return False
        self._add(old or {}, -1)
        if amounts is None:
            del self.by_pod[pod_uid]
        else:
            self.by_pod[pod_uid] = amounts
            self._add(amounts, 1)
        return True

    def _add(self, amounts: AmountsByResource, sign: int) -> None:
        for resource, amount in amounts.items():
            self.sums[resource] = self.sums.get(resource, 0) + sign * amount

    def of(self, pods: Iterable[str], resource: int) -> int:
        """Sum what some of the pods allocate of a resource."""
        return sum(self.by_pod[uid].get(resource, 0) for uid in pods)

    def fork(self) -> AllocatedAmounts:
        """Return an independent copy."""
        copy = AllocatedAmounts()
        copy.by_pod, copy.sums = dict(self.by_pod), dict(self.sums)
        return copy


class AllocationLedger:
    """All allocations, by reservation and node."""

    def __init__(self) -> None:
        self._at: dict[ReservationAndNode, AllocatedAmounts] = {}
        self._keys_of: dict[str, tuple[ReservationAndNode, ...]] = {}

    def entries(self, key: ReservationAndNode) -> AllocatedAmounts:
        """Return the allocations under a key, created if there are none."""
        return self._at.setdefault(key, AllocatedAmounts())

    def drop_if_empty(self, key: ReservationAndNode) -> None:
        """Drop the entry of a key that no reservation uses, unless pods still name it."""
        if key in self._at and not self._at[key].by_pod:
            del self._at[key]

    def keys_of(self, pod_uid: str) -> tuple[ReservationAndNode, ...]:
        """Return the keys under which a pod allocates."""
        return self._keys_of.get(pod_uid, _NO_KEYS)

    def allocate(
        self, pod_uid: str, allocations: Mapping[ReservationAndNode, AmountsByResource]
    ) -> list[ReservationAndNode]:
        """Replace what a pod allocates under which keys; return the keys that changed."""
        old = self._keys_of.pop(pod_uid, _NO_KEYS)
        if not old and not allocations:
            return []
        if allocations:
            self._keys_of[pod_uid] = tuple(allocations)
        moved = [k for k in old if k not in allocations and self._at[k].set(pod_uid, None)]
        return moved + [
            k for k, amounts in allocations.items() if self.entries(k).set(pod_uid, amounts)
        ]

    def fork(self) -> AllocationLedger:
        """Return an independent copy."""
        copy = AllocationLedger()
        copy._at = {key: amounts_at.fork() for key, amounts_at in self._at.items()}
        copy._keys_of = dict(self._keys_of)
        return copy


@dataclass(slots=True)
class ReservationInfo:
    """A reservation that holds resources on a node; ``pod_info`` is its reserve pod."""

    reservation: Reservation
    pod_info: PodInfo
    slot: int
    group: OwnerGroup
    reserved: AmountsByResource
    inner: AmountsByResource
    restricted: frozenset[int]
    order: int
    created: float
    allocations: AllocatedAmounts
    device_names: frozenset[str] = NO_NAMES
    """Names of shared devices among those it reserves."""
    policy_conflicts: bool = False
    """Its policy was edited to one that the others on its node exclude: it gets no new owners."""
    converted: AmountsByResource = field(default_factory=dict)
    """What owners allocate in its names, if they write their requests for GPUs in other names."""

    @property
    def uid(self) -> str:
        """The uid of the reservation."""
        return self.reservation.uid

    @property
    def node(self) -> str:
        """The name of its node."""
        return self.reservation.status.node_name

    @property
    def policy(self) -> str:
        """The allocate policy: Default (""), Aligned or Restricted."""
        return self.reservation.spec.allocate_policy

    @property
    def allocated_by_pod(self) -> dict[str, AmountsByResource]:
        """What each owner allocates, by pod uid."""
        return self.allocations.by_pod

    @property
    def is_waiting(self) -> bool:
        """Whether its resources are not free yet; then the pre-allocated pods are its owners."""
        return self.reservation.phase == "Waiting"

    @property
    def available(self) -> bool:
        """Whether its phase is Available."""
        return self.reservation.phase == "Available"

    @property
    def matchable(self) -> bool:
        """Whether a new owner may allocate from it."""
        return self.matchable_if(allocated=bool(self.allocated_by_pod))

    def matchable_if(self, *, allocated: bool) -> bool:
        """Tell whether a new owner could allocate from it if it had an owner already, or none."""
        taken = allocated and self.reservation.spec.allocate_once
        return self.available and not (taken or self.policy_conflicts)

    @property
    def accepts_any_owner(self) -> bool:
        """Whether every owner is accepted: no taints, not unschedulable, not terminating."""
        spec, meta = self.reservation.spec, self.reservation.metadata
        return not (spec.taints or spec.unschedulable or meta.deletion_timestamp)

    @property
    def nomination_order(self) -> tuple[int, float, str, str]:
        """The sort key of nomination at equal scores: order label, creation time, name, uid."""
        return (self.order or _NO_ORDER, self.created, self.reservation.name, self.uid)

    def restricts(self, resource: int) -> bool:
        """Tell whether owners may allocate no more of a resource than what remains."""
        return self.policy == "Restricted" and resource in self.restricted

    def allocated(self, resource: int) -> int:
        """Return what owners allocate of a resource, also in other names."""
        return self.allocations.sums.get(resource, 0) + self.converted.get(resource, 0)

    def remaining(self, resource: int) -> int:
        """Return what owners may still allocate of a resource; it has one pod slot by default."""
        kept = self.inner.get(resource, 0) + self.allocations.sums.get(resource, 0)
        if self.converted:
            kept += self.converted.get(resource, 0)
        left = self.reserved.get(resource, resource == PODS) - kept
        return left if left > 0 else 0

    def freed_if_removed(
        self, gone: Collection[str], coming: AmountsByResource, converted: AmountsByResource
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Return how much more it would hold and would have left if some owners were removed.

        ``coming`` is what other pods would allocate instead; ``converted`` is what would be
        allocated in addition, in names that neither the removed pods nor the others use.
        """
        held, lent = {}, {}
        for resource in self.reserved.keys() | {PODS}:
            reserved, inner = self.reserved.get(resource, 1), self.inner.get(resource, 0)
            used = self.allocations.sums.get(resource, 0)
            then = used - self.allocations.of(gone, resource) + coming.get(resource, 0)
            held[resource] = max(reserved - then, inner) - max(reserved - used, inner)
            if converted or self.converted:
                used += self.converted.get(resource, 0)
                then += self.converted.get(resource, 0) + converted.get(resource, 0)
            lent[resource] = max(0, reserved - inner - then) - max(0, reserved - inner - used)
        return held, lent

    @property
    def held_amounts(self) -> dict[int, int]:
        """What it holds in addition to the requests of its owners, without pod slots."""
        sums, inner = self.allocations.sums, self.inner
        amounts = {}
        for resource, reserved in self.reserved.items():
            if resource != PODS:
                unused, kept = reserved - sums.get(resource, 0), inner.get(resource, 0)
                amounts[resource] = unused if unused > kept else kept
        return amounts

    @property
    def counted_in_pod(self) -> dict[int, int]:
        """The part of it that is already counted as the request of the pod that acts as it."""
        return {**self.reserved, PODS: 1} if self.reservation.is_pod else {}

    @property
    def held_pod_slots(self) -> int:
        """Pod slots it holds in addition to those of its owners; by default it reserves one."""
        used = self.allocations.sums.get(PODS, 0)
        return max(self.reserved.get(PODS, 1) - used, self.inner.get(PODS, 0))


def percent_filled(amount: Amount, reserved: Amount) -> Amount:
    """Return which percentage of the reserved amount is filled; 0 if it is exceeded.

    Arguments are integers or arrays; the reserved amount is positive.

    >>> percent_filled(1, 3), percent_filled(3, 3), percent_filled(4, 3)
    (33, 100, 0)
    """
    return 100 * amount // reserved * (amount <= reserved)


def holds_the_same(old: Reservation, new: Reservation) -> bool:
    """Tell whether two versions hold the same resources for the same pods.

    Owners and other conditions in the status, which the controller writes, are not compared.
    """
    return (
        old.spec == new.spec
        and old.phase == new.phase
        and old.status.node_name == new.status.node_name
        and old.status.allocatable == new.status.allocatable
        and old.policy_conflicts == new.policy_conflicts
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )


class WaitingReservations:
    """The reservations in phase Waiting, by node.

    Where they hold more than is free, running pods still use the difference. It is not subtracted
    from what other reservations on the node have left, because those were there first.
    """

    def __init__(self) -> None:
        self._on: dict[str, dict[str, ReservationInfo]] = {}

    def __bool__(self) -> bool:
        return bool(self._on)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the nodes."""
        return iter(self._on)

    def add(self, info: ReservationInfo) -> None:
        """Add a reservation if it is waiting."""
        if info.is_waiting:
            self._on.setdefault(info.node, {})[info.uid] = info

    def remove(self, info: ReservationInfo) -> None:
        """Remove a reservation."""
        there = self._on.get(info.node, {})
        there.pop(info.uid, None)
        if not there:
            self._on.pop(info.node, None)

    def held(self, node: str, resource: int) -> int:
        """Return what they hold of a resource on a node."""
        there = self._on.get(node, {}).values()
        if resource == PODS:
            return sum([info.held_pod_slots for info in there])
        return sum([info.held_amounts.get(resource, 0) for info in there])
