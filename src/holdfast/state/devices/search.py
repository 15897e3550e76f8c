"""The allocation search on one node: depth first, first fit, deterministic.

Requests are processed in order. Each tries its alternatives in order, and each alternative tries
combinations of devices in order. If a later request fails, the search backtracks to the latest
choice. So the order of pools, slices and devices decides which devices are allocated. The order and
the first fit are upstream's: another order would allocate other devices than kube-scheduler, and
decisions are compared with its own. So searches are made rarer (``signatures``), not smarter.

A search may take seconds, so it runs in steps (decision 0031). Plugins have no clock: a pause is
due after a number of tries, weighted by what a try compares, and ``steps`` limits the tries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from enum import Enum, auto
from typing import TypeVar

import msgspec

from holdfast.api.devices import ALL, MAX_DEVICES, ResourceClaim
from holdfast.api.node import Node
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.constraints import AllocationConstraint
from holdfast.state.devices.consumable_capacity import ConsumedCapacity
from holdfast.state.devices.errors import TIMED_OUT, AllocationError, SearchTimeout
from holdfast.state.devices.features import Features
from holdfast.state.devices.matching import Matcher, tolerated
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.remaining_capacity import RemainingCapacity
from holdfast.state.devices.requests import (
    ClaimRequest,
    RequestAlternative,
    claim_label,
)
from holdfast.state.devices.slices import DeviceCandidate, DeviceId

_TRIES_A_STEP = 256
"""About two milliseconds; a try that compares much counts as several."""
_WORK_A_STEP = 20_000
"""The same time for selectors; usually all were evaluated before the search."""


class SearchOutcome(Enum):
    """The outcome of a part of the search."""

    FOUND = auto()
    NONE = auto()
    TOO_MANY = auto()
    """The claim has too many devices: other devices do not help, alternatives with fewer may."""


class ChosenDevice(msgspec.Struct, frozen=True):
    """One device chosen for one request or subrequest."""

    alternative: RequestAlternative
    candidate: DeviceCandidate
    consumed: ConsumedCapacity | None = None
    """What is consumed of a shared device; None for a whole device."""


Search = Generator[None, None, SearchOutcome]
"""A part of the search that pauses after each step."""
_CHOSEN, _PAUSE = True, False


class DeviceSearch:
    """One search; ``chosen_devices`` is the solution after ``run`` returned FOUND."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        requests: Sequence[ClaimRequest],
        constraints: Sequence[Sequence[AllocationConstraint]],
        *,
        pools: Sequence[Pool],
        allocated_devices: AllocatedDevices,
        node: Node,
        matcher: Matcher,
        features: Features,
        steps: int = 0,
    ) -> None:
        self._claims = claims
        self._requests = requests
        self._constraints = constraints
        self._candidates = [(pool, candidate) for pool in pools for candidate in pool.candidates]
        self._allocated_devices = allocated_devices
        self._node = node
        self._matcher = matcher
        self._features = features
        self._remaining = RemainingCapacity(allocated_devices, features)
        self._all_mode_devices: dict[int, list[tuple[Pool, DeviceCandidate]]] = {}
        self._chosen_by: dict[DeviceId, list[int]] = defaultdict(list)
        self._device_count = [0] * len(claims)
        self._most_tries = steps
        self._tries, self._until_pause = 0, _TRIES_A_STEP
        self._selectors = matcher.selectors
        self._most_work = self._selectors.work + _WORK_A_STEP
        # When each try counted as one, devices with 32 shared capacities took 0.7 s without a
        # pause, and thousands of tolerations 1.2 s.
        self._weights = {
            alternative.index: 1 + len(alternative.tolerations) // 16 + len(alternative.capacity)
            for request in requests
            for alternative in request.alternatives
        }
        self.chosen_devices: list[ChosenDevice] = []
        self._check(pools)

    def run(self) -> Search:
        """Search until the first complete solution."""
        return self._solve(0)

    # Before the search

    def _check(self, pools: Sequence[Pool]) -> None:
        """Find the devices of mode All, and reject claims that need too many devices."""
        minimum = [0] * len(self._claims)
        for request in self._requests:
            for alternative in request.alternatives:
                if alternative.allocation_mode == ALL:
                    self._all_mode_devices[alternative.index] = self._all_devices(
                        alternative, pools
                    )
            minimum[request.claim] += min(
                self._count(alternative) for alternative in request.alternatives
            )
        for claim, devices in zip(self._claims, minimum, strict=True):
            if devices > MAX_DEVICES:
                raise AllocationError(
                    f"claim {claim_label(claim)}: number of requested devices {devices} exceeds"
                    f" the claim limit of {MAX_DEVICES}"
                )

    def _all_devices(
        self, alternative: RequestAlternative, pools: Sequence[Pool]
    ) -> list[tuple[Pool, DeviceCandidate]]:
        devices = []
        for pool in pools:
            if pool.incomplete or pool.invalid_reason:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                raise AllocationError(
                    f"claim {claim_label(self._claims[alternative.claim])}, request"
                    f" {alternative.short_label}: asks for all devices, but resource pool"
                    f" {pool.label} is {state}"
                )
            devices += [
                (pool, candidate)
                for candidate in pool.candidates
                if self._matcher.selectable(alternative, candidate, self._node)
                and self._remaining.consumed_capacity_for(alternative, candidate) is not None
            ]
        return devices

    def _count(self, alternative: RequestAlternative) -> int:
        return (
            len(self._all_mode_devices[alternative.index])
            if alternative.allocation_mode == ALL
            else alternative.count
        )

    # The search

    def _solve(self, at: int) -> Search:
        if at == len(self._requests):
            return SearchOutcome.FOUND
        request = self._requests[at]
        only_too_many = True
        for alternative in request.alternatives:
            # Alternatives of mode All or of count 0 never reach the pause of _combine.
            if self._is_pause_due():
                yield
            if (
                self._count(alternative)
                and self._device_count[alternative.claim] + self._count(alternative) > MAX_DEVICES
            ):
                continue
            outcome = yield from self._try(alternative, at)
            if outcome is SearchOutcome.FOUND:
                return outcome
            only_too_many = only_too_many and outcome is SearchOutcome.TOO_MANY
        return SearchOutcome.TOO_MANY if only_too_many else SearchOutcome.NONE

    def _try(self, alternative: RequestAlternative, at: int) -> Search:
        combinations = (
            self._combine_all(alternative)
            if alternative.allocation_mode == ALL
            else self._combine(alternative)
        )
        before = len(self.chosen_devices)
        for chosen in combinations:
            if not chosen:
                yield
                continue
            outcome = yield from self._solve(at + 1)
            if outcome is SearchOutcome.FOUND:
                return outcome
            next_claim = (
                at + 1 < len(self._requests) and self._requests[at + 1].claim != alternative.claim
            )
            if outcome is SearchOutcome.TOO_MANY and not next_claim:
                self._undo(down_to=before)
                return outcome
        return SearchOutcome.NONE

    def _combine(self, alternative: RequestAlternative) -> Iterator[bool]:
        """Choose each combination of ``count`` devices in turn; it is chosen while this yields."""
        if alternative.count == 0:
            # A stored claim without defaults may have this count. 32 requests with eight such
            # alternatives each never ended, because only tried devices were counted.
            self._step()
            yield _CHOSEN
            return
        positions: list[int] = []
        at = 0
        while True:
            if self._is_pause_due():
                yield _PAUSE
            if at == len(self._candidates):
                if not positions:
                    return
                self._undo(down_to=len(self.chosen_devices) - 1)
                at = positions.pop() + 1
            elif self._choose(alternative, *self._candidates[at]):
                positions.append(at)
                at += 1
                if len(positions) == alternative.count:
                    yield _CHOSEN
                    self._undo(down_to=len(self.chosen_devices) - 1)
                    at = positions.pop() + 1
            else:
                at += 1

    def _combine_all(self, alternative: RequestAlternative) -> Iterator[bool]:
        """Choose every device of mode All, or none of them."""
        before = len(self.chosen_devices)
        devices = self._all_mode_devices[alternative.index]
        if devices and all(self._choose(alternative, *device, required=True) for device in devices):
            yield _CHOSEN
        self._undo(down_to=before)

    # One device

    def _choose(
        self,
        alternative: RequestAlternative,
        pool: Pool,
        candidate: DeviceCandidate,
        *,
        required: bool = False,
    ) -> bool:
        shared = len(candidate.device.capacity) if candidate.shareable else 0
        self._step(self._weights[alternative.index] + shared)
        if self._in_use(alternative, candidate):
            return False
        if not required and not self._matcher.selectable(alternative, candidate, self._node):
            return False
        consumed = self._remaining.consumed_capacity_for(alternative, candidate)
        if consumed is None or not self._remaining.has_counters_for(pool, candidate):
            return False
        if self._features.device_taints and not tolerated(
            candidate.device.taints, alternative.tolerations
        ):
            return False
        if not self._add_to_constraints(alternative, candidate, required=required):
            return False
        shared = self._features.consumable_capacity and candidate.shareable
        self._remaining.allocate(pool, candidate, consumed if shared else None)
        if not shared:
            self._chosen_by[candidate.id].append(alternative.claim)
        self._device_count[alternative.claim] += 1
        self.chosen_devices.append(
            ChosenDevice(alternative, candidate, consumed if shared else None)
        )
        return True

    def _in_use(self, alternative: RequestAlternative, candidate: DeviceCandidate) -> bool:
        chosen_by = self._chosen_by[candidate.id]
        if alternative.admin_access:
            return alternative.claim in chosen_by
        return bool(chosen_by) or candidate.id in self._allocated_devices.unshared

    def _add_to_constraints(
        self, alternative: RequestAlternative, candidate: DeviceCandidate, *, required: bool
    ) -> bool:
        constraints = self._constraints[alternative.claim]
        for i, constraint in enumerate(constraints):
            if constraint.add(alternative.request_name, alternative.subrequest_name, candidate):
                continue
            for earlier in constraints[:i]:
                earlier.remove(alternative.request_name, alternative.subrequest_name)
            if required:
                raise AllocationError(
                    f"claim {claim_label(self._claims[alternative.claim])}, request"
                    f" {alternative.short_label}: cannot add device {'/'.join(candidate.id)}"
                    " because a claim constraint would not be satisfied"
                )
            return False
        return True

    def _undo(self, *, down_to: int) -> None:
        while len(self.chosen_devices) > down_to:
            chosen = self.chosen_devices.pop()
            alternative = chosen.alternative
            for constraint in self._constraints[alternative.claim]:
                constraint.remove(alternative.request_name, alternative.subrequest_name)
            self._remaining.deallocate_last()
            if chosen.consumed is None:
                self._chosen_by[chosen.candidate.id].remove(alternative.claim)
            self._device_count[alternative.claim] -= 1

    def _is_pause_due(self) -> bool:
        work = self._selectors.work
        if self._until_pause > 0 and work < self._most_work:
            return False
        self._until_pause, self._most_work = _TRIES_A_STEP, work + _WORK_A_STEP
        return True

    def _step(self, weight: int = 1) -> None:
        self._tries += 1
        self._until_pause -= weight
        if self._tries == self._most_tries:
            raise SearchTimeout(TIMED_OUT)


T = TypeVar("T")


def _continue() -> None:
    """Do nothing in a pause."""


def result_of(steps: Generator[None, None, T], on_pause: Callable[[], None] = _continue) -> T:
    """Return the result of a generator; ``on_pause`` is called wherever it pauses.

    An exception of ``on_pause`` ends it.
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        on_pause()
