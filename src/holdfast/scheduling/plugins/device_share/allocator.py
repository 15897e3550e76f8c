"""Find the nodes that have devices for a pod, and allocate some of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.koordinator_names import DEVICE_ALLOCATED
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    Code,
    NodeScorer,
    Placement,
    PodChange,
    PreemptionRules,
    RawScores,
    Reject,
    Reserver,
    Rows,
    Verdicts,
)
from holdfast.scheduling.framework.values import positions_of, rows_at
from holdfast.scheduling.plugins.device_share.explanation import explain_rows
from holdfast.scheduling.plugins.device_share.row_searches import NONE_SERVED, RowSearches
from holdfast.scheduling.plugins.device_share.searches import CaseResults, StateResult
from holdfast.state.columns.claimants import assumed_claimant
from holdfast.state.columns.epochs import Epoch
from holdfast.state.device_share.allocation_annotation import allocations_text
from holdfast.state.device_share.allocations import use_of
from holdfast.state.reservations.matching import ReservationMatch

_SIGNATURE_BITS = 20
"""More than there are signatures of NUMA nodes."""
_A_STEP = 32
"""This many searches take a few milliseconds at most."""
_FEW_ROWS = 8


@dataclass(frozen=True, slots=True, eq=False)
class DeviceAllocator(RowSearches, NodeScorer, PreemptionRules, Reserver):
    """Find nodes with the devices that a pod asks for, and allocate them.

    Rows of one case have equal results without a reservation, so one of them is searched.
    """

    _stored: CaseResults = field(default_factory=CaseResults)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceAllocator) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> Hashable:
        searches = self.searches_for(NONE_SERVED)
        request = None if self.numa is None else self.numa.request
        return id(searches), id(self.match), self.with_class, request

    # --- filter -------------------------------------------------------------------------------

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes where no option passes: no reservation, and not the node without one."""
        verdicts = self.filter_without_reservation(rows)
        for position, row in self._special_rows(rows, change):
            verdicts[position] = self.best(row, change).code
        return verdicts

    def filter_without_reservation(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes whose devices do not serve the request without a reservation."""
        verdicts: Verdicts
        if self._stores_results_of(rows):
            results, cases = self._results(rows)
            verdicts = results.codes(cases)
        else:
            verdicts = self._by_case(rows, self.without_reservation, _code, np.int8)
        for position, row in change.positions_in(rows) if change else ():
            verdicts[position] = self.without_reservation(row, change).code
        return verdicts

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows with pods that use devices."""
        mask = np.zeros(self.nodes.capacity, np.bool_)
        mask[self.ledger.rows_with_pods()] = True
        return mask

    def reason_groups(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return a number by row: equal ones have equal results without a reservation."""
        groups = self.ledger.cases(self.with_class, rows)
        if self.numa is not None:
            groups = (groups << _SIGNATURE_BITS) + self.numa.ledger.signatures()[rows]
        return groups

    def explain(self, rows: Rows) -> Mapping[str, Any]:
        """Return what the pod lacks; if other plugins rejected all nodes first, on those nodes.

        A shortage on every device is often also one of the sum, which NodeResourcesFit rejects.
        """
        if not len(rows):
            every = self.nodes.rows
            rows = every[self.filter(every) != Code.PASS]
        return explain_rows(self, rows)

    # --- score --------------------------------------------------------------------------------

    def score(self, rows: AnyRows) -> RawScores:
        """Score by how much of the devices is used."""
        scores: RawScores
        if self._stores_results_of(rows):
            results, cases = self._results(rows)
            scores = results.scores(cases)
        else:
            scores = self._by_case(rows, self.without_reservation, _score, np.float64)
        for position, row in self._special_rows(rows, NO_CHANGE):
            scores[position] = self.best(row).score
        return scores

    def score_row(self, row: int) -> float:
        """Return the score of one row."""
        return float(self.best(row).score)

    def normalize_by_range(self, raw: Any, low: float, high: float) -> Any:
        """Scale the best row to 100."""
        return np.floor(raw * 100.0 / high) if high > 0 else raw

    # --- results ------------------------------------------------------------------------------

    def _special_rows(self, rows: AnyRows, change: PodChange) -> list[tuple[int, int]]:
        """Return the rows whose case alone does not decide, as (position in ``rows``, row)."""
        special = {*change.added, *change.removed}
        if self.match is not None:
            special.update(self.match.rows.tolist())
        return positions_of(special, rows)

    def _by_case(
        self,
        rows: AnyRows,
        of_row: Callable[[int], StateResult],
        value: Callable[[StateResult], float],
        dtype: type[Any],
    ) -> NDArray[Any]:
        """Return a value for each row, computed once for rows of equal cases."""
        cases = self.reason_groups(rows)
        _, first, places = np.unique(cases, return_index=True, return_inverse=True)
        table = np.array([value(of_row(row)) for row in rows_at(rows, first)], dtype)
        values: NDArray[Any] = table[places]
        return values

    def _stores_results_of(self, rows: AnyRows) -> bool:
        """Return whether to look up results by case; for few rows that costs more than it saves."""
        count = rows.stop - (rows.start or 0) if isinstance(rows, slice) else len(rows)
        return count > _FEW_ROWS and not self.ignores_reservations

    def _results(self, rows: AnyRows) -> tuple[CaseResults, NDArray[np.int64]]:
        """Return what was found without a reservation, and the case of each row."""
        cases = self.reason_groups(rows)
        missing = self._stored.missing(cases, self._version)
        if len(missing):
            self._search_rows(cases[missing], rows_at(rows, missing))
        return self._stored, cases

    @property
    def _version(self) -> tuple[int, ...]:
        return self.ledger.version, -1 if self.numa is None else self.numa.ledger.generation

    def _search_rows(self, cases: NDArray[np.int64], rows: Iterable[int]) -> None:
        self._stored.add(cases, [self.without_reservation(row) for row in rows])

    # --- in steps -----------------------------------------------------------------------------

    def prepare_rows(self) -> Iterator[None]:
        """Search what filter and score will read of all rows, with pauses; the world may change."""
        reservations = self.nodes.epochs[Epoch.RESERVATIONS]
        yield from self.ledger.number_in_steps()
        if self.numa is not None:
            yield from self.numa.ledger.number_in_steps()
        version, count = self._version, self._state_count
        if self._stored.is_complete(version, count - _A_STEP):
            return
        yield from self._search_in_steps(reservations)
        self._stored.set_complete(version, count)

    @property
    def _state_count(self) -> int:
        """The number of states; if few were added, few rows have another result."""
        return self.ledger.state_count + (
            0 if self.numa is None else self.numa.ledger.signature_count
        )

    def _search_in_steps(self, reservations: int) -> Iterator[None]:
        if not self.ignores_reservations:
            yield from self._search_cases_in_steps()
        if self.match is not None:
            yield from self._search_reservations_in_steps(self.match, reservations)

    def _search_cases_in_steps(self) -> Iterator[None]:
        rows = slice(0, self.nodes.size)
        while len(self._stored.missing(self.reason_groups(rows), self._version)):
            yield
            rows = slice(0, self.nodes.size)
            cases = self.reason_groups(rows)
            missing = self._stored.missing(cases, self._version)[:_A_STEP]
            self._search_rows(cases[missing], missing.tolist())

    def _search_reservations_in_steps(
        self, match: ReservationMatch, reservations: int
    ) -> Iterator[None]:
        """Search the rows with matched reservations, of this epoch; Searches keeps the results."""
        rows, epochs = match.rows.tolist(), self.nodes.epochs
        for begin in range(0, len(rows), _A_STEP):
            yield
            if epochs[Epoch.RESERVATIONS] != reservations:
                return
            for row in rows[begin : begin + _A_STEP]:
                self.best(row)

    # --- placed -------------------------------------------------------------------------------

    def reserve(self, placement: Placement) -> Reject | None:
        """Allocate devices of the node, or of the nominated reservation and no other.

        They are written with the Binding.
        """
        ledger, uid, node = self.ledger, placement.pod.uid, placement.node
        result = self._search_for(placement)
        if result.code:
            return Reject(Code(result.code), result.reasons)
        if result.allocations is None:
            return None
        use = use_of(result.allocations)
        if placement.pod.is_reserve_pod:
            ledger.enter_reservation(uid, node, use, yields=True)
        else:
            claimant = assumed_claimant(placement.pod)
            ledger.enter(uid, node, use, placement.reservation, claimant)
        text = allocations_text(result.allocations, ledger.ids(node))
        placement.annotations[DEVICE_ALLOCATED] = text
        return None

    def _search_for(self, placement: Placement) -> StateResult:
        """Return the result for the chosen node, and the reservation or pods chosen there."""
        row, change = placement.row, NO_CHANGE
        if self.numa is not None:
            # The pod has its CPUs already; its NUMA nodes are to be found as they were before.
            change = PodChange(removed={row: (placement.pod,)})
        if placement.pre_allocated:
            return self.pre_allocation(row, placement.pre_allocated, change)
        if placement.reservation:
            info = self.reservations.by_uid[placement.reservation]
            return self.of_reservation(info.slot, change)
        return self.without_reservation(row, change)

    def unreserve(self, placement: Placement) -> None:
        """Release the devices, unless the pod is confirmed: then its annotation counts."""
        uid, nodes = placement.pod.uid, self.nodes
        if nodes.is_assumed(uid) or nodes.pod(uid) is None:
            self.ledger.remove(uid)


class DevicePreAllocator(DeviceAllocator):
    """The same for a reserve pod that may take over what pods have: rows count as without pods.

    The plugin that chooses these pods decides about the row.
    """

    __slots__ = ()

    def best(self, row: int, change: PodChange = NO_CHANGE) -> StateResult:
        """Return the result for a row as if its devices were unused."""
        signature = self.ledger.unused_signature(self.ledger.signature(row))
        return self.searches_on(row).of(signature)

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes whose devices would not serve the request even if they were unused."""
        return self._by_case(rows, self.best, _code, np.int8)

    def score(self, rows: AnyRows) -> RawScores:
        """Score the devices as if they were unused."""
        return self._by_case(rows, self.best, _score, np.float64)

    def _search_in_steps(self, reservations: int) -> Iterator[None]:
        return iter(())


def _code(result: StateResult) -> int:
    return result.code


def _score(result: StateResult) -> float:
    return result.score
