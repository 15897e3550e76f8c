"""Allocate devices for all claims of one pod on one node."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar

import msgspec

from holdfast.api.devices import Allocation, DeviceClass, ResourceClaim
from holdfast.api.node import Node
from holdfast.cel import DeviceSelectors
from holdfast.devices import constraints
from holdfast.devices.allocated_devices import AllocatedDevices
from holdfast.devices.constraints import AllocationConstraint
from holdfast.devices.consumable_capacity import ConsumedCapacity
from holdfast.devices.errors import AllocationError, NodeAllocationError
from holdfast.devices.features import Features
from holdfast.devices.matching import Matcher
from holdfast.devices.pools import Pool
from holdfast.devices.requests import (
    ClaimRequest,
    RequestAlternative,
    alternative_score,
    claim_label,
    flatten_requests,
)
from holdfast.devices.results import build_allocation
from holdfast.devices.search import ChosenDevice, DeviceSearch, SearchOutcome
from holdfast.devices.steps import result_of

S = TypeVar("S", bound=DeviceSearch)
Specs = tuple[bytes, ...]
Choice = tuple[int, int, ConsumedCapacity | None]
"""The index of an alternative, the position of a device in search order, what is consumed of it."""


class Solution(msgspec.Struct, frozen=True):
    """The devices chosen for all claims, and the alternative chosen for each request."""

    chosen_devices: tuple[ChosenDevice, ...]
    alternatives: tuple[RequestAlternative, ...]

    @property
    def score(self) -> int:
        """Sum over requests with subrequests: 8 for the first subrequest, 7 for the second, ..."""
        return sum(
            alternative_score(alternative.position)
            for alternative in self.alternatives
            if alternative.subrequest_name
        )


class Allocator:
    """Allocates the claims of one pod; raises AllocationError if they fail on every node."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        classes: Mapping[str, DeviceClass],
        selectors: DeviceSelectors,
        features: Features,
        specs: Specs = (),
    ) -> None:
        self.claims = tuple(claims)
        self.features = features
        self.specs = specs
        """The encoded specs of the claims, by which equal claims share their results."""
        self.requests: tuple[ClaimRequest, ...] = flatten_requests(claims, classes, features)
        self.alternatives = tuple(a for request in self.requests for a in request.alternatives)
        self.matcher = Matcher(self.claims, selectors, features)
        self._new_constraints()

    def for_claims(self, claims: Sequence[ResourceClaim]) -> Allocator:
        """Return an allocator of claims with the same specs."""
        other = Allocator.__new__(Allocator)  # half the time of copy.copy
        vars(other).update(vars(self))
        other.claims = tuple(claims)
        other.matcher = self.matcher.for_claims(other.claims)
        return other

    def solve(
        self, node: Node, pools: Sequence[Pool], allocated_devices: AllocatedDevices, steps: int = 0
    ) -> Solution | None:
        """Search devices on one node; ``steps`` limits the devices that are tried (0: no limit)."""
        return result_of(self.solve_in_steps(node, pools, allocated_devices, steps))

    def solve_in_steps(
        self, node: Node, pools: Sequence[Pool], allocated_devices: AllocatedDevices, steps: int = 0
    ) -> Generator[None, None, Solution | None]:
        """Do the same as ``solve``, with pauses; the arguments must not change meanwhile."""
        if not self.claims:
            return None
        search = self.new_search(DeviceSearch, node, pools, allocated_devices, steps)
        outcome = yield from search.run()
        if outcome is SearchOutcome.FOUND:
            return Solution(
                tuple(search.chosen_devices), self._chosen_alternatives(search.chosen_devices)
            )
        if any(pool.invalid_reason for pool in pools):
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    def new_search(
        self,
        search: type[S],
        node: Node,
        pools: Sequence[Pool],
        allocated_devices: AllocatedDevices,
        steps: int,
    ) -> S:
        """Return a search on one node that has not begun; raise AllocationError if it must fail."""
        return search(
            self.claims, self.requests, self._new_constraints(), pools=pools,
            allocated_devices=allocated_devices, node=node, matcher=self.matcher,
            features=self.features, steps=steps,
        )  # fmt: skip

    def choices(self, solution: Solution, pools: Sequence[Pool]) -> tuple[Choice, ...]:
        """Return a solution without names, so that it is one for all nodes of its signature."""
        candidates = (c for pool in pools for c in pool.candidates)
        position = {id(candidate): i for i, candidate in enumerate(candidates)}
        return tuple(
            (chosen.alternative.index, position[id(chosen.candidate)], chosen.consumed)
            for chosen in solution.chosen_devices
        )

    def solution(self, choices: Sequence[Choice], pools: Sequence[Pool]) -> Solution:
        """Return the solution of these choices on a node with these pools."""
        candidates = [candidate for pool in pools for candidate in pool.candidates]
        chosen_devices = tuple([
            ChosenDevice(self.alternatives[index], candidates[position], consumed)
            for index, position, consumed in choices
        ])  # fmt: skip
        return Solution(chosen_devices, self._chosen_alternatives(chosen_devices))

    def write(self, solution: Solution, node: str) -> tuple[Allocation, ...]:
        """Return one allocation a claim, in the order of the claims."""
        devices, alternatives = solution.chosen_devices, solution.alternatives
        return tuple(
            build_allocation(
                claim,
                [chosen for chosen in devices if chosen.alternative.claim == number],
                [alternative for alternative in alternatives if alternative.claim == number],
                node,
                self.features,
            )
            for number, claim in enumerate(self.claims)
        )

    def _chosen_alternatives(
        self, chosen_devices: Sequence[ChosenDevice]
    ) -> tuple[RequestAlternative, ...]:
        if len(self.alternatives) == len(self.requests):
            return self.alternatives  # one each
        chosen = {device.alternative.index for device in chosen_devices}
        return tuple(
            next(
                (
                    alternative
                    for alternative in request.alternatives
                    if alternative.index in chosen
                ),
                request.alternatives[0],
            )
            for request in self.requests
        )

    def _new_constraints(self) -> list[list[AllocationConstraint]]:
        return [self._constraints_of(claim) for claim in self.claims]

    def _constraints_of(self, claim: ResourceClaim) -> list[AllocationConstraint]:
        built: list[AllocationConstraint] = []
        for i, constraint in enumerate(claim.spec.devices.constraints):
            ready = constraints.build(constraint, lists=self.features.list_attributes)
            if ready is None:
                raise AllocationError(
                    f"claim {claim_label(claim)}, constraint #{i}: empty constraint"
                    " (unsupported constraint type?)"
                )
            built.append(ready)
        return built
