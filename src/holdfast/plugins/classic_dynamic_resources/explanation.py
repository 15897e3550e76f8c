"""What drivers said about each claim and node, as JSON data for ``holdfast why``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.classic_dra.explanation import explain_claims
from holdfast.framework.plugin import Rows
from holdfast.plugins.classic_dynamic_resources.state import MESSAGES, ClassicState


def explain_rows(state: ClassicState, rows: Rows) -> Mapping[str, Any]:
    """Return the claims, the negotiation, and for each rejected node what each claim says."""
    nodes = {state.nodes.names[row]: _node(state, row) for row in rows.tolist()}
    return {**explain_claims(state.ledger, state.pod.pod), "nodes": nodes}


def _node(state: ClassicState, row: int) -> dict[str, str]:
    """Return by entry why a claim keeps the pod from a node."""
    return {
        of_pod.entry.name: MESSAGES[code]
        for of_pod in state.claims
        if (code := state.code_of(of_pod, row))
    }
