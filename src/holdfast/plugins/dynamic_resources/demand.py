"""What one pod needs of devices in one attempt, and what each row has to say to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import ResourceClaim
from holdfast.api.node_selection import compile_selector
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.selection import Bools, terms_selected
from holdfast.devices.allocator import Allocator
from holdfast.devices.claims import special_uid
from holdfast.devices.extended import Breakdown, break_down, special_claim
from holdfast.devices.failures import AllocationError, SearchTimeout
from holdfast.devices.inventory import Inventory
from holdfast.devices.tables import BROKEN, FAILS, FITS, LACKS, AllocationAnswers
from holdfast.framework.plugin import Code, Rows, Verdicts

UNAVAILABLE, LEFTOVER = 4, 5
"""Beside the codes of ``tables``: an allocated claim is elsewhere; an old special claim exists."""
_VERDICTS = np.array(
    [Code.PASS, Code.UNRESOLVABLE, Code.UNRESOLVABLE, Code.ERROR, Code.UNRESOLVABLE,
     Code.UNRESOLVABLE], np.int8,
)  # fmt: skip
_WORDS = {
    LACKS: "cannot allocate all claims",
    BROKEN: "invalid resource pools were encountered",
    UNAVAILABLE: "resourceclaim not available on the node",
    LEFTOVER: "cannot schedule extended resource claim",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """What must be allocated on nodes where devices serve the same of the pod's resources."""

    claims: tuple[ResourceClaim, ...]
    breakdown: Breakdown
    special: ResourceClaim | None
    allocator: Allocator | None = None
    answers: AllocationAnswers | None = None
    error: str = ""

    def codes(self, rows: Rows) -> NDArray[np.int8]:
        """What the rows answer; nothing to allocate fits everywhere."""
        if self.error:
            return np.full(len(rows), FAILS, np.int8)
        if self.answers is None:
            return np.zeros(len(rows), np.int8)
        return self.answers.codes(rows)


@dataclass(slots=True)
class Written:
    """What this attempt has promised and written so far, for undoing it."""

    promises: list[ResourceClaim] = field(default_factory=list)
    special: ResourceClaim | None = None
    pod_status: bool = False


