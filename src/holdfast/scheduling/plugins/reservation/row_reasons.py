"""Explain why rows do not pass for an owner: the shortages, in Koordinator's texts.

There is a way for one row and a way for many, because a rejected owner needs the reasons of all
nodes in each attempt. An owner of 1,000 reservations of CPUs and GPUs that fits in none cost 1.6 s
of CPU time when each row was evaluated alone. If all rows are computed at once, the first attempt
costs 130 ms. Reasons of rows that do not change are kept, so the next attempt costs 8 ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from holdfast.scheduling.framework.plugin import NO_CHANGE, PodChange, Rows
from holdfast.scheduling.framework.reservation_options import ReservationOptions
from holdfast.scheduling.plugins.reservation.owner import OwnerRequest
from holdfast.scheduling.plugins.reservation.owner_fit import (
    Bools,
    Ints,
    OwnerFit,
    fit_owner,
    matchable_slots,
)
from holdfast.state.columns.interner import PODS
from holdfast.state.reservations.reserved_resources import (
    NOTHING_FREED,
    FreedCapacity,
    freed_capacity,
)

NO_MATCH = "node(s) no reservations match reservation affinity"
TOO_MANY = "Too many pods"
NONE_MEETS = "node(s) no reservation(s) to meet the requirements"
FEW = 8
"""The reasons of up to this many rows are found one by one."""
Reasons = dict[int, tuple[str, ...]]


def none_matchable(owner: OwnerRequest, row: int, freed: FreedCapacity = NOTHING_FREED) -> bool:
    """Tell whether no matched reservation on the row is matchable."""
    here = owner.on_row(row)
    return here is None or not matchable_slots(here, freed).any()


def owner_reasons(owner: OwnerRequest, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
    """Return what is short: once for the node, then for each reservation."""
    here = owner.on_row(row)
    freed = freed_capacity(owner.reservations, change) if change else NOTHING_FREED
    if here is None or (owner.requires_reservation and none_matchable(owner, row, freed)):
        return (NO_MATCH,)
    fit = fit_owner(here, freed, change)
    # Reservations of other rows may reserve GPUs in other names.
    needs = range(len(here.needs))
    if owner.ignores_reservations or not fit.applies.any():
        suffix = "" if owner.ignores_reservations else " by node"
        alone = [n for n in needs if _short_alone(here, fit, n).any()]
        short = tuple(sorted(_short(here, n, suffix) for n in alone))
        return short + _excluded_without(here, fit, row, change) or (NONE_MEETS,)
    tried = fit.applies.nonzero()[0].tolist()
    by_node = {_short(here, n, " by node") for i in tried for n in needs if fit.reach[n][i] < 0}
    inside = [_short_inside(here, fit, n, i) for i in tried for n in needs if fit.lacks[n][i]]
    excluded = [text for i in tried for text in _excluded(here, fit, i, change)]
    beside = _excluded_without(here, fit, row, change) if owner.falls_back else ()
    return (*sorted(by_node), *inside, *excluded, *beside) or (NONE_MEETS,)


class RowReasons:
    """Reasons of rejected rows for one owner, where other plugins filter reservations too.

    Invariant: ``_found`` has the reasons of rows that have not changed after ``_cursor``.
    """

    __slots__ = ("_cursor", "_found", "_options", "_owner")

    def __init__(self, owner: OwnerRequest, options: ReservationOptions) -> None:
        self._owner, self._options = owner, options
        self._cursor = 0
        self._found: Reasons = {}

    def of(self, rows: list[int]) -> Reasons:
        """Return the reasons of rejected rows; those of changed rows are found again."""
        owner, known = self._owner, self._found
        journal, size = owner.nodes.journal, owner.nodes.size
        if known and self._cursor != journal.seq:
            stale = journal.stale(self._cursor, size)
            for row in range(size) if isinstance(stale, slice) else stale:
                known.pop(int(row), None)
        self._cursor = journal.seq
        missing = [row for row in rows if row not in known]
        if len(missing) > FEW:
            known |= _reasons_with_options(owner, self._options, np.array(missing, np.intp))
        else:
            known |= {row: owner_reasons(owner, row) for row in missing}
        return {row: known[row] for row in rows}


def own_reasons(owner: OwnerRequest, rows: Rows) -> Reasons:
    """Return the reasons of many rejected rows if no other plugin filters reservations."""
    if owner.named:
        # The text has the figures of the one reservation with that name.
        return {row: owner_reasons(owner, row) for row in rows.tolist()}
    reasons = _short_on_rows(owner, fit_owner(owner), rows)
    return {row: texts or (NONE_MEETS,) for row, texts in reasons.items()}


def _short_on_rows(owner: OwnerRequest, fit: OwnerFit, rows: Rows) -> Reasons:
    """Return what is short on rows, and in their reservations."""
    reasons: Reasons = dict.fromkeys(rows.tolist(), ())
    asked = np.isin(owner.match.rows, rows)
    for text, counts in _counted_reasons(owner, fit):
        applies = asked & (counts > 0)
        for row, times in zip(
            owner.match.rows[applies].tolist(), counts[applies].tolist(), strict=True
        ):
            reasons[row] += (text,) * times
    return reasons


def _reasons_with_options(owner: OwnerRequest, options: ReservationOptions, rows: Rows) -> Reasons:
    """Return the reasons of rows with those of other plugins."""
    fit, match = fit_owner(owner), owner.match
    reasons = _short_on_rows(owner, fit, rows)
    asked = np.isin(match.rows, rows) & ~_closed(owner)
    tried = fit.applies & asked[match.at]
    if not owner.ignores_reservations:
        excluded = tried & fit.excluded
        texts = options.reasons(match.slots[excluded])
        for row, more in zip(match.rows[match.at[excluded]].tolist(), texts, strict=True):
            reasons[row] += more
    if not owner.requires_reservation:
        beside = asked & ~fit.allowed_without
        if not (owner.falls_back or owner.ignores_reservations):
            beside &= ~np.logical_or.reduceat(tried, match.first)
        texts = options.reasons_without(match.rows[beside])
        for row, more in zip(match.rows[beside].tolist(), texts, strict=True):
            reasons[row] += more
    unmatched = set(rows.tolist()).difference(match.rows.tolist())
    return {
        row: texts or ((NO_MATCH,) if row in unmatched else (NONE_MEETS,))
        for row, texts in reasons.items()
    }


def count_own_reasons(owner: OwnerRequest, rows: Rows) -> Mapping[str, int]:
    """Count what ``own_reasons`` returns, for a pod that asks for no reservation by name."""
    asked = np.isin(owner.match.rows, rows)
    # On a row without a matched reservation none is matchable.
    count_by_reason = Counter({NO_MATCH: len(rows) - int(np.count_nonzero(asked))})
    silent = asked.copy()
    for text, counts in _counted_reasons(owner, fit_owner(owner)):
        count_by_reason[text] += int(counts[asked].sum())
        silent &= counts == 0
    count_by_reason[NONE_MEETS] += int(np.count_nonzero(silent))
    return count_by_reason


def _closed(owner: OwnerRequest) -> Bools:
    """Tell which matched rows have no matchable reservation, if the pod requires one."""
    match = owner.match
    if not owner.requires_reservation:
        return np.zeros(len(match.rows), np.bool_)
    matchable = owner.reservations.columns.matchable[match.slots]
    closed: Bools = ~np.logical_or.reduceat(matchable, match.first)
    return closed


def _counted_reasons(owner: OwnerRequest, fit: OwnerFit) -> Iterator[tuple[str, Ints]]:
    """Yield every text, and how often it applies to each matched row."""
    match, closed = owner.match, _closed(owner)
    yield NO_MATCH, closed.astype(np.int64)
    any_applies = np.logical_or.reduceat(fit.applies, match.first)
    alone = ~closed if owner.ignores_reservations else ~any_applies & ~closed
    for n in range(len(owner.needs)):
        short = alone & _short_alone(owner, fit, n)
        yield (
            _short(owner, n, "" if owner.ignores_reservations else " by node"),
            short.astype(np.int64),
        )
        if owner.ignores_reservations:
            continue
        short_with_it = fit.applies & (fit.reach[n] < 0)
        lacking = ~closed & np.logical_or.reduceat(short_with_it, match.first)
        yield _short(owner, n, " by node"), lacking.astype(np.int64)
        within = fit.applies & fit.lacks[n]
        counts = np.add.reduceat(within.astype(np.int64), match.first)
        yield f"Reservation(s) {_short(owner, n, '')}", np.where(closed, 0, counts)


def _short_alone(owner: OwnerRequest, fit: OwnerFit, need: int) -> Bools:
    """Tell which matched rows are short for a pod that uses no reservation.

    A pod that ignores reservations may use what they hold as well.
    """
    short: Bools = fit.spare[need] < 0
    if owner.ignores_reservations:
        match = owner.match
        helps = owner.reservations.columns.matchable[match.slots] & (fit.reach[need] >= 0)
        short &= ~np.logical_or.reduceat(helps, match.first)
    return short


def _short(owner: OwnerRequest, need: int, suffix: str) -> str:
    resource = owner.needs[need][0]
    return (
        TOO_MANY if resource == PODS else f"Insufficient {owner.nodes.resources[resource]}{suffix}"
    )


def _short_inside(owner: OwnerRequest, fit: OwnerFit, need: int, i: int) -> str:
    texts = f"Reservation(s) {_short(owner, need, '')}"
    if not owner.named:
        return texts
    resource, wanted = owner.needs[need]
    info = owner.reservations.at(int(owner.match.slots[i]))
    capacity = info.reserved.get(resource, 0) - info.inner.get(resource, 0)
    used = capacity - int(fit.left[need][i])
    return f"{texts}, requested: {wanted}, used: {used}, capacity: {capacity}"


def _excluded(owner: OwnerRequest, fit: OwnerFit, i: int, change: PodChange) -> tuple[str, ...]:
    """Return why other plugins exclude a reservation, by its position in the match."""
    if owner.options is None or not fit.excluded[i]:
        return ()
    return owner.options.reasons(owner.match.slots[i : i + 1], change)[0]


def _excluded_without(
    owner: OwnerRequest, fit: OwnerFit, row: int, change: PodChange
) -> tuple[str, ...]:
    """Return why other plugins exclude the only row if no reservation is used."""
    if owner.options is None or owner.requires_reservation or fit.allowed_without[0]:
        return ()
    return owner.options.reasons_without(np.array([row], np.intp), change)[0]
