"""The common part of plans for classic claims: the nodes that can use the claims, and undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.classic_dra.names import MAX_CONSUMERS
from holdfast.api.classic_dra.types import ClassicClaim, PodScheduling
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ApiCalls,
    Code,
    NodeFilter,
    Placement,
    PodChange,
    PreemptionRules,
    Reject,
    Reserver,
    Rows,
    Verdicts,
)
from holdfast.scheduling.plugins.classic_dynamic_resources.claim_writes import ClassicWrites
from holdfast.state.classic_dra import reasons
from holdfast.state.classic_dra.claim_state import (
    ClaimState,
    has_room_for,
    is_shared,
    may_be_released,
    state_of,
)
from holdfast.state.classic_dra.explanation import explain_claims
from holdfast.state.classic_dra.ledger import ClassicLedger, is_owned
from holdfast.state.classic_dra.pod_claims import ClassicPodClaim
from holdfast.state.classic_dra.selector_masks import Bools, rows_named
from holdfast.state.columns.consumers_in_flight import too_many_consumers
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

RETRY_SECONDS = 1.0
"""When a pod that waits for a reservation in flight is tried again."""
FITS, EXCLUDED_BY_CLASS, UNSUITABLE, UNAVAILABLE = range(4)
MESSAGES = {
    EXCLUDED_BY_CLASS: reasons.EXCLUDED_BY_CLASS,
    UNSUITABLE: reasons.UNSUITABLE,
    UNAVAILABLE: reasons.UNAVAILABLE,
}


@dataclass(eq=False)
class ClassicClaims(NodeFilter, PreemptionRules, Reserver):
    """Filter nodes by the claims of a pod, in one attempt.

    ``negotiation`` is the PodScheduling of the pod's name.
    """

    pod: PodInfo
    ledger: ClassicLedger
    nodes: NodeTable
    claims: tuple[ClassicPodClaim, ...]
    negotiation: PodScheduling | None
    in_flight: list[ClassicClaim] = field(default_factory=list)
    """Claims that are reserved in flight."""

    @property
    def pending(self) -> list[ClassicPodClaim]:
        """The claims that drivers still have to allocate."""
        return [of_pod for of_pod in self.claims if of_pod.is_pending]

    @property
    def writes(self) -> ClassicWrites:
        """The writes for the pod."""
        return ClassicWrites(self.pod.pod, self.ledger)

    @property
    def own_negotiation(self) -> PodScheduling | None:
        """The PodScheduling, unless it belongs to an earlier pod of the same name."""
        negotiation = self.negotiation
        return (
            negotiation if negotiation is not None and is_owned(negotiation, self.pod.pod) else None
        )

    @cached_property
    def unsuitable_nodes(self) -> Mapping[str, tuple[str, ...]]:
        """What drivers answered, by name of the entry; an empty list is an answer, too."""
        negotiation = self.own_negotiation
        answers = () if negotiation is None else negotiation.status.claims
        return {answer.pod_resource_claim_name: answer.unsuitable_nodes for answer in answers}

    @cached_property
    def codes(self) -> NDArray[np.int8]:
        """A code for each row; a claim that cannot be allocated comes before one that is elsewhere.

        Only rows that are otherwise suitable show that releasing a claim may help.
        """
        codes = np.zeros(self.nodes.size, np.int8)
        for of_pod in self.pending:
            excluded = ~self.suitable_for_class(of_pod.claim)
            codes[(codes == FITS) & excluded] = EXCLUDED_BY_CLASS
            names = self.unsuitable_nodes.get(of_pod.entry.name, ())
            codes[(codes == FITS) & rows_named(self.nodes, names)] = UNSUITABLE
        for of_pod in self.claims:
            if of_pod.claim.is_allocated:
                codes[(codes == FITS) & ~self.available(of_pod.claim)] = UNAVAILABLE
        return codes

    def suitable_for_class(self, claim: ClassicClaim) -> Bools:
        """Return the rows on which claims of the claim's class can be allocated."""
        resource_class = self.ledger.classes.get(claim.spec.resource_class_name)
        assert resource_class is not None, "PreFilter checks that the class exists"
        return self.ledger.selector_masks.rows_of(resource_class.suitable_nodes)

    def available(self, claim: ClassicClaim) -> Bools:
        """Return the rows that can use an allocated claim."""
        allocation = claim.status.allocation
        assert allocation is not None, "the claim is allocated"
        return self.ledger.selector_masks.rows_of(allocation.available_on_nodes)

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes where a claim is not available, or cannot be allocated.

        Preemption does not help where a driver must allocate it.
        """
        verdicts: Verdicts = np.where(self.codes[rows] == FITS, Code.PASS, Code.UNRESOLVABLE)
        return verdicts.astype(np.int8)

    def depends_on_pods(self) -> bool:
        """Return False: evicting pods allocates nothing."""
        return False

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why the row is rejected."""
        return (MESSAGES.get(int(self.codes[row]), ""),)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the messages over rejected rows."""
        counts = Counter(self.codes[rows].tolist())
        return {MESSAGES[code]: count for code, count in counts.items() if code in MESSAGES}

    def explain(self, rows: Rows) -> Mapping[str, Any]:
        """Return the claims, the negotiation, and for each rejected node what each claim says."""
        nodes = {self.nodes.names[row]: self._messages(row) for row in rows.tolist()}
        return {**explain_claims(self.ledger, self.pod.pod), "nodes": nodes}

    def _messages(self, row: int) -> dict[str, str]:
        """Return by entry why a claim keeps the pod from a node."""
        codes = {of_pod.entry.name: self._code_of(of_pod, row) for of_pod in self.claims}
        return {entry: MESSAGES[code] for entry, code in codes.items() if code != FITS}

    def _code_of(self, of_pod: ClassicPodClaim, row: int) -> int:
        """Return the code of one claim for a row."""
        claim = of_pod.claim
        if claim.is_allocated:
            return FITS if self.available(claim)[row] else UNAVAILABLE
        if not self.suitable_for_class(claim)[row]:
            return EXCLUDED_BY_CLASS
        listed = self.nodes.names[row] in self.unsuitable_nodes.get(of_pod.entry.name, ())
        return UNSUITABLE if listed else FITS

    def releasable(self, rows: Rows) -> list[ClassicClaim]:
        """Return the claims that only this pod may use and that make one of these rows unusable.

        If a driver has no room for another claim, the pod also gives up what was allocated for it
        alone: two pods that each have what the other needs would wait for ever.
        """
        elsewhere = rows[self.codes[rows] == UNAVAILABLE]
        no_room = bool((self.codes[rows] == UNSUITABLE).any())
        by_uid = {
            of_pod.claim.uid: of_pod.claim
            for of_pod in self.claims
            if may_be_released(of_pod.claim, self.pod.uid)
            and (
                (no_room and of_pod.entry.owned)
                or not self.available(of_pod.claim)[elsewhere].all()
            )
        }
        return list(by_uid.values())

    def unreserve(self, placement: Placement) -> None:
        """End the reservations in flight."""
        while self.in_flight:
            self.ledger.remove_in_flight(self.in_flight.pop(), self.pod.uid)

    def undo_pre_bind(self, placement: Placement) -> ApiCalls:
        """Remove the pod from the consumers of its claims."""
        claims = {of_pod.claim.uid: of_pod.claim for of_pod in self.claims}
        yield from self.writes.unreserve(claims.values())

    def post_bind(self, placement: Placement) -> ApiCalls:
        """Delete the PodScheduling: drivers need not look at the pod any more."""
        yield from self.writes.end_negotiation()


def in_use(claim: ClassicClaim) -> str:
    """Return the message that its consumers use up a claim; with their number if they share it."""
    return too_many_consumers(claim.key, MAX_CONSUMERS) if is_shared(claim) else reasons.IN_USE


def reason_to_wait(
    claims: Iterable[ClassicPodClaim], ledger: ClassicLedger, uid: str, now: float
) -> Reject | None:
    """Return why no node is suitable for the pod until a claim or class changes, or None."""
    for of_pod in claims:
        claim, retry_at = of_pod.claim, None
        name = claim.spec.resource_class_name
        if not claim.is_allocated and claim.is_immediate:
            reason = reasons.UNALLOCATED_IMMEDIATE
        elif state_of(claim) is ClaimState.RELEASING:
            reason = reasons.MUST_BE_REALLOCATED
        elif claim.is_allocated and not ledger.is_free_for(claim, uid):
            reason = in_use(claim)
            if has_room_for(claim, uid):
                # A reservation in flight that fails is no event.
                retry_at = now + RETRY_SECONDS
        elif not claim.is_allocated and ledger.classes.get(name) is None:
            reason = f'resourceclass "{name}" of resourceclaim "{claim.name}" does not exist'
        else:
            continue
        return Reject(Code.UNRESOLVABLE, (reason,), retry_at)
    return None
