"""The state of the plugin for pods that ask for the same and match the same reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.matching import ReservationMatch
from holdfast.capacity.reserved_resources import expected_reservation, freed_capacity
from holdfast.columns.interner import CPU
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import BadRequest
from holdfast.framework.plugin import NO_CHANGE, AnyRows, Code, PodChange, Rows, Verdicts
from holdfast.framework.values import rows_at
from holdfast.framework.world import World
from holdfast.numa.node_policies import amplify
from holdfast.numa.node_state import NodeState, PodHolding
from holdfast.numa.pod_request import NumaRequest
from holdfast.numa.trial import Situation, Trial

_FEW = 32
"""So many trials take a few milliseconds at most."""
INSUFFICIENT_AMPLIFIED = "Insufficient amplified cpu"
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
``cost`` is what the pod costs in millicores (else 0), ``extra`` what the CPUs of bound pods cost
more than they request."""


class NumaState:
    """Trials for one request, by row. A pod that is in no ledger, or only asks amounts, may pass.

    Most rows are decided by their signature alone. Rows with a matched reservation, rows where the
    hints of others count, and rows whose reservations the pod ignores are tried one by one.
    """

    def __init__(
        self, world: World, pod: PodInfo, request: NumaRequest, match: ReservationMatch | None
    ) -> None:
        self.nodes = world.nodes
        self.ledger = world.numa
        self.reservations = world.reservations
        self.request = request
        self.trials = world.numa.trials_of(pod, request)
        self.match = match
        self.ignores_reservations = match is not None and match.ignores_reservations
        self.pre_allocates = match is not None and match.pre_allocates
        self._table = np.zeros(0, _RESULT)
        self._generation = -1
        self._tried = (-1, 0)
        """The generation and the number of signatures when all rows had been tried."""
        special = np.zeros(world.nodes.capacity, np.bool_)
        if match is not None and len(match.slots):
            special[match.rows] = True
        self._special: NDArray[np.bool_] | None = special if special.any() else None

    # --- all rows -----------------------------------------------------------------------------

    def verdicts(self, rows: AnyRows) -> Verdicts:
        """Return the verdict of each row; with matched reservations, of the best option."""
        if self.pre_allocates:
            signatures, at = np.unique(self.ledger.signatures()[rows], return_inverse=True)
            codes = [self._code_if_empty(signature) for signature in signatures.tolist()]
            return np.array(codes, np.int8)[at]
        verdicts = self.verdicts_without(rows)
        for position, row in self._special_rows(rows):
            verdicts[position] = self.code(row)
        return verdicts

    def verdicts_without(self, rows: AnyRows) -> Verdicts:
        """Return the verdict of each row if the pod uses no reservation."""
        found = self._results(rows)
        verdicts: Verdicts = found["code"].copy()
        if self.trials.has_provided_hints and found["by_numa_node"].any():
            positions = found["by_numa_node"].nonzero()[0]
            trials, at = self._aligned_trials(rows, positions)
            verdicts[positions] = np.array([code_of(trial) for trial in trials], np.int8)[at]
        if found["cost"].any():
            verdicts[self._short(rows, found) & (verdicts == 0)] = Code.UNSCHEDULABLE
        return verdicts

    def _short(self, rows: AnyRows, results: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return which rows have too few amplified CPUs left for the pod."""
        cost, free = results["cost"], self.nodes.amounts.free[CPU][rows] - results["extra"]
        short: NDArray[np.bool_] = (cost > 0) & (cost > free)
        return short

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

    def _aligned_trials(
        self, rows: AnyRows, positions: NDArray[np.intp]
    ) -> tuple[list[Trial], NDArray[np.intp]]:
        """Return trials with the hints of others, one for equal rows, and which is each row's."""
        there = np.array(rows_at(rows, positions), np.intp)
        if len(there) == 1:  # after a placement; numbering the states of all rows costs more
            return [self.trial(int(there[0]))], np.zeros(1, np.intp)
        different, at = self._different_rows(there)
        return [self.trial(row) for row in different.tolist()], at

    def _different_rows(self, rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
        """Return a row for each different situation, and which is each row's."""
        signatures = self.ledger.signatures()[rows].astype(np.int64)
        states = self.trials.provided_states()[rows]
        both = states * (int(signatures.max(initial=0)) + 1) + signatures
        _, first, at = np.unique(both, return_index=True, return_inverse=True)
        return rows[first], at

    def numa_scores(self, rows: AnyRows) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return for each row whether its NUMA nodes are scored, and their score."""
        found = self._results(rows)
        aligned, scores = found["by_numa_node"], found["score"].copy()
        if self.trials.has_provided_hints and aligned.any():
            positions = aligned.nonzero()[0]
            trials, at = self._aligned_trials(rows, positions)
            scores[positions] = np.array([trial.score for trial in trials], np.float64)[at]
        for position, row in self._special_rows(rows):
            if aligned[position]:
                scores[position] = self.best(row).score
        return aligned, scores

    def extra_cpu(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return how many millicores CPUs cost more than requested, the pod's too, by row."""
        results = self._results(rows)
        cost, extra = results["cost"], results["extra"].copy()
        for position, row in self._special_rows(rows) if extra.any() else ():
            extra[position] = self._amplified(self._without_matched(row))[1]
        found: NDArray[np.int64] = extra + (cost - self.request.millicores) * (cost > 0)
        return found

    def _without_matched(self, row: int) -> NodeState:
        """Return the state of a row without the CPUs that matched reservations have left."""
        assert self.match is not None
        state = self.ledger.state(self.ledger.signature(row))
        slots = self.match.slots[self.match.span(row)].tolist()
        left = [self.ledger.offer(row, self.reservations.at(slot).uid).cpus for slot in slots]
        return state._replace(held=state.held & ~reduce(or_, left, 0))

    def _results(self, rows: AnyRows) -> NDArray[np.void]:
        """Return the results by signature; each new signature is tried once."""
        signatures = self.ledger.signatures()[rows]
        self._make_space()
        found: NDArray[np.void] = self._table[signatures]
        if not found["known"].all():
            self._try(np.unique(signatures[~found["known"]]).tolist())
            found = self._table[signatures]
        return found

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

    def try_in_steps(self) -> Iterator[None]:
        """Try what filter and score will read of all rows, with pauses; the world may change."""
        reservations = self.nodes.epochs["reservations"]
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
        if self.nodes.epochs["reservations"] == reservations:
            yield from self._try_rows_in_steps(reservations)
        self._tried = known

    def _try_rows_in_steps(self, reservations: int) -> Iterator[None]:
        """Try the rows that their signature does not decide, with reservations of this epoch.

        PodTrials keeps the results.
        """
        rows: AnyRows = slice(0, self.nodes.size)
        listed = [row for _, row in self._special_rows(rows)] if not self.pre_allocates else []
        if self.trials.has_provided_hints:
            for provider in self.ledger.hint_providers:
                yield from provider.number_in_steps()
            positions = self._results(rows)["by_numa_node"].nonzero()[0]
            listed += self._different_rows(positions)[0].tolist() if len(positions) else []
        for begin in range(0, len(listed), _FEW):
            yield
            if (self._generation, reservations) != (
                self.ledger.generation,
                self.nodes.epochs["reservations"],
            ):
                return
            for row in listed[begin : begin + _FEW]:
                self.trial(row)
                for slot in self.slots_on(row):
                    self.slot_code(slot)

    def _result(self, state: NodeState) -> tuple[bool, int, float, bool, int, int]:
        trial = self.trials.on_state(state)
        policies = state.shape.policies
        aligned = bool(policies.numa or self.request.numa_policy)
        cost, extra = self._amplified(state)
        return True, code_of(trial), float(trial.score), aligned, cost, extra

    def _amplified(self, state: NodeState) -> tuple[int, int]:
        """Return what the pod costs in millicores, and bound CPUs besides; 0 if not amplified."""
        ratio, millicores = state.shape.policies.ratio, self.request.millicores
        if ratio is None or ratio <= 1:
            return 0, 0
        bound = Situation(self.request, state).bound
        held = 1000 * (state.held & state.shape.topology.cpu.all).bit_count()
        return amplify(millicores, ratio) if bound else millicores, amplify(held, ratio) - held

    def _special_rows(self, rows: AnyRows) -> list[tuple[int, int]]:
        """Return the rows that are tried one by one: positions and rows."""
        if self._special is None:
            return []
        positions = self._special[rows].nonzero()[0]
        return list(zip(positions.tolist(), rows_at(rows, positions), strict=True))

    # --- one row ------------------------------------------------------------------------------

    def code(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of a row: that of the best option."""
        if self.pre_allocates:
            return self._code_if_empty(self.ledger.signature(row))
        codes = [self.code_without(row, change)]
        for slot in self.slots_on(row):
            if not min(codes):
                break
            codes.append(self.slot_code(slot, change))
        return min(codes)

    def _code_if_empty(self, signature: int) -> int:
        """Return the verdict without any pod: they may have all that a reservation takes over.

        The plugin that chooses these pods decides about the row.
        """
        shape = self.ledger.state(signature).shape
        return code_of(self.trials.on_state(NodeState(shape)))

    def code_without(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of a row if the pod uses no reservation."""
        return self._code(self.trial(row, "", change), row, "", change)

    def rows_with_pods(self) -> NDArray[np.bool_]:
        """Return the rows whose verdict may change if pods leave."""
        found = self.ledger.rows_with_pods()
        rows = slice(0, self.nodes.size)
        found[rows] |= self._results(rows)["cost"] > 0
        if self.trials.has_provided_hints:
            for provider in self.ledger.hint_providers:
                found[provider.rows_in_use()] = True
        return found

    def slot_code(self, slot: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of a matched reservation."""
        row, uid = self._place(slot)
        return self._code(self.trial(row, uid, change), row, uid, change)

    def best(self, row: int) -> Trial:
        """Return the trial of the first option that passes, a reservation if possible.

        Of several it is the one that is nominated first at equal scores.
        """
        for slot in self.slots_on(row):
            trial = self.trial(row, self._place(slot)[1])
            if trial.allocation is not None:
                return trial
        return self.trial(row)

    def reasons(
        self, row: int, reservation: str = "", change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return why a row, or a reservation there, is rejected."""
        trial = self.trial(row, reservation, change)
        if not trial.unresolvable and self._is_short(trial, row, reservation, change):
            return (INSUFFICIENT_AMPLIFIED,)
        return trial.reasons

    def slot_reasons(self, slot: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why a matched reservation is rejected."""
        return self.reasons(*self._place(slot), change)

    def slots_on(self, row: int) -> list[int]:
        """Return the slots of the reservations that the pod may use on a row, as nominated."""
        return self.reservations.slots_on(self.match, row)

    def pre_allocation_code(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> int:
        """Return the verdict of a row if a reservation takes over what pods there have."""
        trial = self.pre_allocation(row, pods, change)
        return self._code(trial, row, "", _without(change, row, pods))

    def pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> Trial:
        """Return the trial of a reservation that takes over what pods on a row have."""
        cpus = reduce(or_, (self.ledger.holding(pod.uid).cpus for pod in pods), 0)
        return self.trial(row, "", _without(change, row, pods), cpus)

    def trial(
        self,
        row: int,
        reservation: str = "",
        change: PodChange = NO_CHANGE,
        taken_over: int = 0,
    ) -> Trial:
        """Return the trial on a row, from a reservation by uid ("" for none)."""
        removed = {pod.uid for pod in change.removed.get(row, ())}
        added = change.added.get(row, ())
        return self.trials.on_row(
            row,
            reservation,
            removed=removed,
            added=self._coming(row, added, removed) if added else (),
            without_reservations=self.ignores_reservations,
            taken_over=taken_over,
        )

    def _coming(self, row: int, pods: Sequence[PodInfo], removed: set[str]) -> list[PodHolding]:
        """Return what added pods would get, one after the other."""
        coming: list[PodHolding] = []
        for pod in pods:
            try:
                request = self.ledger.request_of(pod)
            except BadRequest:
                continue
            info = expected_reservation(self.reservations, row, pod)
            uid = "" if info is None else info.uid
            trials = self.ledger.trials_of(pod, request)
            trial = trials.on_row(row, uid, removed={*removed, pod.uid}, added=coming)
            if trial.allocation:
                coming.append(PodHolding(trial.allocation, uid))
        return coming

    def _place(self, slot: int) -> tuple[int, str]:
        info = self.reservations.at(slot)
        return int(self.reservations.columns.row[slot]), info.uid

    def _code(
        self, trial: Trial, row: int, reservation: str = "", change: PodChange = NO_CHANGE
    ) -> int:
        code = code_of(trial)
        if not code and self._is_short(trial, row, reservation, change):
            return Code.UNSCHEDULABLE
        return code

    def _is_short(self, trial: Trial, row: int, reservation: str, change: PodChange) -> bool:
        """Return whether amplified CPUs are short on a row for what a trial found."""
        ledger = self.ledger
        ratio = ledger.state(ledger.signature(row)).shape.policies.ratio
        if ratio is None or ratio <= 1 or not self.request.millicores:
            return False
        removed = {pod.uid for pod in change.removed.get(row, ())}
        added = self._coming(row, change.added.get(row, ()), removed)
        state = ledger.changed_state(
            row, removed, added, without_reservations=self.ignores_reservations
        )
        freed = freed_capacity(self.reservations, change).rows.get(row, {}) if change else {}
        free = self.nodes.amounts.free_on(row, CPU) + freed.get(CPU, 0)
        if reservation:
            left = self.reservations.by_uid[reservation].held_amounts.get(CPU, 0)
            free += min(left, self.request.millicores)
            # CPUs that the pod takes from the reservation are its own from now on.
            taken = 0 if trial.allocation is None else trial.allocation.cpus
            offered = ledger.offer(row, reservation, removed, added).cpus
            state = state._replace(held=state.held & ~(offered & taken))
        elif self.ignores_reservations:
            held = (info.held_amounts for info in self.reservations.on_row(row))
            free += sum(amounts.get(CPU, 0) for amounts in held)
        cost, extra = self._amplified(state)
        return cost > free - extra


def _without(change: PodChange, row: int, pods: Sequence[PodInfo]) -> PodChange:
    """Return a change that also removes pods from a row."""
    removed = (*change.removed.get(row, ()), *pods)
    return PodChange(change.added, {**change.removed, row: removed})


def code_of(trial: Trial) -> int:
    """Return the verdict of a trial."""
    if trial.allocation is not None:
        return Code.PASS
    return Code.UNRESOLVABLE if trial.unresolvable else Code.UNSCHEDULABLE
