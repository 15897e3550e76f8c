"""Compare an owner with the reservations of one row by the rule of ``owner_fit``, in integers.

Every owner that is placed changes one row. Evaluating it takes 6 µs (24 with five reservations
there), and 85 through arrays, of the 100 that a decision takes (benchmarks/reservations.py).

What is constant for a pod is looked up once per row (``MatchedReservation``). Its columns are the
memory of the arrays that ``owner_fit`` reads, cell by cell, so nothing has to be copied. The
results of both ways must be equal: the conformance suite and tests/reservations compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from holdfast.scheduling.framework.plugin import NO_CHANGE, Code, PodChange
from holdfast.scheduling.framework.reservation_options import ReservationOptions
from holdfast.scheduling.plugins.reservation.owner import OwnerRequest
from holdfast.scheduling.plugins.reservation.owner_fit import (
    ReservationFit,
    fit_reservation,
    passes,
    without_waiting,
)
from holdfast.state.columns.cells import Cells
from holdfast.state.columns.interner import PODS
from holdfast.state.reservations.reservation_info import ReservationInfo, percent_filled
from holdfast.state.reservations.reserved_resources import NOTHING_FREED, FreedCapacity


class MatchedReservation(NamedTuple):
    """One matched reservation of a row, with what is constant for the pod."""

    info: ReservationInfo
    slot: int
    ports: bool
    adds_up: bool
    """Its remaining amounts add up with those of others."""
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
    unresolvable: bool = False
    """Other plugins exclude every option of the row, whatever pods leave."""

    def code(self, *, requires_reservation: bool) -> Code:
        """Return the verdict; if no required reservation is matchable, preemption cannot help."""
        if self.passes:
            return Code.PASS
        taken = requires_reservation and not self.matchable
        return Code.UNRESOLVABLE if taken or self.unresolvable else Code.UNSCHEDULABLE

    @property
    def score(self) -> int:
        """The score of the row: that of the best reservation; 0 without any."""
        return max(self.scores.values(), default=0)

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


def fit_row(
    owner: OwnerRequest,
    row: int,
    freed: FreedCapacity = NOTHING_FREED,
    change: PodChange = NO_CHANGE,
) -> RowFit | None:
    """Evaluate one row, now or under a change; None for a row without a matched reservation.

    ``freed`` is what ``change`` frees.
    """
    matched_row = owner.matched_rows.get(row) or _matched_row(owner, row)
    if not matched_row.reservations:
        return None
    spare = owner.spare.remaining_at(row)
    lefts = [
        [column[matched.slot] for column in matched.left_at] for matched in matched_row.reservations
    ]
    if freed is not NOTHING_FREED or owner.reservations.waiting:
        spare = _spare_after(owner, row, spare, freed)
        lefts = [
            _remaining(owner, matched, left, freed)
            for matched, left in zip(matched_row.reservations, lefts, strict=True)
        ]
    if owner.converted:
        spare = spare + [0] * (len(owner.needs) - len(spare))
    matchable_at, then = owner.reservations.columns.matchable_at, freed.matchable
    matchable = [
        then.get(matched.slot, matchable_at[matched.slot]) for matched in matched_row.reservations
    ]
    contributions = (
        lefts if len(lefts) == 1 else _contributions(owner, row, matched_row, lefts, matchable)
    )
    shared, fits, scores = False, [], {}
    for matched, left, added, can in zip(
        matched_row.reservations, lefts, contributions, matchable, strict=True
    ):
        fit = fit_reservation(
            owner, spare, added, left,
            restricts=matched.restricts, asked=matched.asked, matchable=can, ports=matched.ports,
        )  # fmt: skip
        fits.append((matched.info, fit))
        if fit.applies:
            shared = True
        if fit.serves:
            scores[matched.slot] = reservation_score(
                matched.info, owner.compared_with(matched.slot), fit
            )
    fits_without = min(spare) >= 0
    if owner.options is not None:
        return _consider_options(
            owner, owner.options, row, change, shared=shared, fits_without=fits_without,
            row_fit=RowFit(matched_row.begin, fits, False, scores, True in matchable),
        )  # fmt: skip
    passing = passes(owner, bool(scores), shared, fits=fits_without)
    return RowFit(matched_row.begin, fits, bool(passing), scores, True in matchable)


def _consider_options(
    owner: OwnerRequest,
    options: ReservationOptions,
    row: int,
    change: PodChange,
    *,
    shared: bool,
    fits_without: bool,
    row_fit: RowFit,
) -> RowFit:
    """Exclude the reservations that other plugins exclude, and decide about the row."""
    slots = owner.match.slots[row_fit.begin : row_fit.begin + len(row_fit.fits)]
    verdicts = options.verdicts(slots, change).tolist()
    fits = [
        (info, fit if allowed == 0 else fit._replace(serves=False))
        for (info, fit), allowed in zip(row_fit.fits, verdicts, strict=True)
    ]
    scores = {info.slot: row_fit.scores[info.slot] for info, fit in fits if fit.serves}
    without = (
        0
        if scores or owner.requires_reservation
        else int(options.verdicts_without(np.array([row], np.intp), change)[0])
    )
    passing = passes(owner, bool(scores), shared, fits=fits_without and without == 0)
    unresolvable = min(verdicts) == Code.UNRESOLVABLE and (
        owner.requires_reservation or without == Code.UNRESOLVABLE
    )
    return row_fit._replace(
        fits=fits, passes=bool(passing), scores=scores, unresolvable=unresolvable
    )


def reservation_score(
    info: ReservationInfo, request: Mapping[int, int], fit: ReservationFit
) -> int:
    """Score one reservation as ``reservation_scores`` does."""
    if not fit.contributes:
        return 0
    restricted, total = info.policy == "Restricted", 0
    used, inner = info.allocations.sums, info.inner
    for resource, reserved in info.reserved.items():
        then = used.get(resource, 0) + request.get(resource, 0)
        if info.converted:
            then += info.converted.get(resource, 0)
        if restricted:
            total += percent_filled(then, reserved)
        elif then + (inner.get(resource, 0) if inner else 0) >= reserved:
            total += 100
        else:
            total += 100 * then // reserved
    score = total // len(info.reserved) if total else 0
    return max(score - (not (fit.covers or restricted)), 1)


def _matched_row(owner: OwnerRequest, row: int) -> MatchedRow:
    """Look up the matched reservations of a row, which stay the same for a request."""
    here = owner.match.span(row)
    reservations = [owner.reservations.at(slot) for slot in owner.match.slots[here].tolist()]
    matched = tuple([_matched_reservation(owner, info) for info in reservations])
    matched_row = owner.matched_rows[row] = MatchedRow(here.start, matched)
    return matched_row


def _matched_reservation(owner: OwnerRequest, info: ReservationInfo) -> MatchedReservation:
    compared = [r for r, _ in owner.request if r not in owner.ignored]
    compared += owner.converted.get(info.slot, ())
    limited = () if owner.ignores_reservations else (PODS, *compared)
    columns = owner.reservations.columns.remaining_at
    nothing = [0] * (info.slot + 1)
    return MatchedReservation(
        info,
        info.slot,
        ports=bool(owner.ports & info.pod_info.host_ports),
        adds_up=owner.ignores_reservations or info.policy == "",
        restricts=tuple([r in limited and info.restricts(r) for r, _ in owner.needs]),
        asked=tuple([r in compared and info.reserved.get(r, 0) > 0 for r, _ in owner.needs]),
        left_at=tuple([columns[r] if r < len(columns) else nothing for r, _ in owner.needs]),
    )


def _spare_after(
    owner: OwnerRequest, row: int, spare: list[int], freed: FreedCapacity
) -> list[int]:
    """Return for each need what the row would have left, with what is freed."""
    gained, waiting = freed.rows.get(row, {}), owner.reservations.waiting
    node = owner.nodes.names[row]
    return [
        without_waiting(s + gained.get(r, 0), wanted, waiting.held(node, r) if waiting else 0)
        for s, (r, wanted) in zip(spare, owner.node_needs, strict=True)
    ]


def _remaining(
    owner: OwnerRequest, matched: MatchedReservation, left: list[int], freed: FreedCapacity
) -> list[int]:
    """Return what remains of a reservation for each need, with what is freed."""
    gained = freed.slots.get(matched.slot, {})
    return [own + gained.get(r, 0) for own, (r, _) in zip(left, owner.needs, strict=True)]


def _contributions(
    owner: OwnerRequest,
    row: int,
    matched_row: MatchedRow,
    lefts: list[list[int]],
    matchable: list[bool],
) -> list[list[int]]:
    """Return what each reservation contributes to each need, with those it adds up with."""
    adds_up = [
        can and matched.adds_up
        for matched, can in zip(matched_row.reservations, matchable, strict=True)
    ]
    pooling = [left for left, pool in zip(lefts, adds_up, strict=True) if pool]
    sums = [sum(amounts) for amounts in zip(*pooling, strict=True)]
    # A pod slot comes from one reservation: those of several do not add up.
    first = sums[:1] if owner.ignores_reservations else None
    contributions = [
        [*(first or left[:1]), *sums[1:]] if pool else left
        for left, pool in zip(lefts, adds_up, strict=True)
    ]
    identified = owner.identified(row)
    if not identified:
        return contributions
    return [
        [
            own if r in identified else a
            for (r, _), own, a in zip(owner.needs, left, more, strict=True)
        ]
        for left, more in zip(lefts, contributions, strict=True)
    ]
