"""The allocation search on one node: depth first, first fit, nothing remembered afterwards.

Requests are worked through in order; each tries its alternatives in order, each alternative the
combinations of its devices in order. Whatever fails later takes back the latest choice and tries
the next one. The order of pools, slices and devices thus decides which devices are given, and the
same input always gives the same answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from holdfast.api.devices import ResourceClaim
from holdfast.api.node import Node
from holdfast.devices.amounts import Consumed
from holdfast.devices.constraints import AllocationConstraint
from holdfast.devices.failures import AllocationError, SearchTimeout
from holdfast.devices.features import Features
from holdfast.devices.holdings import Holdings
from holdfast.devices.matching import Matcher, tolerated
from holdfast.devices.pools import Pool
from holdfast.devices.quotas import Rooms
from holdfast.devices.requests import ALL, MOST_DEVICES, Ask, Wanted, claim_label
from holdfast.devices.slices import DeviceCandidate, DeviceId


class SearchOutcome(Enum):
    """How a part of the search ended."""

    FOUND = auto()
    NONE = auto()
    TOO_MANY = auto()
    """Over the limit of devices a claim may have: other devices cannot help, other counts can."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One device chosen for one ask."""

    ask: Ask
    candidate: DeviceCandidate
    consumed: Consumed | None = None
    """What is taken of a shared device; None when the whole device is."""


