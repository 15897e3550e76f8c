"""Why an owner fits in none of its offers on a row, in the reference's words."""

from __future__ import annotations

import numpy as np

from holdfast.columns.interner import PODS
from holdfast.framework.plugin import Change
from holdfast.plugins.reservation.owner import OwnerState, fit, room_for

NONE_MEETS = "node(s) no reservation(s) to meet the requirements"


def owner_reasons(state: OwnerState, row: int, change: Change) -> tuple[str, ...]:
    """Say what is missing: by the node, or inside the reservation."""
    here = state.on_row(row)
    if here is None:
        return (NONE_MEETS,)
    found = fit(here, change)
    if not found.shares.any():
        return _missing_on_node(here, help_=False, suffix="") or (NONE_MEETS,)
    words: list[str] = []
    if not found.by_node.any():
        words += _missing_on_node(here, help_=True, suffix=" by node")
    if not (found.shares & found.inside).any():
        words += _missing_inside(here)
    return tuple(dict.fromkeys(words)) or (NONE_MEETS,)


def _missing_on_node(state: OwnerState, *, help_: bool, suffix: str) -> tuple[str, ...]:
    nodes, columns = state.nodes, state.offers.columns
    slots = state.match.slots[columns.matchable[state.match.slots]]
    pooled = bool(columns.default[slots].any())
    words = []
    for resource, wanted in ((PODS, 1), *state.request):
        free = int(room_for(state, resource, wanted)[0])
        if help_ and resource < len(columns.remaining):
            left = columns.remaining[resource, slots]
            free += int(left.sum() if pooled and resource != PODS else left.max())
        if wanted > free:
            name = nodes.resources[resource]
            words.append("Too many pods" if resource == PODS else f"Insufficient {name}{suffix}")
    return tuple(words)


def _missing_inside(state: OwnerState) -> list[str]:
    columns, slots = state.offers.columns, state.match.slots
    words = []
    for resource, wanted in ((PODS, 1), *state.request):
        if resource >= len(columns.remaining):
            continue
        short = columns.limits[resource, slots] & (columns.remaining[resource, slots] < wanted)
        if np.any(short):
            name = state.nodes.resources[resource]
            lacks = "Too many pods" if resource == PODS else f"Insufficient {name}"
            words.append(f"Reservation(s) {lacks}")
    return words
