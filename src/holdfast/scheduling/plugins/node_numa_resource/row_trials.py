"""Try a pod on one row, or in one reservation there: the CPUs and NUMA nodes that it would get."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np

from holdfast.runtime.errors import BadRequest
from holdfast.scheduling.framework.plugin import NO_CHANGE, Code, PodChange, Rows, Verdicts
from holdfast.scheduling.framework.reservation_options import ReservationFilter
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import CPU
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.numa.node_policies import amplify
from holdfast.state.numa.node_state import NodeState, PodHolding
from holdfast.state.numa.pod_request import NumaRequest
from holdfast.state.numa.trial import Situation, Trial
from holdfast.state.reservations.matching import ReservationMatch
from holdfast.state.reservations.reserved_resources import expected_reservation, freed_capacity

INSUFFICIENT_AMPLIFIED = "Insufficient amplified cpu"


class RowTrials(ReservationFilter):
    """Trials for one request on single rows, by pods that match the same reservations."""

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

    # --- verdicts and reasons -----------------------------------------------------------------

    def code(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of a row: that of the best option."""
        codes = [self.code_without(row, change)]
        for slot in self.reservations.slots_on(self.match, row):
            if not min(codes):
                break
            codes.append(self.slot_code(slot, change))
        return min(codes)

    def code_without(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of a row if the pod uses no reservation."""
        return self._code(self.trial(row, "", change), row, "", change)

    def slot_code(self, slot: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of a matched reservation."""
        row, uid = self._place(slot)
        return self._code(self.trial(row, uid, change), row, uid, change)

    def filter_reservations(self, slots: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return for each reservation whether it has the CPUs and NUMA nodes for the pod."""
        return np.array([self.slot_code(slot, change) for slot in slots.tolist()], np.int8)

    def filter_pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> int:
        """Return whether a reservation can have the CPUs of pods on a row, and others it needs."""
        trial = self.pre_allocation(row, pods, change)
        return self._code(trial, row, "", _without(change, row, pods))

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why a row is rejected if no reservation is used."""
        return self._reasons(row, "", change)

    def reservation_reasons(self, slot: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return why a reservation is excluded."""
        return self._reasons(*self._place(slot), change)

    # --- trials -------------------------------------------------------------------------------

    def best(self, row: int) -> Trial:
        """Return the trial of the first option that passes, a reservation if possible.

        If several pass, it is the one that is nominated first at equal scores.
        """
        for slot in self.reservations.slots_on(self.match, row):
            trial = self.trial(row, self._place(slot)[1])
            if trial.allocation is not None:
                return trial
        return self.trial(row)

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

    def _reasons(self, row: int, reservation: str, change: PodChange) -> tuple[str, ...]:
        trial = self.trial(row, reservation, change)
        if not trial.unresolvable and self._is_short(trial, row, reservation, change):
            return (INSUFFICIENT_AMPLIFIED,)
        return trial.reasons

    def _is_short(self, trial: Trial, row: int, reservation: str, change: PodChange) -> bool:
        """Return whether a row has too few amplified CPUs for the result of a trial."""
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
        cost, extra = self.amplified(state)
        return cost > free - extra

    def amplified(self, state: NodeState) -> tuple[int, int]:
        """Return the millicores that the pod costs, and other bound CPUs; 0 if not amplified."""
        ratio, millicores = state.shape.policies.ratio, self.request.millicores
        if ratio is None or ratio <= 1:
            return 0, 0
        bound = Situation(self.request, state).bound
        held = 1000 * (state.held & state.shape.topology.cpu.all).bit_count()
        return amplify(millicores, ratio) if bound else millicores, amplify(held, ratio) - held


def _without(change: PodChange, row: int, pods: Sequence[PodInfo]) -> PodChange:
    """Return a change that also removes pods from a row."""
    removed = (*change.removed.get(row, ()), *pods)
    return PodChange(change.added, {**change.removed, row: removed})


def code_of(trial: Trial) -> int:
    """Return the verdict of a trial."""
    if trial.allocation is not None:
        return Code.PASS
    return Code.UNRESOLVABLE if trial.unresolvable else Code.UNSCHEDULABLE