@dataclass(slots=True)
class ClaimDemand:
    """The claims of a pod in one attempt.

    ``claims`` are those of its spec; ``extended`` its resources that a class serves; ``leftover``
    a special claim of an earlier attempt, which must go before a new one is made.
    """

    pod: PodInfo
    inventory: Inventory
    nodes: NodeTable
    now: float
    steps: int
    claims: tuple[ResourceClaim, ...]
    extended: tuple[str, ...] = ()
    leftover: ResourceClaim | None = None
    unavailable: set[int] = field(default_factory=set)
    written: Written = field(default_factory=Written)
    _masks: dict[int, Bools] = field(default_factory=dict)
    _variants: dict[int, Variant] = field(default_factory=dict)

    @property
    def special_uid(self) -> str:
        """Under which uid the special claim is promised, before it has one of its own."""
        return special_uid(self.pod.uid)

    @property
    def pending(self) -> tuple[ResourceClaim, ...]:
        """Claims of the spec that still need devices."""
        return tuple(c for c in self.claims if c.status.allocation is None)

    def judge(self, rows: Rows) -> NDArray[np.int8]:
        """A code for each row; claims that are elsewhere are remembered in ``unavailable``.

        Where devices are missing that is the reason, and claims that are elsewhere are no matter.
        """
        if self.leftover is not None:
            return np.full(len(rows), LEFTOVER, np.int8)
        codes = np.zeros(len(rows), np.int8)
        served = self._served(rows)
        for bits in np.unique(served):
            some = (served == bits).nonzero()[0]
            codes[some] = self.variant(int(bits)).codes(rows[some])
        found = codes == FITS
        for number, claim in enumerate(self.claims):
            if claim.status.allocation is not None:
                elsewhere = found & ~self._mask(number, claim)[rows]
                if elsewhere.any():
                    self.unavailable.add(number)
                    codes[elsewhere] = UNAVAILABLE
        return codes

    def verdicts(self, rows: Rows) -> Verdicts:
        """The rows' codes as the framework wants them."""
        verdicts: Verdicts = _VERDICTS[self.judge(rows)]
        return verdicts

    def words(self, row: int) -> str:
        """Say in upstream's words why the row will not do."""
        rows = np.array([row], np.intp)
        code = int(self.judge(rows)[0])
        return self.failure(row) if code == FAILS else _WORDS.get(code, "")

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the reasons over rows; those that cannot be judged are asked one by one."""
        codes = self.judge(rows)
        found: Counter[str] = Counter()
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            if int(code) in _WORDS:
                found[_WORDS[int(code)]] += int(count)
        found.update(self.failure(int(row)) for row in rows[codes == FAILS])
        return found

    def failure(self, row: int) -> str:
        """Why the claims cannot be judged on a row, naming this pod's own claims."""
        variant = self.variant_at(row)
        if variant.error or variant.allocator is None:
            return variant.error
        node = self.nodes.nodes[row]
        assert node is not None, f"row {row} is a node"
        pools, holdings = self.inventory.pools_of(node), self.inventory.holdings
        try:
            variant.allocator.solve(node, pools, holdings, self.steps)
        except SearchTimeout as timeout:
            return f"node {node.name}: {timeout.message}"
        except AllocationError as failure:
            return failure.message
        return ""

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """How early the chosen alternatives come.

        Claims allocated earlier count too, but only if there is anything to allocate.
        """
        if not self.pending and not self.extended:
            return np.zeros(len(rows))
        scores = np.full(len(rows), float(sum(_score(claim) for claim in self.claims)))
        served = self._served(rows)
        for bits in np.unique(served):
            some = served == bits
            answers = self.variant(int(bits)).answers
            if answers is not None:
                answers.codes(rows[some])
                scores[some] += answers.scores(rows[some])
        return scores

    def variant_at(self, row: int) -> Variant:
        """What must be allocated on one row."""
        return self.variant(int(self._served(np.array([row], np.intp))[0]))

    def variant(self, bits: int) -> Variant:
        """What must be allocated where devices serve the resources that ``bits`` names."""
        variant = self._variants.get(bits)
        if variant is None:
            names = [name for i, name in enumerate(self.extended) if bits >> i & 1]
            variant = self._variants[bits] = self._make(names)
        return variant

    def _make(self, names: list[str]) -> Variant:
        breakdown = break_down(self.pod.pod, names, self.inventory.class_for)
        special = None
        claims = self.pending
        if breakdown.requests:
            special = special_claim(self.pod.pod, self.special_uid, breakdown)
            claims = (*claims, special)
        if not claims:
            return Variant((), breakdown, None)
        try:
            allocator = self.inventory.allocator(claims)
        except AllocationError as failure:
            return Variant(claims, breakdown, special, error=failure.message)
        answers = self.inventory.tables.answers(allocator, self.steps)
        return Variant(claims, breakdown, special, allocator, answers)

    def _mask(self, number: int, claim: ResourceClaim) -> Bools:
        mask = self._masks.get(number)
        if mask is None:
            mask = self._masks[number] = reachable(claim, self.nodes)
        return mask

    def _served(self, rows: Rows) -> NDArray[np.int64]:
        """One bit a resource, set where the node has none of its own: devices must serve it."""
        served = np.zeros(len(rows), np.int64)
        allocatable = self.nodes.allocatable
        for i, name in enumerate(self.extended):
            resource = self.nodes.resources.id(name)
            own = allocatable[resource, rows] > 0 if resource < len(allocatable) else False
            served |= np.where(own, 0, 1 << i)
        return served


def reachable(claim: ResourceClaim, nodes: NodeTable) -> Bools:
    """Tell for each row whether an allocated claim can be used there; no selector: everywhere."""
    selector = claim.status.allocation.node_selector if claim.status.allocation else None
    if selector is None:
        return np.ones(nodes.size, np.bool_)
    return terms_selected(nodes, compile_selector(selector), slice(0, nodes.size))


def with_allocation(claim: ResourceClaim, allocation: object) -> ResourceClaim:
    """The claim as it will be once its allocation is written."""
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, status=status)


def _score(claim: ResourceClaim) -> int:
    """What an allocated claim adds to every node's score."""
    if claim.status.allocation is None:
        return 0
    given = {result.request for result in claim.status.allocation.devices.results}
    return sum(
        8 - i
        for request in claim.spec.devices.requests
        for i, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in given
    )
