"""The plan for one pod: filter and score nodes, allocate and bind its claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from holdfast.api.devices import ResourceClaim
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ApiCalls,
    Code,
    NodeFilter,
    NodeScorer,
    Placement,
    PodChange,
    PreBindCalls,
    PreemptionRules,
    RawScores,
    Reject,
    Reserver,
    Rows,
    Verdicts,
)
from holdfast.scheduling.plugins.dynamic_resources.binding_conditions import wait_until_prepared
from holdfast.scheduling.plugins.dynamic_resources.claim_writes import ClaimWrites
from holdfast.scheduling.plugins.dynamic_resources.device_search import (
    CANNOT_ALLOCATE,
    MESSAGES,
    PodClaimsSearch,
)
from holdfast.scheduling.plugins.dynamic_resources.explanation import explain_rows
from holdfast.scheduling.plugins.dynamic_resources.nominated_claims import can_allocate_beside
from holdfast.state.devices.allocation_cache import ERROR, NOT_SEARCHED
from holdfast.state.devices.errors import AllocationError, NotBindable
from holdfast.state.devices.requests import alternative_score
from holdfast.state.devices.row_table import NO_ROW

RETRY_REFUSED_SECONDS = 60.0
"""When a pod is tried again after a quota, or stored consumers, prevented its binding: an event may
have occurred before it began to wait for one."""
_VERDICTS = np.array(
    [Code.PASS, Code.UNRESOLVABLE, Code.UNRESOLVABLE, Code.ERROR, Code.ERROR, Code.UNRESOLVABLE,
     Code.UNRESOLVABLE, Code.UNRESOLVABLE], np.int8,
)  # fmt: skip
"""By code of ``PodClaimsSearch``."""


class ClaimAllocation(PodClaimsSearch, NodeFilter, NodeScorer, PreemptionRules, Reserver):
    """Allocate a pod's claims: on which nodes that is possible, and on the chosen node.

    Only a pod with alternatives in its claims ``scores`` nodes. With ``respects_nominated``, pods
    that are nominated to a node must get their devices, too.
    """

    scores: bool = True
    respects_nominated: bool = True
    writes: ClaimWrites | None = None
    """The allocations of this attempt and their writes, from Reserve on."""
    _failed_row: int = NO_ROW
    _not_searched: frozenset[int] = frozenset()
    """Rows that fail because the search on ``_failed_row`` failed."""

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return a verdict per row; added pods must get their devices, too.

        Removed pods do not matter: their claims are deallocated later.
        """
        verdicts = self._verdicts(rows)
        if not change.added or not self.respects_nominated:
            return verdicts
        allocated_devices = self.inventory.allocated_devices
        for position, row in change.positions_in(rows):
            nominated = change.added.get(row)
            if nominated and not verdicts[position]:
                fits = can_allocate_beside(self, row, nominated, allocated_devices)
                verdicts[position] = Code.PASS if fits else Code.UNRESOLVABLE
        return verdicts

    def filter_each(self, rows: Rows) -> Verdicts:
        """Return the same, but an error on one row does not end the search on the others."""
        return self._verdicts(rows, all_rows=True)

    def _verdicts(self, rows: AnyRows, *, all_rows: bool = False) -> Verdicts:
        assert isinstance(rows, np.ndarray), "the plugin does not accept slices"
        codes = self.codes(rows, all_rows=all_rows)
        if not np.count_nonzero(codes):
            return codes  # FITS is PASS
        is_error = codes == ERROR
        if np.count_nonzero(is_error):
            self._failed_row = int(rows[is_error][0])
            self._not_searched = frozenset(rows[codes == NOT_SEARCHED].tolist())
        verdicts: Verdicts = _VERDICTS.take(codes)
        return verdicts

    def depends_on_pods(self) -> bool:
        """Return False: evicting pods frees no devices until their claims are deallocated."""
        return False

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return upstream's message for why the row is rejected."""
        if row in self._not_searched:
            message = self.error_on(self._failed_row)
        else:
            code = int(self.codes(np.array([row], np.intp))[0])
            message = self.error_on(row) if code == ERROR else MESSAGES.get(code, "")
        return (message or CANNOT_ALLOCATE,)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the messages over rows; rows with an error are searched one by one."""
        codes = self.codes(rows)
        counts: Counter[str] = Counter()
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            if int(code) in MESSAGES:
                counts[MESSAGES[int(code)]] += int(count)
        counts.update(self.error_on(int(row)) for row in rows[codes == ERROR])
        return counts

    def explain(self, rows: Rows) -> Mapping[str, Any]:
        """Return the obstacles to devices on rejected rows, as JSON data."""
        return explain_rows(self, rows)

    def score(self, rows: AnyRows) -> RawScores:
        """Prefer nodes where earlier subrequests can be allocated.

        Claims that are allocated already count too, but only if another claim is not.
        """
        assert isinstance(rows, np.ndarray), "the plugin does not accept slices"
        if not self.pending and not self.extended:
            return np.zeros(len(rows))
        scores = np.full(len(rows), float(sum(score_of_claim(claim) for claim in self.claims)))
        for bits, some in self.by_device_served(rows):
            results = self.unallocated_for(bits).results
            if results is not None:
                results.codes(rows[some])
                scores[some] += results.scores(rows[some])
        return scores

    def normalize_score(self, rows: AnyRows, raw: RawScores) -> RawScores:
        """Scale the scores so that the highest is 100."""
        highest = raw.max(initial=0)
        return np.floor(raw * 100 / highest) if highest > 0 else np.zeros(len(raw))

    def reserve(self, placement: Placement) -> Reject | None:
        """Allocate devices on the chosen node; the allocations are in flight until stored."""
        pod, inventory, known = self.pod, self.inventory, self.inventory.claims
        unallocated = self.unallocated_on(placement.row)
        self.writes = writes = ClaimWrites(pod, inventory, self.claims, unallocated, self.now)
        for claim in self.claims:
            known.consumers_in_flight.add(claim.uid, pod.pod)
        if unallocated.allocator is None:
            return None
        try:
            solution = unallocated.solve(placement.row, inventory, self.nodes, self.limits.steps)
        except AllocationError as failure:
            return Reject(Code.ERROR, (failure.message,))
        if solution is None:
            return Reject(Code.UNRESOLVABLE, (CANNOT_ALLOCATE,))
        allocations = unallocated.allocator.write(solution, placement.node)
        for claim, allocation in zip(unallocated.claims, allocations, strict=True):
            allocated = with_allocation(claim, allocation)
            writes.in_flight.append(allocated)
            known.add_in_flight(allocated)
        return None

    def unreserve(self, placement: Placement) -> None:
        """End the allocations in flight, except for claims that another attempt allocated since."""
        known = self.inventory.claims
        for claim in self.claims:
            known.consumers_in_flight.remove(claim.uid, self.pod.uid)
        while self.writes is not None and self.writes.in_flight:
            mine = self.writes.in_flight.pop()
            # Undoing may be slow, and the next pod of the claim may have devices in flight by then.
            # When those were released here, a third pod got them as well.
            if known.in_flight(mine.uid) is mine:
                known.remove_in_flight(mine.uid)

    def writes_nominated_node(self, placement: Placement) -> bool:
        """Return whether the extended resource claim is the only one: its patch writes the node."""
        writes = self.writes
        extended = writes is not None and writes.unallocated.extended_claim is not None
        return extended and not self.claims

    def pre_bind(self, placement: Placement) -> PreBindCalls:
        """Write the allocations, reserve the claims and wait until the devices are prepared."""
        writes, inventory = self.writes, self.inventory
        assert writes is not None, "Reserve comes first"
        try:
            yield from writes.bind_claims(placement.node)
        except NotBindable as refused:
            retry_at = self.now + RETRY_REFUSED_SECONDS
            return Reject(Code.UNRESOLVABLE, (refused.message,), retry_at)
        if inventory.features.binding_conditions:
            reserved, timeout = writes.reserved_claims(), self.limits.binding_seconds
            yield from wait_until_prepared(inventory.claims, reserved, placement, timeout)
        return None

    def undo_pre_bind(self, placement: Placement) -> ApiCalls:
        """Remove the reservations for the pod and delete the extended resource claim."""
        if self.writes is not None:
            yield from self.writes.undo(pod_is_deleted=placement.pod_is_deleted)

    def unused_claims(self) -> list[ResourceClaim]:
        """Return the claims that no node can use and that only this pod may use."""
        claims = (self.claims[number] for number in sorted(self.unavailable))
        return [c for c in claims if {user.uid for user in c.status.reserved_for} <= {self.pod.uid}]


def with_allocation(claim: ResourceClaim, allocation: object) -> ResourceClaim:
    """Return the claim with this allocation."""
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, status=status)


def score_of_claim(claim: ResourceClaim) -> int:
    """Return what an allocated claim adds to the score of every node."""
    allocated = {result.request for result in claim.results}
    return sum(
        alternative_score(i)
        for request in claim.spec.devices.requests
        for i, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in allocated
    )
