"""Decide what a driver does with a claim and answers in a PodScheduling: pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from holdfast.api.classic_dra.names import MAX_NODES
from holdfast.api.classic_dra.types import (
    ClassicClaim,
    ClassicClaimStatus,
    PodScheduling,
    PodSchedulingSpec,
)
from holdfast.state.classic_dra.claim_state import is_protected


class ClaimStep(Enum):
    """What a claim needs from its driver, apart from the negotiation about pods."""

    NOTHING = "nothing"
    ALLOCATE = "allocate at once"
    DEALLOCATE = "deallocate"
    ABORT = "undo an allocation that was begun, unless it goes on"


def claim_step(claim: ClassicClaim, driver: str) -> ClaimStep:
    """Return what a claim needs; the finalizer proves that it is the driver's."""
    status = claim.status
    ours = is_protected(claim, driver)
    if is_foreign(claim, driver):
        return ClaimStep.DEALLOCATE if ours else ClaimStep.NOTHING
    if status.reserved_for:
        return ClaimStep.NOTHING
    if claim.is_deleted or status.deallocation_requested:
        return ClaimStep.DEALLOCATE if ours else ClaimStep.NOTHING
    if claim.is_allocated:
        return ClaimStep.NOTHING
    if claim.is_immediate:
        return ClaimStep.ALLOCATE
    return ClaimStep.ABORT if ours else ClaimStep.NOTHING


def is_foreign(claim: ClassicClaim, driver: str) -> bool:
    """Return whether another driver has allocated a claim: its class was given to that driver."""
    return claim.is_allocated and claim.status.driver_name not in ("", driver)


def own_part(claim: ClassicClaim, driver: str) -> ClassicClaim:
    """Return a claim without another driver's allocation: only with what this driver had begun."""
    if not is_foreign(claim, driver):
        return claim
    return msgspec.structs.replace(claim, status=ClassicClaimStatus())


def nodes_to_check(scheduling: PodScheduling, entries: Collection[str]) -> list[str]:
    """Return the nodes to answer about, sorted: those asked about, and those answered before."""
    nodes = set(scheduling.spec.potential_nodes)
    if scheduling.spec.selected_node:
        nodes.add(scheduling.spec.selected_node)
    for claim in scheduling.status.claims:
        if claim.pod_resource_claim_name in entries:
            nodes.update(claim.unsuitable_nodes)
    return sorted(nodes)


def open_question(scheduling: PodScheduling, entries: Collection[str]) -> PodSchedulingSpec:
    """Return the scheduler's question, without potential nodes that other drivers have rejected.

    A driver that prefers one of those would reject all others, and the pod would wait for ever.
    """
    rejected = {
        node
        for claim in scheduling.status.claims
        if claim.pod_resource_claim_name not in entries
        for node in claim.unsuitable_nodes
    }
    spec = scheduling.spec
    nodes = tuple(node for node in spec.potential_nodes if node not in rejected)
    return msgspec.structs.replace(spec, potential_nodes=nodes)


def answer(nodes: Collection[str], selected: str) -> list[str]:
    """Return unsuitable nodes for the API: sorted, at most 256, the selected node among them.

    >>> answer({"b", "a"}, "b")
    ['a', 'b']
    """
    names = sorted(set(nodes))
    if len(names) <= MAX_NODES:
        return names
    kept = names[:MAX_NODES]
    return kept if selected not in names or selected in kept else [*kept[:-1], selected]


def changed_claims(
    scheduling: PodScheduling, answers: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]] | None:
    """Return ``status.claims`` with the answers by entry, or None if it already has them.

    Entries of other drivers stay as they are.
    """
    nodes_by_entry = {
        one.pod_resource_claim_name: list(one.unsuitable_nodes) for one in scheduling.status.claims
    }
    new = nodes_by_entry | {name: list(nodes) for name, nodes in answers.items()}
    if new == nodes_by_entry:
        return None
    return [{"podResourceClaimName": name, "unsuitableNodes": new[name]} for name in new]
