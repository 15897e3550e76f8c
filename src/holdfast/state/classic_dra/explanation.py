"""Explain what a pod's classic claims wait for, as JSON data for ``holdfast why``."""

from __future__ import annotations

from holdfast.api.classic_dra.claims import ClassicEntry, classic_entries
from holdfast.api.classic_dra.types import ClassicClaim, PodScheduling
from holdfast.api.decode import JsonObject
from holdfast.api.pod import Pod
from holdfast.state.classic_dra.claim_state import ClaimState, state_of
from holdfast.state.classic_dra.ledger import ClassicLedger, is_owned
from holdfast.state.classic_dra.pod_claims import unusable

MISSING = "Missing"
SCHEDULER = "scheduler"
CONTROLLER = "classic-resourceclaim-controller"


def explain_claims(ledger: ClassicLedger, pod: Pod) -> JsonObject:
    """Return the negotiation, and each claim with its state and the component that has to act next.

    Raises InvalidEntries for an annotation that cannot be read.
    """
    negotiation = ledger.negotiation_of(pod)
    own = negotiation if negotiation is not None and is_owned(negotiation, pod) else None
    return {
        "claims": [_claim(ledger, pod, entry, own) for entry in classic_entries(pod)],
        "negotiation": None
        if own is None
        else {
            "selectedNode": own.spec.selected_node or None,
            "potentialNodes": list(own.spec.potential_nodes),
        },
    }


def _claim(
    ledger: ClassicLedger, pod: Pod, entry: ClassicEntry, negotiation: PodScheduling | None
) -> JsonObject:
    claim = ledger.claims.get(f"{pod.namespace}/{entry.claim_name}")
    asked = entry.template.spec.resource_class_name if entry.template else ""
    class_name = asked if claim is None else claim.spec.resource_class_name
    known = ledger.classes.get(class_name)
    driver = known.driver_name if known is not None else ""
    if claim is not None:
        driver = claim.status.driver_name or driver
    answers = () if negotiation is None else negotiation.status.claims
    answer = next((a for a in answers if a.pod_resource_claim_name == entry.name), None)
    unsuitable = [] if answer is None else list(answer.unsuitable_nodes)
    owed = _next_step(pod, entry, claim, negotiation, None if answer is None else unsuitable)
    if class_name and known is None and (claim is None or not claim.is_allocated):
        owed = ("", f"resource class {class_name} does not exist")
    by, what = owed
    return {
        "name": entry.name,
        "claim": entry.claim_name,
        "state": MISSING if claim is None else state_of(claim).value,
        "class": class_name or None,
        "driver": driver or None,
        "immediate": claim is not None and claim.is_immediate,
        "shared": _is_shared(claim),
        "consumers": []
        if claim is None
        else [consumer.name for consumer in claim.status.reserved_for],
        "answered": answer is not None,
        "unsuitableNodes": unsuitable,
        "owedBy": (driver or None) if by == "driver" else by or None,
        "owed": what or None,
    }


def _is_shared(claim: ClassicClaim | None) -> bool:
    allocation = None if claim is None else claim.status.allocation
    return allocation is not None and allocation.shared_resource


def _next_step(
    pod: Pod,
    entry: ClassicEntry,
    claim: ClassicClaim | None,
    negotiation: PodScheduling | None,
    unsuitable: list[str] | None,
) -> tuple[str, str]:
    """Return the component that has to act next, and what is missing; both "" if nothing is."""
    if claim is None:
        by = CONTROLLER if entry.owned else ""
        return by, "the claim" if by else "the claim does not exist: create it"
    state = state_of(claim)
    if state is ClaimState.DELETING:
        return ("driver" if claim.metadata.finalizers else ""), "the end of its deletion"
    if reason := unusable(pod, entry, claim):
        return "", reason
    if state is ClaimState.RELEASING:
        return "driver", "the deallocation"
    if claim.is_allocated:
        return "", ""
    if claim.is_immediate:
        return "driver", "the allocation, for which no pod is needed"
    return _next_in_negotiation(negotiation, unsuitable)


def _next_in_negotiation(
    negotiation: PodScheduling | None, unsuitable: list[str] | None
) -> tuple[str, str]:
    """Return the component that has to act next in a negotiation, and what is missing."""
    if negotiation is None:
        return SCHEDULER, "a question to the driver"
    node = negotiation.spec.selected_node
    if node and node not in (unsuitable or ()):
        return "driver", f"the allocation on {node}"
    if unsuitable is None:
        count = len(negotiation.spec.potential_nodes)
        return "driver", f"an answer on which of {count} nodes it cannot allocate"
    if set(unsuitable) >= set(negotiation.spec.potential_nodes):
        return "driver", "a node on which it can allocate"
    return SCHEDULER, "the choice of a node"
