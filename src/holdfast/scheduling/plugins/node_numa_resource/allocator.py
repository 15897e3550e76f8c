"""Find the nodes that have CPUs and NUMA nodes for a pod, and allocate some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.koordinator_names import RESOURCE_SPEC, RESOURCE_STATUS
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
from holdfast.scheduling.framework.values import rows_at
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.node_numa_resource.explanation import explain_rows
from holdfast.scheduling.plugins.node_numa_resource.row_trials import RowTrials, code_of
from holdfast.scheduling.plugins.node_numa_resource.scoring import WholeNodeScorer
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.interner import CPU
from holdfast.state.numa.node_state import NodeState
from holdfast.state.numa.numa_amounts import Strategy
from holdfast.state.numa.pod_request import NumaRequest
from holdfast.state.numa.resource_status import NumaAllocation, completed_spec, format_status
from holdfast.state.numa.trial import Situation, Trial
from holdfast.state.reservations.matching import ReservationMatch

NOT_WITHIN_RESERVATION = (
    "pod has a nominated reservation but cannot be allocated within its NUMA scope"
)
_FEW = 32
"""This many trials take a few milliseconds at most."""
_RESULT = np.dtype(
    [
        ("known", np.bool_),
        ("code", np.int8),
        ("score", np.float64),
        ("by_numa_node", np.bool_),
        ("cost", np.int64),
        ("extra", np.int64),
    ]
)
"""By signature. ``by_numa_node``: the score is that of NUMA nodes. Where CPUs are amplified,
``cost`` is what the pod costs in millicores (else 0), and ``extra`` is how much more the CPUs of
bound pods cost than they request."""


class NumaAllocator(RowTrials, NodeScorer, PreemptionRules, Reserver):
    """Find nodes with the CPUs and NUMA nodes that a pod asks for, and allocate them.

    Most rows are decided by their
    signature alone. Rows with a matched reservation, rows where the hints of others count, and rows
    whose reservations the pod ignores are tried one by one.
    """

    def __init__(
        self, view: View, request: NumaRequest, match: ReservationMatch | None, strategy: Strategy
    ) -> None:
        super().__init__(view.world, view.pod, request, match)
        self._table = np.zeros(0, _RESULT)
        self._generation = -1
        self._tried = (-1, 0)
        """The generation and the number of signatures when all rows had been tried."""
        special = np.zeros(self.nodes.capacity, np.bool_)
        if match is not None and len(match.slots):
            special[match.rows] = True
        self._special: NDArray[np.bool_] | None = special if special.any() else None
        self._whole_nodes = WholeNodeScorer(
            self.nodes, view.pod, strategy, view.reserved_for_pod,
            self._extra_cpu if self.ledger.concerns_all_pods else None,
        )  # fmt: skip

    # --- filter -------------------------------------------------------------------------------

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows that lack the CPUs or NUMA nodes that the pod needs.

        With matched reservations the verdict is that of the best option.
        """
        verdicts = self.filter_without_reservation(rows)
        for position, row in self._special_rows(rows):
            verdicts[position] = self.code(row)
        for position, row in change.positions_in(rows) if change else ():
            verdicts[position] = self.code(row, change)
        return verdicts

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row."""
        return self.code(row, change) if change else int(self.filter(slice(row, row + 1))[0])

    def filter_without_reservation(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return for each row whether unreserved CPUs and NUMA nodes suffice."""
        results = self._results(rows)
        verdicts: Verdicts = results["code"].copy()
        if self.trials.has_provided_hints and results["by_numa_node"].any():
            positions = results["by_numa_node"].nonzero()[0]
            trials, at = self._aligned_trials(rows, positions)
            verdicts[positions] = np.array([code_of(trial) for trial in trials], np.int8)[at]
        if results["cost"].any():
            verdicts[self._short(rows, results) & (verdicts == 0)] = Code.UNSCHEDULABLE
        for position, row in change.positions_in(rows) if change else ():
            verdicts[position] = self.code_without(row, change)
        return verdicts

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows where pods hold CPUs or amounts of NUMA nodes, or CPUs are amplified."""
        mask = self.ledger.rows_with_pods()
        rows = slice(0, self.nodes.size)
        mask[rows] |= self._results(rows)["cost"] > 0
        if self.trials.has_provided_hints:
            for provider in self.ledger.hint_providers:
                mask[provider.rows_in_use()] = True
        return mask

    def reason_groups(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return a number by row: equal ones have the same reasons without a reservation."""
        groups = 2 * self.ledger.signatures()[rows].astype(np.int64)
        groups += self._short(rows, self._results(rows))
        if self.trials.has_provided_hints:
            states = self.trials.provided_states()[rows]
            groups = groups * (int(states.max(initial=0)) + 1) + states
        if self.ignores_reservations:
            for position, row in self._special_rows(rows):
                groups[position] = -1 - row
        return groups

    def explain(self, rows: Rows) -> Mapping[str, Any]:
        """Return what the pod lacks; if other plugins rejected all nodes first, on those nodes.

        A shortage of CPUs is often also one of cpu, which NodeResourcesFit rejects.
        """
        if not len(rows):
            every = self.nodes.rows
            rows = every[self.filter(every) != Code.PASS]
        return explain_rows(self, rows)

    # --- score --------------------------------------------------------------------------------

    def score(self, rows: AnyRows) -> RawScores:
        """Score the whole node by its requests, but under a NUMA policy the NUMA nodes to use."""
        scores = self._whole_nodes.many(rows)
        aligned, of_numa_nodes = self._numa_scores(rows)
        if aligned.any():
            scores = np.where(aligned, of_numa_nodes, scores)
        return scores

    def score_row(self, row: int) -> float:
        """Return the score of one row."""
        aligned, score = self._numa_scores(slice(row, row + 1))
        return float(score[0]) if aligned[0] else self._whole_nodes.one(row)

    def _numa_scores(self, rows: AnyRows) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return for each row whether its NUMA nodes are scored, and their score."""
        results = self._results(rows)
        aligned, scores = results["by_numa_node"], results["score"].copy()
        if self.trials.has_provided_hints and aligned.any():
            positions = aligned.nonzero()[0]
            trials, at = self._aligned_trials(rows, positions)
            scores[positions] = np.array([trial.score for trial in trials], np.float64)[at]
        for position, row in self._special_rows(rows):
            if aligned[position]:
                scores[position] = self.best(row).score
        return aligned, scores

    def _extra_cpu(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return by row how many millicores more than requested CPUs cost, including the pod's."""
        results = self._results(rows)
        cost, extra = results["cost"], results["extra"].copy()
        for position, row in self._special_rows(rows) if extra.any() else ():
            extra[position] = self.amplified(self._without_matched(row))[1]
        millicores: NDArray[np.int64] = extra + (cost - self.request.millicores) * (cost > 0)
        return millicores

    def _without_matched(self, row: int) -> NodeState:
        """Return the state of a row without the CPUs that matched reservations have left."""
        assert self.match is not None
        state = self.ledger.state(self.ledger.signature(row))
        slots = self.match.slots[self.match.span(row)].tolist()
        left = [self.ledger.offer(row, self.reservations.at(slot).uid).cpus for slot in slots]
        return state._replace(held=state.held & ~reduce(or_, left, 0))

    # --- results by signature -----------------------------------------------------------------

    def _results(self, rows: AnyRows) -> NDArray[np.void]:
        """Return the results by signature; each new signature is tried once."""
        signatures = self.ledger.signatures()[rows]
        self._make_space()
        results: NDArray[np.void] = self._table[signatures]
        if not results["known"].all():
            self._try(np.unique(signatures[~results["known"]]).tolist())
            results = self._table[signatures]
        return results

    def _make_space(self) -> None:
        """Let the table have all signatures of the ledger's generation."""
        ledger = self.ledger
        if self._generation != ledger.generation:
            self._generation = ledger.generation
            self._table = np.zeros(0, _RESULT)
        if len(self._table) < ledger.signature_count:
            more = max(64, ledger.signature_count) - len(self._table) + ledger.signature_count
            self._table = np.append(self._table, np.zeros(more, _RESULT))

    def _try(self, signatures: Iterable[int]) -> None:
        for signature in signatures:
            self._table[signature] = self._result(self.ledger.state(signature))

    def _result(self, state: NodeState) -> tuple[bool, int, float, bool, int, int]:
        trial = self.trials.on_state(state)
        aligned = bool(state.shape.policies.numa or self.request.numa_policy)
        return True, code_of(trial), float(trial.score), aligned, *self.amplified(state)

    def _short(self, rows: AnyRows, results: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return a mask of the rows that have too few amplified CPUs left for the pod."""
        cost, free = results["cost"], self.nodes.amounts.free[CPU][rows] - results["extra"]
        short: NDArray[np.bool_] = (cost > 0) & (cost > free)
        return short

    # --- rows that their signature does not decide --------------------------------------------

    def _special_rows(self, rows: AnyRows) -> list[tuple[int, int]]:
        """Return the rows that are tried one by one: positions and rows."""
        if self._special is None:
            return []
        positions = self._special[rows].nonzero()[0]
        return list(zip(positions.tolist(), rows_at(rows, positions), strict=True))

    def _aligned_trials(
        self, rows: AnyRows, positions: NDArray[np.intp]
    ) -> tuple[list[Trial], NDArray[np.intp]]:
        """Return trials with the hints of others, one for equal rows, and each row's index."""
        there = np.array(rows_at(rows, positions), np.intp)
        if len(there) == 1:  # after a placement; numbering the states of all rows costs more
            return [self.trial(int(there[0]))], np.zeros(1, np.intp)
        different, at = self._different_rows(there)
        return [self.trial(row) for row in different.tolist()], at

    def _different_rows(self, rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
        """Return a row for each different situation, and the index of each row's."""
        signatures = self.ledger.signatures()[rows].astype(np.int64)
        states = self.trials.provided_states()[rows]
        both = states * (int(signatures.max(initial=0)) + 1) + signatures
        _, first, at = np.unique(both, return_index=True, return_inverse=True)
        return rows[first], at

    # --- in steps -----------------------------------------------------------------------------

    def prepare_rows(self) -> Iterator[None]:
        """Try what filter and score will read of all rows, with pauses; the world may change."""
        reservations = self.nodes.epochs[Epoch.RESERVATIONS]
        yield from self.ledger.number_in_steps()
        known = (self.ledger.generation, self.ledger.signature_count)
        if known[0] == self._tried[0] and known[1] <= self._tried[1] + _FEW:
            return
        signatures = self.ledger.signatures()
        self._make_space()
        unknown = np.unique(signatures[~self._table["known"][signatures]]).tolist()
        for begin in range(0, len(unknown), _FEW):
            yield
            if self._generation != self.ledger.generation:
                return
            self._try(unknown[begin : begin + _FEW])
        if self.nodes.epochs[Epoch.RESERVATIONS] == reservations:
            yield from self._try_rows_in_steps(reservations)
        self._tried = known

    def _try_rows_in_steps(self, reservations: int) -> Iterator[None]:
        """Try the rows that their signature does not decide, with reservations of this epoch.

        PodTrials keeps the results.
        """
        rows: AnyRows = slice(0, self.nodes.size)
        listed = [row for _, row in self._special_rows(rows)]
        if self.trials.has_provided_hints:
            for provider in self.ledger.hint_providers:
                yield from provider.number_in_steps()
            positions = self._results(rows)["by_numa_node"].nonzero()[0]
            listed += self._different_rows(positions)[0].tolist() if len(positions) else []
        for begin in range(0, len(listed), _FEW):
            yield
            if (self._generation, reservations) != (
                self.ledger.generation,
                self.nodes.epochs[Epoch.RESERVATIONS],
            ):
                return
            for row in listed[begin : begin + _FEW]:
                self.trial(row)
                for slot in self.reservations.slots_on(self.match, row):
                    self.slot_code(slot)

    # --- placed -------------------------------------------------------------------------------

    def reserve(self, placement: Placement) -> Reject | None:
        """Store the pod's CPUs and NUMA nodes in the ledger, and write them to its annotations."""
        if placement.pre_allocated:
            trial = self.pre_allocation(placement.row, placement.pre_allocated)
        else:
            trial = self.trial(placement.row, placement.reservation)
        if trial.allocation is None:
            reasons = (NOT_WITHIN_RESERVATION,) if placement.reservation else trial.reasons
            return Reject(Code(code_of(trial)), reasons)
        self.ledger.reserve(placement.pod, placement.row, trial.allocation, placement.reservation)
        self._annotate(placement, trial.allocation)
        return None

    def _annotate(self, placement: Placement, allocation: NumaAllocation) -> None:
        if not allocation:
            return
        annotations = placement.pod.pod.metadata.annotations
        placement.annotations[RESOURCE_STATUS] = format_status(allocation)
        if allocation.cpus:
            ledger = self.ledger
            on = Situation(self.request, ledger.state(ledger.signature(placement.row)))
            spec = completed_spec(annotations, on.bind_policy, required=bool(on.required_policy))
            if spec is not None:
                placement.annotations[RESOURCE_SPEC] = spec

    def unreserve(self, placement: Placement) -> None:
        """Release what the pod got, unless it is confirmed on a node."""
        uid = placement.pod.uid
        if self.nodes.is_assumed(uid) or self.nodes.pod(uid) is None:
            self.ledger.unreserve(uid)


class NumaPreAllocator(NumaAllocator):
    """The same for a reserve pod that may take over what pods have: rows count as without pods.

    The plugin that chooses these pods decides about the row.
    """

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows that would lack the CPUs or NUMA nodes even without any pod."""
        signatures, at = np.unique(self.ledger.signatures()[rows], return_inverse=True)
        codes = [self._code_if_empty(signature) for signature in signatures.tolist()]
        return np.array(codes, np.int8)[at]

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row."""
        return self._code_if_empty(self.ledger.signature(row))

    def _code_if_empty(self, signature: int) -> int:
        return code_of(self.trials.on_state(NodeState(self.ledger.state(signature).shape)))
