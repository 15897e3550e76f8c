"""Compare an owner with the reservations of one row by the rule of ``owner_fit``, in integers.

Every owner that is placed changes one row. Evaluating it takes 6 µs (24 with five reservations
there), and 85 through arrays, of the 100 that a decision takes (benchmarks/reservations.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.capacity.reservation_info import ReservationInfo, percent_filled
from holdfast.capacity.reserved_resources import NOTHING_FREED, FreedCapacity
from holdfast.columns.cells import Cells
from holdfast.columns.interner import PODS
from holdfast.framework.plugin import Code
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.owner_fit import (
    ReservationFit,
    fit_reservation,
    passes,
    without_waiting,
)


class MatchedReservation(NamedTuple):
    """One matched reservation of a row, with what is constant for the pod."""

    info: ReservationInfo
    slot: int
    ports: bool
    adds_up: bool
    """What remains of it adds up with others."""
    restricts: tuple[bool, ...]
    asked: tuple[bool, ...]
    left_at: tuple[Cells[int], ...]
    """Columns of what remains of reservations, one for each need."""


class MatchedRow(NamedTuple):
    """The matched reservations of a row; ``begin`` is the position of the first in the match."""

    begin: int
    reservations: tuple[MatchedReservation, ...]


class RowFit(NamedTuple):
    """How the pod fits in each matched reservation of a row, in the order of slots."""

    begin: int
    """The position in the match of the row's first reservation."""
    fits: list[tuple[ReservationInfo, ReservationFit]]
    passes: bool
    scores: dict[int, int]
    """Scores of the reservations that can be used, by slot."""
    matchable: bool
    """Whether one of them is matchable."""

    def code(self, *, requires_reservation: bool) -> Code:
        """Return the verdict; if no required reservation is matchable, preemption cannot help."""
        if self.passes:
            return Code.PASS
        taken = requires_reservation and not self.matchable
        return Code.UNRESOLVABLE if taken else Code.UNSCHEDULABLE

    @property
    def applying(self) -> list[ReservationInfo]:
        """The reservations that apply to the pod."""
        return [info for info, fit in self.fits if fit.applies]

    @property
    def nominable(self) -> list[ReservationInfo]:
        """The reservations that can be nominated.

        Default ones that contribute nothing cannot, if another one does.
        """
        serving = [(info, fit.contributes) for info, fit in self.fits if fit.serves]
        if len(serving) > 1 and any(
            [contributes and info.policy == "" for info, contributes in serving]
        ):
            return [info for info, contributes in serving if contributes or info.policy != ""]
        return [info for info, _ in serving]


def fit_row(state: OwnerState, row: int, freed: FreedCapacity = NOTHING_FREED) -> RowFit | None:
    """Evaluate one row, now or under a change; None for a row without a matched reservation."""
    matched_row = state.matched_rows.get(row) or _matched_row(state, row)
    if not matched_row.reservations:
        return None
    spare = state.spare.remaining_at(row)
    lefts = [
        [column[matched.slot] for column in matched.left_at] for matched in matched_row.reservations
    ]
    if freed is not NOTHING_FREED or state.reservations.waiting:
        spare = _spare_after(state, row, spare, freed)
        lefts = [
            _remaining(state, matched, left, freed)
            for matched, left in zip(matched_row.reservations, lefts, strict=True)
        ]
    matchable_at, then = state.reservations.columns.matchable_at, freed.matchable
    matchable = [
        then.get(matched.slot, matchable_at[matched.slot]) for matched in matched_row.reservations
    ]
    contributions = (
        lefts if len(lefts) == 1 else _contributions(state, matched_row, lefts, matchable)
    )
    shared, fits, scores = False, [], {}
    for matched, left, added, can in zip(
        matched_row.reservations, lefts, contributions, matchable, strict=True
    ):
        fit = fit_reservation(
            state, spare, added, left,
            restricts=matched.restricts, asked=matched.asked, matchable=can, ports=matched.ports,
        )  # fmt: skip
        fits.append((matched.info, fit))
        if fit.applies:
            shared = True
        if fit.serves:
            scores[matched.slot] = reservation_score(matched.info, state.compared)
    passing = passes(state, bool(scores), shared, fits=min(spare) >= 0)
    return RowFit(matched_row.begin, fits, bool(passing), scores, True in matchable)


def reservation_score(info: ReservationInfo, request: Mapping[int, int]) -> int:
    """Score one reservation as ``reservation_scores`` does."""
    used, total = info.allocations.sums, 0
    for resource, reserved in info.reserved.items():
        total += percent_filled(used.get(resource, 0) + request.get(resource, 0), reserved)
    return total // len(info.reserved) if total else 0


def _matched_row(state: OwnerState, row: int) -> MatchedRow:
    """Look up the matched reservations of a row, which stay the same for a state."""
    here = state.match.span(row)
    reservations = [state.reservations.at(slot) for slot in state.match.slots[here].tolist()]
    matched = tuple([_matched_reservation(state, info) for info in reservations])
    found = state.matched_rows[row] = MatchedRow(here.start, matched)
    return found


def _matched_reservation(state: OwnerState, info: ReservationInfo) -> MatchedReservation:
    compared = [r for r, _ in state.request if r not in state.ignored]
    limited = () if state.ignores_reservations else (PODS, *compared)
    columns = state.reservations.columns.remaining_at
    nothing = [0] * (info.slot + 1)
    return MatchedReservation(
        info,
        info.slot,
        ports=bool(state.ports & info.pod_info.host_ports),
        adds_up=state.ignores_reservations or info.policy == "",
        restricts=tuple([r in limited and info.restricts(r) for r, _ in state.needs]),
        asked=tuple([r in compared and info.reserved.get(r, 0) > 0 for r, _ in state.needs]),
        left_at=tuple([columns[r] if r < len(columns) else nothing for r, _ in state.needs]),
    )


def _spare_after(state: OwnerState, row: int, spare: list[int], freed: FreedCapacity) -> list[int]:
    """Return what the row would have left beside each need, with what is freed."""
    gained, waiting = freed.rows.get(row, {}), state.reservations.waiting
    node = state.nodes.names[row]
    return [
        without_waiting(s + gained.get(r, 0), wanted, waiting.held(node, r) if waiting else 0)
        for s, (r, wanted) in zip(spare, state.needs, strict=True)
    ]


def _remaining(
    state: OwnerState, matched: MatchedReservation, left: list[int], freed: FreedCapacity
) -> list[int]:
    """Return what remains of a reservation for each need, with what is freed."""
    gained = freed.slots.get(matched.slot, {})
    return [own + gained.get(r, 0) for own, (r, _) in zip(left, state.needs, strict=True)]


def _contributions(
    state: OwnerState, matched_row: MatchedRow, lefts: list[list[int]], matchable: list[bool]
) -> list[list[int]]:
    """Return what each reservation contributes to each need, with those it adds up with."""
    adds_up = [
        can and matched.adds_up
        for matched, can in zip(matched_row.reservations, matchable, strict=True)
    ]
    pooling = [left for left, pool in zip(lefts, adds_up, strict=True) if pool]
    sums = [sum(amounts) for amounts in zip(*pooling, strict=True)]
    # A pod slot comes from one reservation: those of several do not add up.
    first = sums[:1] if state.ignores_reservations else None
    return [
        [*(first or left[:1]), *sums[1:]] if pool else left
        for left, pool in zip(lefts, adds_up, strict=True)
    ]
