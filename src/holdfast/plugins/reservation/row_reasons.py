"""Why rows do not pass for an owner: what is short in its reservations, in Koordinator's texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from holdfast.capacity.reserved_resources import NOTHING_FREED, FreedCapacity, freed_capacity
from holdfast.columns.interner import PODS
from holdfast.framework.plugin import NO_CHANGE, PodChange, Rows
from holdfast.framework.reservation_options import ReservationOptions
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.owner_fit import Bools, Ints, OwnerFit, fit_owner, matchable_slots

NO_MATCH = "node(s) no reservations match reservation affinity"
TOO_MANY = "Too many pods"
NONE_MEETS = "node(s) no reservation(s) to meet the requirements"
FEW = 8
"""The reasons of up to this many rows are found one by one."""
Reasons = dict[int, tuple[str, ...]]


def none_matchable(state: OwnerState, row: int, freed: FreedCapacity = NOTHING_FREED) -> bool:
    """Tell whether no matched reservation on the row is matchable."""
    here = state.on_row(row)
    return here is None or not matchable_slots(here, freed).any()


def owner_reasons(state: OwnerState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
    """Return what is short: once for the node, then for each reservation."""
    here = state.on_row(row)
    freed = freed_capacity(state.reservations, change) if change else NOTHING_FREED
    if here is None or (state.requires_reservation and none_matchable(state, row, freed)):
        return (NO_MATCH,)
    found = fit_owner(here, freed, change)
    # Reservations of other rows may reserve GPUs in other names.
    needs = range(len(here.needs))
    if state.ignores_reservations or not found.applies.any():
        suffix = "" if state.ignores_reservations else " by node"
        alone = [n for n in needs if _short_alone(here, found, n).any()]
        short = tuple(sorted(_short(here, n, suffix) for n in alone))
        return short + _excluded_without(here, found, row, change) or (NONE_MEETS,)
    tried = found.applies.nonzero()[0].tolist()
    by_node = {_short(here, n, " by node") for i in tried for n in needs if found.reach[n][i] < 0}
    inside = [_short_inside(here, found, n, i) for i in tried for n in needs if found.lacks[n][i]]
    excluded = [text for i in tried for text in _excluded(here, found, i, change)]
    beside = _excluded_without(here, found, row, change) if state.falls_back else ()
    return (*sorted(by_node), *inside, *excluded, *beside) or (NONE_MEETS,)


class RowReasons:
    """Reasons of rejected rows that other plugins have a say in, for one owner state.

    Invariant: ``_found`` has the reasons of rows that have not changed after ``_cursor``.
    """

    __slots__ = ("_cursor", "_found", "_state")

    def __init__(self, state: OwnerState) -> None:
        self._state = state
        self._cursor = 0
        self._found: Reasons = {}

    def of(self, rows: list[int], options: ReservationOptions) -> Reasons:
        """Return the reasons of rejected rows; those of changed rows are found again."""
        state, known = self._state, self._found
        journal, size = state.nodes.journal, state.nodes.size
        if known and self._cursor != journal.seq:
            stale = journal.stale(self._cursor, size)
            for row in range(size) if isinstance(stale, slice) else stale:
                known.pop(int(row), None)
        self._cursor = journal.seq
        missing = [row for row in rows if row not in known]
        if len(missing) > FEW:
            known |= _reasons_with_options(state, options, np.array(missing, np.intp))
        else:
            known |= {row: owner_reasons(state, row) for row in missing}
        return {row: known[row] for row in rows}


def reasons_of_matched_rows(state: OwnerState, rows: Rows) -> Reasons:
    """Return the reasons of many rejected rows; the order inside a row may differ."""
    if state.named:
        # The text has the figures of the one reservation with that name.
        return {row: owner_reasons(state, row) for row in rows.tolist()}
    if state.options is not None:
        state.reasons = state.reasons or RowReasons(state)
        return state.reasons.of(rows.tolist(), state.options)
    found = _own_reasons(state, fit_owner(state), rows)
    return {row: texts or (NONE_MEETS,) for row, texts in found.items()}


def _own_reasons(state: OwnerState, fit: OwnerFit, rows: Rows) -> Reasons:
    """Return what is short on rows, and in their reservations."""
    found: Reasons = dict.fromkeys(rows.tolist(), ())
    asked = np.isin(state.match.rows, rows)
    for text, counts in _counted_reasons(state, fit):
        applies = asked & (counts > 0)
        for row, times in zip(
            state.match.rows[applies].tolist(), counts[applies].tolist(), strict=True
        ):
            found[row] += (text,) * times
    return found


def _reasons_with_options(state: OwnerState, options: ReservationOptions, rows: Rows) -> Reasons:
    """Return the reasons of rows with those of other plugins."""
    fit, match = fit_owner(state), state.match
    found = _own_reasons(state, fit, rows)
    asked = np.isin(match.rows, rows) & ~_closed(state)
    tried = fit.applies & asked[match.at]
    if not state.ignores_reservations:
        excluded = tried & fit.excluded
        texts = options.reasons(match.slots[excluded])
        for row, more in zip(match.rows[match.at[excluded]].tolist(), texts, strict=True):
            found[row] += more
    if not state.requires_reservation:
        beside = asked & ~fit.allowed_without
        if not (state.falls_back or state.ignores_reservations):
            beside &= ~np.logical_or.reduceat(tried, match.first)
        texts = options.reasons_without(match.rows[beside])
        for row, more in zip(match.rows[beside].tolist(), texts, strict=True):
            found[row] += more
    unmatched = set(rows.tolist()).difference(match.rows.tolist())
    return {
        row: texts or ((NO_MATCH,) if row in unmatched else (NONE_MEETS,))
        for row, texts in found.items()
    }


def count_reasons(state: OwnerState, rows: Rows) -> Mapping[str, int]:
    """Count the reasons of many rejected rows."""
    if state.named or state.options is not None:
        return Counter(
            text for texts in reasons_of_matched_rows(state, rows).values() for text in texts
        )
    asked = np.isin(state.match.rows, rows)
    # A row without a matched reservation is one where none matches.
    found = Counter({NO_MATCH: len(rows) - int(np.count_nonzero(asked))})
    silent = asked.copy()
    for text, counts in _counted_reasons(state, fit_owner(state)):
        found[text] += int(counts[asked].sum())
        silent &= counts == 0
    found[NONE_MEETS] += int(np.count_nonzero(silent))
    return found


def _closed(state: OwnerState) -> Bools:
    """Tell which matched rows have no matchable reservation, if the pod requires one."""
    match = state.match
    if not state.requires_reservation:
        return np.zeros(len(match.rows), np.bool_)
    matchable = state.reservations.columns.matchable[match.slots]
    closed: Bools = ~np.logical_or.reduceat(matchable, match.first)
    return closed


def _counted_reasons(state: OwnerState, found: OwnerFit) -> Iterator[tuple[str, Ints]]:
    """Yield every text, and how often it applies to each matched row."""
    match, closed = state.match, _closed(state)
    yield NO_MATCH, closed.astype(np.int64)
    any_applies = np.logical_or.reduceat(found.applies, match.first)
    alone = ~closed if state.ignores_reservations else ~any_applies & ~closed
    for n in range(len(state.needs)):
        short = alone & _short_alone(state, found, n)
        yield (
            _short(state, n, "" if state.ignores_reservations else " by node"),
            short.astype(np.int64),
        )
        if state.ignores_reservations:
            continue
        short_with_it = found.applies & (found.reach[n] < 0)
        lacking = ~closed & np.logical_or.reduceat(short_with_it, match.first)
        yield _short(state, n, " by node"), lacking.astype(np.int64)
        within = found.applies & found.lacks[n]
        counts = np.add.reduceat(within.astype(np.int64), match.first)
        yield f"Reservation(s) {_short(state, n, '')}", np.where(closed, 0, counts)


def _short_alone(state: OwnerState, found: OwnerFit, need: int) -> Bools:
    """Tell which matched rows are short for a pod that uses no reservation.

    A pod that ignores reservations may use what they hold as well.
    """
    short: Bools = found.spare[need] < 0
    if state.ignores_reservations:
        match = state.match
        helps = state.reservations.columns.matchable[match.slots] & (found.reach[need] >= 0)
        short &= ~np.logical_or.reduceat(helps, match.first)
    return short


def _short(state: OwnerState, need: int, suffix: str) -> str:
    resource = state.needs[need][0]
    return (
        TOO_MANY if resource == PODS else f"Insufficient {state.nodes.resources[resource]}{suffix}"
    )


def _short_inside(state: OwnerState, found: OwnerFit, need: int, i: int) -> str:
    texts = f"Reservation(s) {_short(state, need, '')}"
    if not state.named:
        return texts
    resource, wanted = state.needs[need]
    info = state.reservations.at(int(state.match.slots[i]))
    capacity = info.reserved.get(resource, 0) - info.inner.get(resource, 0)
    used = capacity - int(found.left[need][i])
    return f"{texts}, requested: {wanted}, used: {used}, capacity: {capacity}"


def _excluded(state: OwnerState, found: OwnerFit, i: int, change: PodChange) -> tuple[str, ...]:
    """Return why other plugins exclude a reservation, by its position in the match."""
    if state.options is None or not found.excluded[i]:
        return ()
    return state.options.reasons(state.match.slots[i : i + 1], change)[0]


def _excluded_without(
    state: OwnerState, found: OwnerFit, row: int, change: PodChange
) -> tuple[str, ...]:
    """Return why other plugins exclude the only row if no reservation is used."""
    if state.options is None or state.requires_reservation or found.allowed_without[0]:
        return ()
    return state.options.reasons_without(np.array([row], np.intp), change)[0]
