"""What drivers said about each claim and node, as JSON data for ``holdfast why``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.classic_dra.claim_state import state_of
from holdfast.classic_dra.pod_claims import PodClaim
from holdfast.framework.plugin import Rows
from holdfast.plugins.classic_dynamic_resources.state import MESSAGES, ClassicState


def explain_rows(state: ClassicState, rows: Rows) -> Mapping[str, Any]:
    """Return the claims, the negotiation, and for each rejected node what each claim says."""
    found = state.own_negotiation
    return {
        "claims": [_claim(state, of_pod) for of_pod in state.claims],
        "negotiation": None
        if found is None
        else {
            "selectedNode": found.spec.selected_node or None,
            "potentialNodes": list(found.spec.potential_nodes),
        },
        "nodes": {state.nodes.names[row]: _node(state, row) for row in rows.tolist()},
    }


def _claim(state: ClassicState, of_pod: PodClaim) -> dict[str, Any]:
    claim = of_pod.claim
    known = state.ledger.classes.get(claim.spec.resource_class_name)
    driver = claim.status.driver_name or ("" if known is None else known.driver_name)
    answer = state.unsuitable_nodes.get(of_pod.entry.name)
    return {
        "name": of_pod.entry.name,
        "claim": claim.name,
        "state": state_of(claim).value,
        "class": claim.spec.resource_class_name,
        "driver": driver or None,
        "consumers": [consumer.name for consumer in claim.status.reserved_for],
        "answered": answer is not None,
        "unsuitableNodes": list(answer or ()),
    }


def _node(state: ClassicState, row: int) -> dict[str, str]:
    """Return by entry why a claim keeps the pod from a node."""
    return {
        of_pod.entry.name: MESSAGES[code]
        for of_pod in state.claims
        if (code := state.code_of(of_pod, row))
    }
