"""The plan for an owner: it decides where the owner fits, and which reservations it uses there.

NodeResourcesFit leaves rows with matched reservations to this plan, because free resources and
those of reservations must be compared together. The reservation is nominated in Reserve. By then
the pod is assumed, so the row has changed. The plan nominates by the result from before that change
(``OwnerResults.before``), by which the row was chosen, and evaluates nothing again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node_selection import required_nodes
from holdfast.scheduling.framework.nominations import Nominations
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ApiCalls,
    Code,
    NodeScorer,
    Placement,
    PodChange,
    RawScores,
    Reject,
    Reserver,
    Rows,
    Verdicts,
)
from holdfast.scheduling.framework.reservation_options import (
    ReservationAllocator,
    ReservationOptions,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.reservation import nomination, row_reasons
from holdfast.scheduling.plugins.reservation.arguments import ReservationArgs
from holdfast.scheduling.plugins.reservation.current_owner import (
    clear_current_owner,
    write_current_owner,
)
from holdfast.scheduling.plugins.reservation.eviction_rules import OwnerEvictionRules
from holdfast.scheduling.plugins.reservation.owner import OwnerRequest
from holdfast.scheduling.plugins.reservation.owner_fit import fit_owner, nominable, row_scores
from holdfast.scheduling.plugins.reservation.reserve_pods import record_invalid_owners
from holdfast.scheduling.plugins.reservation.row_fit import RowFit, fit_row
from holdfast.state.columns.cells import Cells, cells
from holdfast.state.columns.selection import required_selected
from holdfast.state.reservations.matching import ReservationMatch
from holdfast.state.reservations.reservation_annotations import ReservationAffinity
from holdfast.state.reservations.reservation_info import ReservationInfo
from holdfast.state.reservations.reserved_resources import freed_capacity

_FEW = 32
"""Up to this many changed rows are evaluated one by one."""
FIRST_IN_ORDER = 1000.0
"""The score of the row with the lowest order label of all."""


@dataclass(slots=True, eq=False)
class OwnerPlan(OwnerRequest, OwnerEvictionRules, ReservationAllocator, NodeScorer, Reserver):
    """Filter nodes by free and reserved resources, and allocate from reservations."""

    nominations: Nominations | None = None
    allowed_rows: Rows | None = None
    row_scope: bool = field(init=False)
    results: OwnerResults | None = field(default=None, init=False, repr=False)
    """Cached verdicts and scores."""
    cached_reasons: row_reasons.RowReasons | None = field(default=None, init=False, repr=False)
    """Cached reasons of rejected rows, if other plugins filter reservations."""

    def __post_init__(self) -> None:
        OwnerRequest.__post_init__(self)
        # With order labels, the lowest one of the whole cluster decides.
        self.row_scope = not self.ordered

    def with_options(self, options: ReservationOptions) -> Self:
        """Consider what other plugins say about the owner's reservations."""
        return self if self.ignores_reservations else replace(self, options=options)

    def current_results(self) -> OwnerResults:
        """Return the verdicts and scores, up to date."""
        if self.results is None:
            self.results = OwnerResults(self)
        self.results.refresh()
        return self.results

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Compare the request with free resources and what remains of reservations."""
        verdicts = self.current_results().verdicts[rows]
        if change:
            verdicts = verdicts.copy()
            for position, row in change.positions_in(rows):
                verdicts[position] = self.filter_row(row, change)
        return verdicts

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row; without a change it is cached."""
        if not change:
            return self.current_results().verdict_at[row]
        fit = fit_row(self, row, freed_capacity(self.reservations, change), change)
        if fit is None:
            return Code.PASS
        return fit.code(requires_reservation=self.requires_reservation)

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows with a matched reservation."""
        mask = np.zeros(self.nodes.capacity, np.bool_)
        mask[self.match.rows] = True
        return mask

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return what is short on the node, or inside the reservations."""
        return row_reasons.owner_reasons(self, row, change)

    def reasons_of_rows(self, rows: Rows) -> row_reasons.Reasons:
        """Return the reasons of many rejected rows; the order inside a row may differ."""
        if self.named or self.options is None:
            return row_reasons.own_reasons(self, rows)
        if self.cached_reasons is None:
            self.cached_reasons = row_reasons.RowReasons(self, self.options)
        return self.cached_reasons.of(rows.tolist())

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of many rejected rows."""
        if self.named or self.options is not None:
            return Counter(text for texts in self.reasons_of_rows(rows).values() for text in texts)
        return row_reasons.count_own_reasons(self, rows)

    def score(self, rows: AnyRows) -> RawScores:
        """Prefer rows whose reservation the pod fills best; the lowest order label beats all."""
        if self.ignores_reservations:
            return np.zeros(self.nodes.capacity)[rows]
        return self.current_results().scores(rows)

    def score_row(self, row: int) -> float:
        """Return the score of one row."""
        if self.ordered or self.ignores_reservations:
            return NodeScorer.score_row(self, row)
        return self.current_results().raw_at[row]

    def normalize_by_range(self, raw: Any, low: float, high: float) -> Any:
        """Scale the best row to 100."""
        if high <= 0:
            return raw
        scaled = raw * 100.0
        scaled /= high
        return np.floor(scaled)

    def reserve(self, placement: Placement) -> Reject | None:
        """Allocate the request from reservations of the row."""
        record_invalid_owners(placement)
        if self.ignores_reservations:
            return None
        pod, row = placement.pod, placement.row
        chosen, others = self._nominate(placement)
        if chosen is None:
            if self.requires_reservation:
                return Reject(Code.UNSCHEDULABLE, (nomination.why_none_nominated(self, row),))
            return None
        identified = self.identified(row) if others else frozenset[int]()
        allocations = nomination.split_request(pod, chosen, others, identified)
        self.reservations.allocate(pod.uid, allocations)
        written = nomination.allocation_annotations(self, pod, chosen, allocations)
        placement.annotations.update(written)
        placement.reservation = chosen.uid
        return None

    def _nominate(self, placement: Placement) -> nomination.Nominated:
        """Nominate for the assumed pod, if possible so that other nominated pods fit as well."""
        pod, row = placement.pod, placement.row
        # The pod is assumed already and must not count twice.
        without = {row: (pod,)}
        if self.nominations and (beside := self.nominations.ahead_of(pod, row)):
            added = {row: tuple(beside.values())}
            nominated = nomination.nominate(self, row, PodChange(added, without))
            if nominated[0] is not None:
                return nominated
        if self.results is not None and (before := self.results.before(row)) is not None:
            return nomination.choose(before)
        return nomination.nominate(self, row, PodChange(removed=without))

    def unreserve(self, placement: Placement) -> None:
        """Release the allocation, unless the pod is confirmed on a node.

        What a confirmed pod allocates was read from its annotations.
        """
        uid = placement.pod.uid
        if self.nodes.is_assumed(uid) or self.nodes.pod(uid) is None:
            self.reservations.deallocate(uid)

    def pre_bind_pre_flight(self, placement: Placement) -> bool:
        """Return whether a pod acts as the reservation: then its current owner is written."""
        return self._acting_pod(placement) is not None

    def pre_bind(self, placement: Placement) -> ApiCalls:
        """Write the pod as current owner on the one that acts as its reservation."""
        if acting := self._acting_pod(placement):
            yield from write_current_owner(acting, placement.pod)

    def undo_pre_bind(self, placement: Placement) -> ApiCalls:
        """Remove the current owner again."""
        if acting := self._acting_pod(placement):
            yield from clear_current_owner(acting, placement.pod)

    def _acting_pod(self, placement: Placement) -> ReservationInfo | None:
        if not placement.reservation:
            return None
        info = self.reservations.by_uid.get(placement.reservation)
        return info if info is not None and info.reservation.is_pod else None


def prepare_owner(
    view: View, match: ReservationMatch, affinity: ReservationAffinity | None, args: ReservationArgs
) -> OwnerPlan | Reject:
    """Return the plan for an owner; with an affinity it uses a reservation or stays pending."""
    pod, nodes, world = view.pod, view.nodes, view.world
    resources = nodes.resources
    plan = OwnerPlan(
        nodes, world.reservations, match,
        # Resources that the configuration leaves to another scheduler are not compared.
        tuple([x for x in pod.request if not world.ignores_resource(resources[x[0]])]),
        requires_reservation=affinity is not None,
        named=affinity is not None and bool(affinity.name), ports=pod.host_ports,
        device_backed=world.devices.device_backed(pod.request), falls_back=args.falls_back,
        ignored=frozenset(r for r, _ in pod.request if args.ignores(resources[r])),
        nominations=world.nominations,
    )  # fmt: skip
    if affinity is not None:
        # Reservations on nodes that the node affinity excludes do not count.
        rows = match.rows[required_selected(nodes, required_nodes(pod.pod), match.rows)]
        if not len(rows):
            return Reject(Code.UNRESOLVABLE, (row_reasons.NO_MATCH,))
        plan.allowed_rows = rows
    return plan


class OwnerResults:
    """Verdicts and scores per row, and which of the matched reservations can be nominated.

    They are cached: only changed rows are evaluated again. The lowest order label of all
    reservations beats any score, so a score may depend on other rows: that part is computed each
    time, if there are such labels.

    ``raw_at`` has the score of a row where no reservation has an order label.
    """

    __slots__ = ("_cursor", "_evaluated", "_named", "_named_at", "_ordered", "_owner", "_raw",
                 "raw_at", "verdict_at", "verdicts")  # fmt: skip

    def __init__(self, owner: OwnerRequest) -> None:
        self._owner = owner
        self._cursor = -1
        self.verdicts: Verdicts = np.zeros(owner.nodes.capacity, np.int8)
        self._raw: RawScores = np.zeros(owner.nodes.capacity)
        self._named: NDArray[np.bool_] = np.zeros(len(owner.match.slots), np.bool_)
        self.verdict_at: Cells[int] = cells(self.verdicts)
        self.raw_at: Cells[float] = cells(self._raw)
        self._named_at = cells(self._named)
        self._evaluated: dict[int, RowFit] = {}
        """Results of rows that were evaluated one by one."""
        self._ordered = owner.ordered

    def refresh(self) -> None:
        """Evaluate the changed rows again."""
        nodes = self._owner.nodes
        journal, cursor = nodes.journal, self._cursor
        if cursor == journal.seq:
            return
        self._cursor = journal.seq
        stale = slice(0) if cursor < 0 else journal.stale(cursor, nodes.size)
        if isinstance(stale, list):
            few = stale
        elif isinstance(stale, slice) or len(own_rows := self._mine(stale)) > _FEW:
            self._evaluate_all()
            return
        else:
            few = own_rows.tolist()
        for row in few:
            self._evaluate(row)

    def before(self, row: int) -> RowFit | None:
        """Return the result of a row before the last change, if there was no other since."""
        journal = self._owner.nodes.journal
        last = journal.seq == self._cursor + 1 and journal.last_row == row
        return self._evaluated.get(row) if last else None

    def scores(self, rows: AnyRows) -> RawScores:
        """Score rows by their best reservation; the lowest order label of all gets 1000."""
        if not self._ordered:
            return self._raw[rows]
        match, raw = self._owner.match, self._raw.copy()
        order = self._owner.reservations.columns.order[match.slots]
        labelled = self._named & (order != 0)
        if labelled.any():
            lowest = labelled & (order == order[labelled].min())
            raw[match.rows[match.at[lowest]]] = FIRST_IN_ORDER
        return raw[rows]

    def _mine(self, rows: Rows) -> Rows:
        mine = self._owner.match.rows
        own_rows: Rows = rows[mine.take(np.searchsorted(mine, rows), mode="clip") == rows]
        return own_rows

    def _evaluate(self, row: int) -> None:
        fit = fit_row(self._owner, row)
        if fit is None:
            return
        self._evaluated[row] = fit
        if self._ordered:
            named = {info.slot for info in fit.nominable}
            for i, (info, _) in enumerate(fit.fits, fit.begin):
                self._named_at[i] = info.slot in named
        self.raw_at[row] = float(fit.score)
        self.verdict_at[row] = fit.code(requires_reservation=self._owner.requires_reservation)

    def _evaluate_all(self) -> None:
        owner = self._owner
        match, fit = owner.match, fit_owner(owner)
        self._evaluated.clear()
        self._named[:] = nominable(owner, fit)
        self._raw[match.rows] = row_scores(owner, fit)
        codes = (~fit.passes).astype(np.int8)
        if owner.requires_reservation:
            # A required reservation cannot become matchable by preemption.
            matchable = owner.reservations.columns.matchable[match.slots]
            codes[~fit.passes & ~np.logical_or.reduceat(matchable, match.first)] = Code.UNRESOLVABLE
        codes[~fit.passes & fit.unresolvable] = Code.UNRESOLVABLE
        self.verdicts[match.rows] = codes
