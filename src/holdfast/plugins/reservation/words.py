"""Why an owner fits in none of its offers on a row, in the reference's words."""

from __future__ import annotations

from holdfast.columns.interner import PODS
from holdfast.framework.plugin import NONE, Change
from holdfast.plugins.reservation.owner import OwnerState, Room, fit, rooms

NO_MATCH = "node(s) no reservations match reservation affinity"
NONE_MEETS = "node(s) no reservation(s) to meet the requirements"


def none_matchable(state: OwnerState, row: int) -> bool:
    """Whether every offer on the row that would do is taken."""
    here = state.on_row(row)
    return here is None or not state.offers.columns.matchable[here.match.slots].any()


def owner_reasons(state: OwnerState, row: int, change: Change = NONE) -> tuple[str, ...]:
    """Say what is missing: by the node, once; then inside each reservation."""
    here = state.on_row(row)
    if here is None or (state.must and none_matchable(state, row)):
        return (NO_MATCH,)
    found, there = fit(here, change), list(rooms(here, change))
    if state.ignoring or not found.shares.any():
        suffix = "" if state.ignoring else " by node"
        alone = [room for room in there if max(room.free[0], *_lent(here, room)) < room.wanted]
        return tuple(sorted(_short(here, room, suffix) for room in alone)) or (NONE_MEETS,)
    tried = found.shares.nonzero()[0].tolist()
    by_node = {
        _short(here, room, " by node")
        for i in tried
        for room in there
        if room.helped[i] < room.wanted
    }
    inside = [
        _short_inside(here, room, i)
        for i in tried
        for room in there
        if room.limits[i] and room.left[i] < room.wanted
    ]
    return (*sorted(by_node), *inside) or (NONE_MEETS,)


def _lent(state: OwnerState, room: Room) -> list[int]:
    """What an ignoring pod could have with the help of all that is held."""
    matchable = state.offers.columns.matchable[state.match.slots]
    return [int(helped) for helped in room.helped[matchable]] if state.ignoring else [0]


def _short(state: OwnerState, room: Room, suffix: str) -> str:
    if room.resource == PODS:
        return "Too many pods"
    return f"Insufficient {state.nodes.resources[room.resource]}{suffix}"


def _short_inside(state: OwnerState, room: Room, i: int) -> str:
    words = f"Reservation(s) {_short(state, room, '')}"
    if not state.named:
        return words
    offer = state.offers.at(int(state.match.slots[i]))
    capacity = offer.reserved.get(room.resource, 0) - offer.inner.get(room.resource, 0)
    used = capacity - int(room.left[i])
    return f"{words}, requested: {room.wanted}, used: {used}, capacity: {capacity}"
