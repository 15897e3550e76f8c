"""Find out why devices of a node cannot be allocated, by a search that records rejections.

The search itself decides. The rules are checked again, one by one, only for a device that it has
rejected, because a search stops at the first rule that a device breaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.api.node import Node, Taint
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.allocator import Allocator
from holdfast.state.devices.errors import AllocationError, SearchTimeout
from holdfast.state.devices.matching import untolerated
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.requests import ClaimRequest, RequestAlternative
from holdfast.state.devices.search import DeviceSearch, Search, SearchOutcome, result_of
from holdfast.state.devices.slices import DeviceCandidate, DeviceId


class ObstacleKind(StrEnum):
    """The rule that a device breaks; a device that breaks a later one is closer."""

    NO_DEVICE = "noDevice"
    POOL = "pool"
    SELECTOR_ERROR = "selectorError"
    SELECTOR = "selector"
    BINDING_CONDITIONS = "bindingConditions"
    NODE = "node"
    IN_USE = "inUse"
    CHOSEN = "chosen"
    """Chosen for another request of the same pod."""
    CAPACITY = "capacity"
    COUNTER = "counter"
    TAINT = "taint"
    CONSTRAINT = "constraint"
    TOO_FEW = "tooFew"


_CLOSENESS = {kind: number for number, kind in enumerate(ObstacleKind)}
_NEVER_SELECTED = frozenset(
    {ObstacleKind.SELECTOR_ERROR, ObstacleKind.SELECTOR, ObstacleKind.BINDING_CONDITIONS}
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason why a device is not chosen.

    ``rule`` is the same text for all devices that break the rule, ``detail`` is about one device.
    """

    kind: ObstacleKind
    rule: str
    detail: str = ""
    matched_selectors: int = 0
    of_class: bool = False
    """Whether the class does not select the device: it is one of another sort."""


@dataclass(frozen=True, slots=True)
class RejectedDevice:
    """A device that was not chosen for an alternative, and why."""

    alternative: RequestAlternative
    candidate: DeviceCandidate
    obstacles: tuple[Obstacle, ...]

    @property
    def distance(self) -> tuple[bool, int, int, int]:
        """Smaller for a device that is closer: selected, with few and late obstacles."""
        first = self.obstacles[0]
        return (
            first.kind in _NEVER_SELECTED,
            -first.matched_selectors,
            len(self.obstacles),
            -_CLOSENESS[first.kind],
        )


@dataclass(frozen=True, slots=True)
class NodeObstacles:
    """Why the claims cannot be allocated on one node."""

    request: ClaimRequest
    """The request at which the search fails: those before it get their devices."""
    found: Mapping[int, int] = field(default_factory=dict)
    """The most devices found at once, by the index of an alternative of the request."""
    devices: tuple[RejectedDevice, ...] = ()
    pools: tuple[Obstacle, ...] = ()
    """Pools that are incomplete or invalid."""
    error: str = ""
    tries: int = 0
    complete: bool = True
    """Whether the search ended before its limit."""


def find_obstacles(
    allocator: Allocator,
    node: Node,
    pools: Sequence[Pool],
    allocated_devices: AllocatedDevices,
    steps: int,
) -> NodeObstacles | None:
    """Search devices on a node again and return the obstacles; None if the devices fit."""
    faulty = tuple(_faulty_pools(pools))
    try:
        search = allocator.new_search(_RecordingSearch, node, pools, allocated_devices, steps)
    except AllocationError as failure:
        return NodeObstacles(allocator.requests[0], pools=faulty, error=failure.message)
    error = ""
    try:
        if search.finds_devices():
            return None
    except SearchTimeout:
        pass  # what was recorded until then is returned
    except AllocationError as failure:
        error = failure.message
    return NodeObstacles(
        allocator.requests[search.reached],
        search.found,
        tuple(search.rejected_devices()),
        faulty,
        error,
        search.tries,
        search.has_tries_left,
    )


def _faulty_pools(pools: Sequence[Pool]) -> Iterator[Obstacle]:
    for pool in pools:
        if pool.incomplete:
            words = f"pool {pool.label} is incomplete: slices are missing"
            yield Obstacle(ObstacleKind.POOL, words)
        elif pool.invalid_reason:
            words = f"pool {pool.label} is invalid: {pool.invalid_reason}"
            yield Obstacle(ObstacleKind.POOL, words)


