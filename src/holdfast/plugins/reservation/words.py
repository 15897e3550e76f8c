"""Why an owner fits in none of its offers on a row, in the reference's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from holdfast.capacity.given import NOTHING, given_back
from holdfast.columns.interner import PODS
from holdfast.framework.plugin import NONE, Change, Rows
from holdfast.plugins.reservation.owner import Ints, OwnerState, Room, fit, rooms

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
    back = given_back(state.offers, change) if change else NOTHING
    found, there = fit(here, back), list(rooms(here, back))
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


def words_by_row(state: OwnerState, rows: Rows) -> dict[int, tuple[str, ...]]:
    """The same for many rows, all of them rejected; the order inside a row may differ."""
    if state.named:
        # Each offer has its own figures; there is one of that name.
        return {row: owner_reasons(state, row) for row in rows.tolist()}
    told: dict[int, tuple[str, ...]] = dict.fromkeys(rows.tolist(), ())
    asked = np.isin(state.match.rows, rows)
    for word, counts in _counted_words(state):
        said = asked & (counts > 0)
        for row, times in zip(state.match.rows[said].tolist(), counts[said].tolist(), strict=True):
            told[row] += (word,) * times
    return {row: words or (NONE_MEETS,) for row, words in told.items()}


def tallied(state: OwnerState, rows: Rows) -> Mapping[str, int]:
    """Count the reasons of many rejected rows, without listing them."""
    if state.named:
        return Counter(word for words in words_by_row(state, rows).values() for word in words)
    asked = np.isin(state.match.rows, rows)
    # A row without a matched offer is one where none matches.
    found = Counter({NO_MATCH: len(rows) - int(np.count_nonzero(asked))})
    silent = asked.copy()
    for word, counts in _counted_words(state):
        found[word] += int(counts[asked].sum())
        silent &= counts == 0
    found[NONE_MEETS] += int(np.count_nonzero(silent))
    return found


def _counted_words(state: OwnerState) -> Iterator[tuple[str, Ints]]:
    """Every word there is to say, and how often of each matched row."""
    match, found = state.match, fit(state)
    matchable = state.offers.columns.matchable[match.slots]
    open_ = np.logical_or.reduceat(matchable, match.first)
    closed = ~open_ if state.must else np.zeros(len(match.rows), np.bool_)
    yield NO_MATCH, closed.astype(np.int64)
    sharing = np.logical_or.reduceat(found.shares, match.first)
    alone = ~closed if state.ignoring else ~sharing & ~closed
    for room in rooms(state):
        lent = np.where(matchable & state.ignoring, room.helped, 0)
        have = np.maximum(room.free, np.maximum.reduceat(lent, match.first))
        short = alone & (have < room.wanted)
        yield _short(state, room, "" if state.ignoring else " by node"), short.astype(np.int64)
        if state.ignoring:
            continue
        helpless = found.shares & (room.helped < room.wanted)
        lacking = ~closed & np.logical_or.reduceat(helpless, match.first)
        yield _short(state, room, " by node"), lacking.astype(np.int64)
        within = found.shares & room.limits & (room.left < room.wanted)
        counts = np.add.reduceat(within.astype(np.int64), match.first)
        yield f"Reservation(s) {_short(state, room, '')}", np.where(closed, 0, counts)


def _lent(state: OwnerState, room: Room) -> list[int]:
    """What an ignoring pod could have with the help of all that is held."""
    matchable = state.offers.columns.matchable[state.match.slots]
    return [0, *room.helped[matchable].tolist()] if state.ignoring else [0]


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