class DeviceSearch:
    """One search; ``picks`` holds the answer once ``run`` said FOUND."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        wanted: Sequence[Wanted],
        constraints: Sequence[Sequence[AllocationConstraint]],
        *,
        pools: Sequence[Pool],
        holdings: Holdings,
        node: Node,
        matcher: Matcher,
        features: Features,
        steps: int = 0,
    ) -> None:
        self._claims = claims
        self._wanted = wanted
        self._constraints = constraints
        self._candidates = [(pool, candidate) for pool in pools for candidate in pool.candidates]
        self._holdings = holdings
        self._node = node
        self._matcher = matcher
        self._features = features
        self._rooms = Rooms(pools, holdings, features)
        self._everything: dict[int, list[tuple[Pool, DeviceCandidate]]] = {}
        self._picked_by: dict[DeviceId, list[int]] = defaultdict(list)
        self._given = [0] * len(claims)
        self._steps_left = steps or -1
        self.picks: list[Pick] = []
        self._check(pools)

    def run(self) -> SearchOutcome:
        """Search; the picks are the first complete answer."""
        return self._solve(0)

    # Before the search

    def _check(self, pools: Sequence[Pool]) -> None:
        """Find the devices that "all" means, and refuse claims that want too many."""
        least = [0] * len(self._claims)
        for wanted in self._wanted:
            for ask in wanted.asks:
                if ask.mode == ALL:
                    self._everything[ask.index] = self._all_devices(ask, pools)
            least[wanted.claim] += min(self._count(ask) for ask in wanted.asks)
        for claim, devices in zip(self._claims, least, strict=True):
            if devices > MOST_DEVICES:
                raise AllocationError(
                    f"claim {claim_label(claim)}: number of requested devices {devices} exceeds"
                    f" the claim limit of {MOST_DEVICES}"
                )

    def _all_devices(self, ask: Ask, pools: Sequence[Pool]) -> list[tuple[Pool, DeviceCandidate]]:
        found = []
        for pool in pools:
            if pool.incomplete or pool.fault:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                raise AllocationError(
                    f"claim {claim_label(self._claims[ask.claim])}, request"
                    f" {ask.sub or ask.request}: asks for all devices, but resource pool"
                    f" {pool.label} is {state}"
                )
            found += [
                (pool, candidate)
                for candidate in pool.candidates
                if self._matcher.selectable(ask, candidate, self._node)
                and self._rooms.capacity_for(ask, candidate) is not None
            ]
        return found

    def _count(self, ask: Ask) -> int:
        return len(self._everything[ask.index]) if ask.mode == ALL else ask.count

    # The search

    def _solve(self, at: int) -> SearchOutcome:
        if at == len(self._wanted):
            return SearchOutcome.FOUND
        wanted = self._wanted[at]
        only_too_many = True
        for ask in wanted.asks:
            if self._count(ask) and self._given[ask.claim] + self._count(ask) > MOST_DEVICES:
                continue
            outcome = self._try(ask, at)
            if outcome is SearchOutcome.FOUND:
                return outcome
            only_too_many = only_too_many and outcome is SearchOutcome.TOO_MANY
        return SearchOutcome.TOO_MANY if only_too_many else SearchOutcome.NONE

    def _try(self, ask: Ask, at: int) -> SearchOutcome:
        combinations = self._combine_all(ask) if ask.mode == ALL else self._combine(ask)
        held = len(self.picks)
        for _ in combinations:
            outcome = self._solve(at + 1)
            if outcome is SearchOutcome.FOUND:
                return outcome
            next_claim = at + 1 < len(self._wanted) and self._wanted[at + 1].claim != ask.claim
            if outcome is SearchOutcome.TOO_MANY and not next_claim:
                self._unpick(down_to=held)
                return outcome
        return SearchOutcome.NONE

    def _combine(self, ask: Ask) -> Iterator[None]:
        """Pick each combination of ``ask.count`` devices in turn, picked while it yields."""
        if ask.count == 0:
            yield
            return
        places: list[int] = []
        at = 0
        while True:
            if at == len(self._candidates):
                if not places:
                    return
                self._unpick(down_to=len(self.picks) - 1)
                at = places.pop() + 1
            elif self._pick(ask, *self._candidates[at]):
                places.append(at)
                at += 1
                if len(places) == ask.count:
                    yield
                    self._unpick(down_to=len(self.picks) - 1)
                    at = places.pop() + 1
            else:
                at += 1

    def _combine_all(self, ask: Ask) -> Iterator[None]:
        """Pick every device that "all" means, or none of them."""
        held = len(self.picks)
        devices = self._everything[ask.index]
        if devices and all(self._pick(ask, *device, must=True) for device in devices):
            yield
        self._unpick(down_to=held)

    # One device

    def _pick(
        self, ask: Ask, pool: Pool, candidate: DeviceCandidate, *, must: bool = False
    ) -> bool:
        self._step()
        if self._in_use(ask, candidate):
            return False
        if not must and not self._matcher.selectable(ask, candidate, self._node):
            return False
        consumed = self._rooms.capacity_for(ask, candidate)
        if consumed is None or not self._rooms.counters_for(pool, candidate):
            return False
        if self._features.device_taints and not tolerated(candidate.device.taints, ask.tolerations):
            return False
        if not self._accepted(ask, candidate, must=must):
            return False
        shared = self._features.consumable_capacity and candidate.shareable
        self._rooms.take(pool, candidate, consumed if shared else None)
        if not shared:
            self._picked_by[candidate.id].append(ask.claim)
        self._given[ask.claim] += 1
        self.picks.append(Pick(ask, candidate, consumed if shared else None))
        return True

    def _in_use(self, ask: Ask, candidate: DeviceCandidate) -> bool:
        picked_by = self._picked_by[candidate.id]
        if ask.admin:
            return ask.claim in picked_by
        return bool(picked_by) or candidate.id in self._holdings.whole

    def _accepted(self, ask: Ask, candidate: DeviceCandidate, *, must: bool) -> bool:
        constraints = self._constraints[ask.claim]
        for i, constraint in enumerate(constraints):
            if constraint.add(ask.request, ask.sub, candidate):
                continue
            for earlier in constraints[:i]:
                earlier.remove(ask.request, ask.sub)
            if must:
                raise AllocationError(
                    f"claim {claim_label(self._claims[ask.claim])}, request"
                    f" {ask.sub or ask.request}: cannot add device {'/'.join(candidate.id)}"
                    " because a claim constraint would not be satisfied"
                )
            return False
        return True

    def _unpick(self, *, down_to: int) -> None:
        while len(self.picks) > down_to:
            pick = self.picks.pop()
            ask = pick.ask
            for constraint in self._constraints[ask.claim]:
                constraint.remove(ask.request, ask.sub)
            self._rooms.give_back()
            if pick.consumed is None:
                self._picked_by[pick.candidate.id].remove(ask.claim)
            self._given[ask.claim] -= 1

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left == 0:
            raise SearchTimeout("timed out trying to allocate devices")
