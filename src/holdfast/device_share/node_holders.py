"""The devices of one node that pods hold, and that reservations hold beside their owners.

For each reservation and device, T is reserved and its owners use some of it; what remains,
``max(0, T - use)``, is held beside the pods. So the use of owners inside of a reservation counts
once, and a pod that takes more than its reservation has counts in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from holdfast.device_share.allocations import UNUSED, DeviceUse


class Holder(NamedTuple):
    """What a pod uses, and the uid of the reservation that it is an owner of, or ""."""

    use: DeviceUse
    reservation: str = ""


class NodeHolders:
    """The pods and reservations that hold devices of one node, by uid.

    Invariants: ``_by_pods`` is the sum of what the pods use, ``_all`` what is used in all, unless
    it is ``None``: it was not asked for since the last change.
    """

    __slots__ = ("_all", "_by_pods", "pods", "reservations")

    def __init__(self) -> None:
        self.pods: dict[str, Holder] = {}
        self.reservations: dict[str, DeviceUse] = {}
        self._by_pods = UNUSED
        self._all: DeviceUse | None = None

    def __bool__(self) -> bool:
        return bool(self.pods or self.reservations)

    def hold_without(self, removed: Collection[str]) -> bool:
        """Return whether anything is held by others than these pods."""
        return bool(self.reservations) or any(uid not in removed for uid in self.pods)

    def add_pod(self, uid: str, holder: Holder) -> None:
        """Add a pod that is not there yet."""
        self.pods[uid] = holder
        self._by_pods = self._by_pods.plus(holder.use)
        self._all = None

    def set_reservation(self, uid: str, use: DeviceUse) -> None:
        """Set what a reservation holds."""
        self.reservations[uid] = use
        self._all = None

    def remove(self, uid: str) -> None:
        """Remove a pod or a reservation."""
        self._all = None
        self.reservations.pop(uid, None)
        if self.pods.pop(uid, None) is not None:
            self._by_pods = sum_of(holder.use for holder in self.pods.values())

    def remaining(
        self, reservation: str, removed: Collection[str] = (), added: Sequence[Holder] = ()
    ) -> DeviceUse:
        """Return what owners may still take of a reservation; pods may leave and come before."""
        reserved = self.reservations.get(reservation)
        if reserved is None:
            return UNUSED
        for uid, holder in self.pods.items():
            if holder.reservation == reservation and uid not in removed:
                reserved = reserved.minus(holder.use)
        for holder in added:
            if holder.reservation == reservation:
                reserved = reserved.minus(holder.use)
        return reserved

    def used(
        self,
        *,
        removed: Collection[str] = (),
        added: Sequence[Holder] = (),
        lent: Collection[str] = (),
    ) -> DeviceUse:
        """Return what pods use and reservations keep, as if some pods left and others came.

        What remains of the reservations in ``lent`` is left out: it is free for the pod in view.
        """
        if not (removed or added):
            left = [self.remaining(uid) for uid in {*lent}]
            if not any(one.vfs for one in left):  # others may have the same
                return reduce(DeviceUse.minus, left, self._used())
        by_pods = self._by_pods
        if not self.pods.keys().isdisjoint(removed):
            by_pods = sum_of(holder.use for uid, holder in self.pods.items() if uid not in removed)
        kept = (self.remaining(uid, removed, added) for uid in self.reservations if uid not in lent)
        return sum_of((by_pods, *(holder.use for holder in added), *kept))

    def _used(self) -> DeviceUse:
        """Return what is used in all; a node may have many reservations, and each asks for it."""
        if self._all is None:
            self._all = sum_of((self._by_pods, *map(self.remaining, self.reservations)))
        return self._all

    def fork(self) -> NodeHolders:
        """Return an independent copy."""
        copy = NodeHolders()
        copy.pods, copy.reservations = dict(self.pods), dict(self.reservations)
        copy._by_pods, copy._all = self._by_pods, self._all
        return copy


def sum_of(uses: Iterable[DeviceUse]) -> DeviceUse:
    """Return what several holders use together."""
    return reduce(DeviceUse.plus, uses, UNUSED)