class _RecordingSearch(DeviceSearch):
    """A search that remembers how far it got, and the obstacles of every device it rejected."""

    reached: int
    """The position of the last request for which devices were tried."""
    found: Counter[int]
    _rejected: dict[tuple[int, DeviceId], RejectedDevice]

    @property
    def tries(self) -> int:
        """How many devices were tried."""
        return self._tries

    @property
    def has_tries_left(self) -> bool:
        """Whether fewer devices were tried than the limit allows."""
        return not self._most_tries or self._tries < self._most_tries

    def finds_devices(self) -> bool:
        """Run the search and return whether it found devices for all requests."""
        self.reached, self.found, self._rejected = 0, Counter(), {}
        return result_of(self.run()) is SearchOutcome.FOUND

    def rejected_devices(self) -> Iterator[RejectedDevice]:
        """Return the devices that were not chosen for the failing request."""
        for alternative in self._requests[self.reached].alternatives:
            for pool, candidate in self._candidates:
                rejected = self._rejected.get((alternative.index, candidate.id))
                if rejected is None and not self.found[alternative.index] and self.has_tries_left:
                    # The search has not tried it: in mode All, or after an error.
                    self._tries += 1
                    rejected = self._reject(alternative, pool, candidate)
                if rejected is not None and rejected.obstacles:
                    yield rejected

    def _solve(self, at: int) -> Search:
        if at < len(self._requests):
            self.reached = max(self.reached, at)
        return super()._solve(at)

    def _choose(
        self,
        alternative: RequestAlternative,
        pool: Pool,
        candidate: DeviceCandidate,
        *,
        required: bool = False,
    ) -> bool:
        if super()._choose(alternative, pool, candidate, required=required):
            count = sum(chosen.alternative is alternative for chosen in self.chosen_devices)
            self.found[alternative.index] = max(count, self.found[alternative.index])
            return True
        key = (alternative.index, candidate.id)
        known = self._rejected.get(key)
        if known is None or len(known.obstacles) > 1:
            rejected = self._reject(alternative, pool, candidate)
            if known is None or len(rejected.obstacles) < len(known.obstacles):
                self._rejected[key] = rejected
        return False

    def _reject(
        self, alternative: RequestAlternative, pool: Pool, candidate: DeviceCandidate
    ) -> RejectedDevice:
        obstacles = tuple(self._obstacles(alternative, pool, candidate))
        return RejectedDevice(alternative, candidate, obstacles)

    def _obstacles(
        self, alternative: RequestAlternative, pool: Pool, candidate: DeviceCandidate
    ) -> Iterator[Obstacle]:
        """Return every rule that the device breaks at this point of the search."""
        yield from self._selection_obstacles(alternative, candidate)
        if self._in_use(alternative, candidate):
            if self._chosen_by[candidate.id]:
                yield Obstacle(ObstacleKind.CHOSEN, "chosen for another request of this pod")
            else:
                yield Obstacle(ObstacleKind.IN_USE, "in use")
        if shortage := self._remaining.capacity_shortage(alternative, candidate):
            yield Obstacle(ObstacleKind.CAPACITY, "too little capacity is left", shortage)
        if missing := self._remaining.counter_shortage(pool, candidate):
            name, needed, left = missing
            rule = f"too little is left of counter {name}"
            yield Obstacle(ObstacleKind.COUNTER, rule, f"{needed} is needed, {left} is left")
        if self._features.device_taints:
            for taint in untolerated(candidate.device.taints, alternative.tolerations):
                rule = f"taint {taint_text(taint)} is not tolerated"
                yield Obstacle(ObstacleKind.TAINT, rule)
        for constraint in self._constraints[alternative.claim]:
            names = (alternative.request_name, alternative.subrequest_name)
            if constraint.add(*names, candidate):
                constraint.remove(*names)
            else:
                rule = f"constraint {constraint.label} is not satisfied"
                yield Obstacle(ObstacleKind.CONSTRAINT, rule, constraint.conflict(candidate))

    def _selection_obstacles(
        self, alternative: RequestAlternative, candidate: DeviceCandidate
    ) -> Iterator[Obstacle]:
        if candidate.device.binding_conditions and not self._features.binding_conditions:
            rule = "binding conditions, but DRADeviceBindingConditions is off"
            yield Obstacle(ObstacleKind.BINDING_CONDITIONS, rule)
        try:
            mismatch = self._matcher.mismatch(alternative, candidate)
        except AllocationError as failure:
            yield Obstacle(ObstacleKind.SELECTOR_ERROR, failure.message)
            return
        if mismatch is not None:
            cel = mismatch.selector.cel
            expression = " ".join(cel.expression.split()) if cel is not None else ""
            rule = f"selector #{mismatch.number} of {mismatch.source} is false: {expression}"
            of_class = mismatch.matched < len(alternative.device_class.spec.selectors)
            yield Obstacle(ObstacleKind.SELECTOR, rule, "", mismatch.matched, of_class)
        if not candidate.is_available_on(self._node):
            yield Obstacle(ObstacleKind.NODE, "for other nodes")


def taint_text(taint: Taint) -> str:
    """Write a taint as kubectl does.

    >>> taint_text(Taint(key="a", value="b", effect="NoSchedule")), taint_text(Taint(key="a"))
    ('a=b:NoSchedule', 'a')
    """
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}" + (f":{taint.effect}" if taint.effect else "")
