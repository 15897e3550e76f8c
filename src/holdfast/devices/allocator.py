"""Give the claims of one pod their devices on one node: all of them, or none, or an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.api.devices import Allocation, DeviceClass, ResourceClaim
from holdfast.api.node import Node
from holdfast.cel import DeviceSelectors
from holdfast.devices import constraints
from holdfast.devices.constraints import AllocationConstraint
from holdfast.devices.failures import AllocationError, NodeAllocationError
from holdfast.devices.features import Features
from holdfast.devices.holdings import Holdings
from holdfast.devices.matching import Matcher
from holdfast.devices.pools import Pool
from holdfast.devices.requests import Ask, Wanted, claim_label, flatten
from holdfast.devices.results import allocation_of
from holdfast.devices.search import DeviceSearch, Pick, SearchOutcome


@dataclass(frozen=True, slots=True)
class Solution:
    """The devices found, and for each request of each claim which alternative was chosen."""

    picks: tuple[Pick, ...]
    chosen: tuple[Ask, ...]

    @property
    def score(self) -> int:
        """Prefer early alternatives: 8 for the first, one less for each later."""
        return sum(8 - ask.choice for ask in self.chosen if ask.sub)


class Allocator:
    """The claims of one pod, ready to be tried on any node; raises what no node can cure."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        classes: Mapping[str, DeviceClass],
        selectors: DeviceSelectors,
        features: Features,
    ) -> None:
        self.claims = tuple(claims)
        self.features = features
        self.wanted: tuple[Wanted, ...] = flatten(claims, classes, features)
        self.matcher = Matcher(self.claims, selectors, features)
        self._fresh_constraints()

    def solve(
        self, node: Node, pools: Sequence[Pool], holdings: Holdings, steps: int = 0
    ) -> Solution | None:
        """Search on one node; ``steps`` bounds how many devices are looked at (0: no bound)."""
        if not self.claims:
            return None
        search = DeviceSearch(
            self.claims, self.wanted, self._fresh_constraints(), pools=pools, holdings=holdings,
            node=node, matcher=self.matcher, features=self.features, steps=steps,
        )  # fmt: skip
        if search.run() is SearchOutcome.FOUND:
            return Solution(tuple(search.picks), self._chosen(search.picks))
        if any(pool.fault for pool in pools):
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    def write(self, solution: Solution, node: str) -> tuple[Allocation, ...]:
        """Turn a solution into one allocation a claim, in the order of the claims."""
        return tuple(
            allocation_of(
                claim,
                [pick for pick in solution.picks if pick.ask.claim == number],
                [ask for ask in solution.chosen if ask.claim == number],
                node,
                self.features,
            )
            for number, claim in enumerate(self.claims)
        )

    def _chosen(self, picks: Sequence[Pick]) -> tuple[Ask, ...]:
        picked = {pick.ask.index: pick.ask for pick in picks}
        return tuple(
            next((ask for ask in wanted.asks if ask.index in picked), wanted.asks[0])
            for wanted in self.wanted
        )

    def _fresh_constraints(self) -> list[list[AllocationConstraint]]:
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
