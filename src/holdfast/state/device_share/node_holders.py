"""The devices of one node that pods hold, and what reservations hold in addition to their owners.

For each reservation and device, T is reserved and its owners use some of it; what remains,
``max(0, T - use)``, is held in addition to what pods use. So the use of owners inside a reservation
counts once, and a pod that takes more than its reservation has counts in full.

Two pods may claim the same device, because users may write the annotations. The claims are kept,
and ``settle`` decides them all again in the order of the claimants (decision 0022). To decide each
claim when it arrives would cost less, but the result would depend on the order of events, and the
other claimant would not get the device when the first is gone. A node without a dispute only pays
for ``_is_overused``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import gt
from typing import NamedTuple

from holdfast.state.columns.claimants import LATEST, Claimant
from holdfast.state.device_share.allocations import NO_TOTALS, UNUSED, DeviceTotals, DeviceUse


class DeviceHolder(NamedTuple):
    """The use of a pod, and the uid of the reservation that it owns, or ""."""

    use: DeviceUse
    reservation: str = ""


class ClaimedUse(NamedTuple):
    """The use of a pod if others did not claim more of a device than it has."""

    holder: DeviceHolder
    claimant: Claimant = LATEST


class NodeHolders:
    """The pods and reservations that hold devices of one node, by uid.

    Invariants: ``_by_pods`` is the sum of what the pods use. ``_all`` is what is used in all, or
    ``None`` if it was not needed since the last change. ``pods`` are the claims, limited to what
    earlier claimants and other reservations leave of the devices in ``totals``; they differ from
    the claims only if that is too little for some pod (``disputed``). A device without totals is
    unknown or unhealthy.
    """

    __slots__ = (
        "_all", "_by_pods", "claims", "disputed", "pods", "reservations", "totals",
        "yielding",
    )  # fmt: skip

    def __init__(self, totals: DeviceTotals = NO_TOTALS) -> None:
        self.pods: dict[str, DeviceHolder] = {}
        self.reservations: dict[str, DeviceUse] = {}
        self.claims: dict[str, ClaimedUse] = {}
        self.yielding: set[str] = set()
        """Reservations that take nothing from pods: those that are being bound, so that pods that
        they pre-allocate do not name them yet, and pods that act as reservations."""
        self.totals = totals
        self.disputed = False
        self._by_pods = UNUSED
        self._all: DeviceUse | None = None

    def __bool__(self) -> bool:
        return bool(self.pods or self.reservations)

    def hold_without(self, removed: Collection[str]) -> bool:
        """Return whether a reservation, or a pod other than these, holds anything."""
        return bool(self.reservations) or any(uid not in removed for uid in self.pods)

    def add_pod(self, uid: str, holder: DeviceHolder, claimant: Claimant = LATEST) -> list[str]:
        """Add a pod that is not there yet; return the pods that have less than they claim."""
        self.claims[uid] = ClaimedUse(holder, claimant)
        self.pods[uid] = holder
        self._by_pods = self._by_pods.plus(holder.use)
        self._all = None
        return self.settle() if self.disputed or self._is_overused(holder.use) else []

    def set_reservation(self, uid: str, use: DeviceUse, *, yields: bool = False) -> list[str]:
        """Set what a reservation holds; return the pods that have less than they claim."""
        (self.yielding.add if yields else self.yielding.discard)(uid)
        self.reservations[uid] = use
        self._all = None
        return [] if yields or not self._is_overused(use) else self.settle()

    def remove(self, uid: str) -> None:
        """Remove a pod or a reservation."""
        self._all = None
        self.yielding.discard(uid)
        self.reservations.pop(uid, None)
        self.claims.pop(uid, None)
        if self.pods.pop(uid, None) is not None:
            self._by_pods = sum_of(holder.use for holder in self.pods.values())
        if self.disputed:
            self.settle()

    def settle(self) -> list[str]:
        """Give devices to their first claimants; return the pods that have less than they claim."""
        self.pods, self.disputed, self._all = {}, False, None
        parts: dict[str, DeviceUse] = {}
        """What pods use, by the reservation that they own; "" for others."""
        of_pods = UNUSED
        for uid, claim in sorted(self.claims.items(), key=lambda item: item[1].claimant.rank):
            use, own = claim.holder.use, claim.holder.reservation
            part = own if own in self.reservations and own not in self.yielding else ""
            possible = use.limited(self.totals, of_pods)
            if not claim.claimant.ignores_reservations:
                possible = possible.limited(self.totals, self._beside(part, parts))
                parts[part] = parts.get(part, UNUSED).plus(possible)
            of_pods = of_pods.plus(possible)
            self.disputed |= possible != use
            self.pods[uid] = DeviceHolder(possible, own)
        self._by_pods = of_pods
        return [
            uid for uid, holder in self.pods.items()
            if holder.use.has_less_than(self.claims[uid].holder.use)
        ]  # fmt: skip

    def _beside(self, own: str, parts: Mapping[str, DeviceUse]) -> DeviceUse:
        """Return what others have, and owners of a reservation ("" for none) cannot have."""
        taken = [parts.get("", UNUSED), parts.get(own, UNUSED) if own else UNUSED]
        for uid, reserved in self.reservations.items():
            if uid != own and uid not in self.yielding:
                taken.append(reserved.plus(parts.get(uid, UNUSED).minus(reserved)))
        return sum_of(taken)

    def _is_overused(self, use: DeviceUse) -> bool:
        """Tell whether more of the devices in ``use`` may be claimed than they have."""
        if use.vfs:
            return True  # any other pod may claim the same function
        devices, totals = use.minors(), self.totals
        return any(
            (kind, minor) in devices and any(map(gt, amounts, totals.get((kind, minor), ())))
            for kind, minor, amounts in self._used().amounts
        )

    def remaining(
        self, reservation: str, removed: Collection[str] = (), added: Sequence[DeviceHolder] = ()
    ) -> DeviceUse:
        """Return what owners may still take of a reservation, as if pods were removed and added."""
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
        added: Sequence[DeviceHolder] = (),
        lent: Collection[str] = (),
    ) -> DeviceUse:
        """Return what pods use and reservations keep, as if pods were removed and added.

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
        """Return what is used in all, summed up once after a change.

        Each reservation needs it. When it was summed up for each of them, an owner took 0.1 s on a
        node with 110 reservations, and more than a second with 400.
        """
        if self._all is None:
            self._all = sum_of((self._by_pods, *map(self.remaining, self.reservations)))
        return self._all

    def fork(self) -> NodeHolders:
        """Return an independent copy."""
        copy = NodeHolders(self.totals)
        copy.pods, copy.reservations = dict(self.pods), dict(self.reservations)
        copy.claims, copy.yielding = dict(self.claims), set(self.yielding)
        copy.disputed = self.disputed
        copy._by_pods, copy._all = self._by_pods, self._all
        return copy


def sum_of(uses: Iterable[DeviceUse]) -> DeviceUse:
    """Return what several holders use together."""
    return reduce(DeviceUse.plus, uses, UNUSED)
