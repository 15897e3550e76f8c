"""Allocate devices for all claims of one pod on one node, as written into the claims' status."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.api.cel import DeviceSelectors
from holdfast.api.devices import (
    Allocation,
    DeviceAllocation,
    DeviceClass,
    DeviceConfig,
    DeviceResult,
    ResourceClaim,
)
from holdfast.api.meta import Requirement
from holdfast.api.node import Node
from holdfast.api.node_selection import NAME_FIELD
from holdfast.api.pod import NodeSelector, NodeSelectorTerm
from holdfast.state.devices import constraints
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.constraints import AllocationConstraint
from holdfast.state.devices.consumable_capacity import ConsumedCapacity
from holdfast.state.devices.errors import AllocationError, NodeAllocationError
from holdfast.state.devices.features import Features
from holdfast.state.devices.matching import Matcher
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.requests import (
    ClaimRequest,
    RequestAlternative,
    alternative_score,
    claim_label,
    flatten_requests,
)
from holdfast.state.devices.search import ChosenDevice, DeviceSearch, SearchOutcome, result_of

S = TypeVar("S", bound=DeviceSearch)
Specs = tuple[bytes, ...]
DeviceChoice = tuple[int, int, ConsumedCapacity | None]
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
        """Do the same as ``solve``, with pauses; the arguments must not change in these."""
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

    def choices(self, solution: Solution, pools: Sequence[Pool]) -> tuple[DeviceChoice, ...]:
        """Return a solution without names, so that all nodes of its signature share it."""
        candidates = (c for pool in pools for c in pool.candidates)
        position = {id(candidate): i for i, candidate in enumerate(candidates)}
        return tuple(
            (chosen.alternative.index, position[id(chosen.candidate)], chosen.consumed)
            for chosen in solution.chosen_devices
        )

    def solution(self, choices: Sequence[DeviceChoice], pools: Sequence[Pool]) -> Solution:
        """Return the solution of these choices on a node with these pools."""
        candidates = [candidate for pool in pools for candidate in pool.candidates]
        chosen_devices = tuple([
            ChosenDevice(self.alternatives[index], candidates[position], consumed)
            for index, position, consumed in choices
        ])  # fmt: skip
        return Solution(chosen_devices, self._chosen_alternatives(chosen_devices))

    def write(self, solution: Solution, node: str) -> tuple[Allocation, ...]:
        """Return one allocation per claim, in the order of the claims."""
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


def build_allocation(
    claim: ResourceClaim,
    chosen_devices: Sequence[ChosenDevice],
    alternatives: Sequence[RequestAlternative],
    node: str,
    features: Features,
) -> Allocation:
    """Build a claim's allocation from its chosen devices and alternatives."""
    results = [_result(claim, i, chosen, features) for i, chosen in enumerate(chosen_devices)]
    return Allocation(
        devices=DeviceAllocation(results=tuple(results), config=_config(claim, alternatives)),
        node_selector=_node_selector(chosen_devices, node),
    )


def _result(
    claim: ResourceClaim, number: int, chosen: ChosenDevice, features: Features
) -> DeviceResult:
    driver, pool, name = chosen.candidate.id
    device = chosen.candidate.device
    binds = features.binding_conditions
    consumed = chosen.consumed
    return DeviceResult(
        request=chosen.alternative.label,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if chosen.alternative.admin_access else None,
        tolerations=chosen.alternative.tolerations,
        binding_conditions=device.binding_conditions if binds else (),
        binding_failure_conditions=device.binding_failure_conditions if binds else (),
        share_id=None if consumed is None else _share_id(claim, number, chosen),
        consumed_capacity={name: str(amount) for name, amount in (consumed or {}).items()},
    )


def _share_id(claim: ResourceClaim, number: int, chosen: ChosenDevice) -> str:
    """Return a unique id: a claim is never allocated twice at the same resource version."""
    parts = (claim.uid, claim.metadata.resource_version, str(number), *chosen.candidate.id)
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _config(
    claim: ResourceClaim, alternatives: Sequence[RequestAlternative]
) -> tuple[dict[str, Any], ...]:
    """Return the configuration of each class once, then the claim's own for its chosen requests."""
    config: list[dict[str, Any]] = []
    configured = [a for a in alternatives if a.device_class.spec.config]
    classes = {a.device_class.name: a.device_class for a in configured}
    users: dict[str, list[str]] = {}
    for alternative in configured:
        users.setdefault(alternative.device_class.name, []).append(alternative.label)
    for name, device_class in classes.items():
        config += (_entry("FromClass", users[name], c) for c in device_class.spec.config)
    for own in claim.spec.devices.config:
        if not own.requests:
            config.append(_entry("FromClaim", [], own))
            continue
        config += (
            _entry("FromClaim", list(own.requests), own)
            for alternative in alternatives
            if alternative.request_name in own.requests or alternative.label in own.requests
        )
    return tuple(config)


def _entry(source: str, requests: list[str], config: DeviceConfig) -> dict[str, Any]:
    entry: dict[str, Any] = {"source": source}
    if requests:
        entry["requests"] = requests
    if config.opaque is not None:
        entry["opaque"] = msgspec.to_builtins(config.opaque)
    return entry


def _node_selector(chosen_devices: Sequence[ChosenDevice], node: str) -> NodeSelector | None:
    """Return which nodes can use all of the devices; None: every node."""
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for chosen in chosen_devices:
        spec, device = chosen.candidate.slice.spec, chosen.candidate.device
        owner = device if spec.per_device_node_selection else spec
        if owner.node_name is not None or device.binds_to_node:
            here = Requirement(key=NAME_FIELD, operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),))
        for term in owner.node_selector.node_selector_terms if owner.node_selector else ():
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(known: list[Requirement], more: Sequence[Requirement]) -> None:
    for requirement in more:
        if not any(_same(requirement, other) for other in known):
            known.append(requirement)


def _same(one: Requirement, other: Requirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (
        other.key, other.operator, set(other.values),
    )  # fmt: skip
