"""The plugin: filter and score nodes by a search for each state, and allocate devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.koordinator_names import DEVICE_ALLOCATED
from holdfast.capacity.matching import ReservationMatch
from holdfast.columns.claimants import assumed_claimant
from holdfast.columns.pod_info import PodInfo
from holdfast.device_share.allocation_annotation import allocations_text
from holdfast.device_share.allocations import use_of
from holdfast.device_share.ledger import DeviceOptions
from holdfast.errors import BadRequest
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.values import positions_of, rows_at
from holdfast.framework.view import View
from holdfast.numa.ledger import EPOCH as NUMA_EPOCH
from holdfast.numa.pod_trials import PodTrials
from holdfast.plugins.device_share import queueing_hints
from holdfast.plugins.device_share.arguments import read_args
from holdfast.plugins.device_share.explanation import explain_rows
from holdfast.plugins.device_share.searches import Found, Searches, asked_by, asks_for_devices
from holdfast.plugins.device_share.state import DeviceState, guiding_metadata
from holdfast.shared_cache import SharedCache

_FEW_ROWS = 8
_MOST_SEARCHES = 256
"""Requests whose results are kept."""


class DeviceShare:
    """Allocates GPUs, RDMA cards and FPGAs of nodes that have a Device object."""

    name: ClassVar[str] = "DeviceShare"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.ROW,
        epochs=("shared_devices", "reservations", "classes", NUMA_EPOCH),
        events_to_register={
            "Device": (),
            "Node": ("Add", "UpdateNodeAllocatable", "UpdateNodeLabel"),
            "AssignedPod": ("Delete",),
            "UnschedulablePod": (),
            "Reservation": (),
        },
        reads_outside_spec=True,
        comparable_plans=True,
        accepts_slices=True,
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})
        self._options = DeviceOptions(self.args.strategy, self.args.aligns)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the request for devices, and what else decides about it."""
        outside = self.key_outside_spec(pod, view)
        return None if outside is None else (pod.request, pod.pod.spec.priority, outside)

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return annotations, labels and reservations of a pod that requests devices."""
        if not asks_for_devices(pod, view.nodes.resources):
            return None
        matched = view.matched_reservations
        return (guiding_metadata(pod.pod), None if matched is None else matched.key)

    def pre_filter(self, pod: PodInfo, view: View) -> DeviceState | Skip | Reject:
        """Read what the pod asks of devices; it is the normal form of its requests."""
        world, resources = view.world, view.nodes.resources
        world.device_share.options[pod.scheduler_name] = self._options
        if not world.device_share or not asks_for_devices(pod, resources):
            return Skip()
        with_class = tuple(sorted(world.devices.device_backed(pod.request)))
        searches_for = self._searches_for(pod, view)
        asked = searches_for(frozenset()).asked
        if isinstance(asked, Found) and not with_class:
            return Reject(Code(asked.code), asked.reasons) if asked.code else Skip()
        found = view.matched_reservations
        match = found if isinstance(found, ReservationMatch) and len(found.rows) else None
        return DeviceState(
            view.nodes, world.device_share, world.reservations, world.devices, searches_for, match,
            with_class, self._numa_trials(pod, view),
        )  # fmt: skip

    def _numa_trials(self, pod: PodInfo, view: View) -> PodTrials | None:
        """Return what decides about NUMA nodes for the pod, None if there is no NUMA policy.

        A profile without NodeNUMAResource has none.
        """
        ledger = view.world.numa
        if not self.args.aligns or pod.scheduler_name not in ledger.options:
            return None
        try:
            request = ledger.request_of(pod)
        except BadRequest:
            return None
        if not request.numa_policy and not ledger.concerns_all_pods:
            return None
        return ledger.trials_of(pod, request)

    def _searches_for(self, pod: PodInfo, view: View) -> Callable[[frozenset[int]], Searches]:
        """Return the searches for a request in this world; pods that ask the same share them."""
        world, resources = view.world, view.nodes.resources
        known: SharedCache[Searches] = world.caches.setdefault(
            (self.name, self.args), SharedCache(_MOST_SEARCHES)
        )

        @cache
        def searches_for(served: frozenset[int]) -> Searches:
            asked = asked_by(pod, resources, served)
            found = known.get(asked, pod.namespace)
            if found is None:
                found = Searches(world.device_share, asked, self.args)
                known.put(asked, found, pod.namespace)
            return found

        return searches_for

    def filter_needs_preparation(self, pod: PodInfo, view: View) -> bool:
        """Return whether devices are to be searched for the pod."""
        return asks_for_devices(pod, view.nodes.resources)

    def prepare_filter(self, state: DeviceState) -> Iterator[None]:
        """Search the devices of all nodes in short steps."""
        return state.search_in_steps()

    def filter(self, state: DeviceState, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes of which no option passes: neither one of the reservations, nor none."""
        if state.pre_allocates:
            return _by_case(state, rows, state.if_unused, _code, np.int8)
        verdicts = _codes(state, rows)
        for position, row in _special_rows(state, rows, change):
            verdicts[position] = state.best(row, change).code
        return verdicts

    def filter_without_reservation(
        self, state: DeviceState, rows: Rows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Reject nodes whose devices do not serve the request beside all reservations."""
        verdicts = _codes(state, rows)
        for position, row in change.positions_in(rows) if change else ():
            verdicts[position] = state.without_reservation(row, change).code
        return verdicts

    def filter_reservations(
        self, state: DeviceState, slots: Rows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Exclude reservations with which the devices of their node do not serve the request."""
        codes = [state.of_reservation(slot, change).code for slot in slots.tolist()]
        return np.array(codes, np.int8)

    def filter_pre_allocation(
        self, state: DeviceState, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> int:
        """Return whether a reservation can have the devices of pods, and what it lacks besides."""
        return state.pre_allocation(row, pods, change).code

    def reservation_reasons(
        self, state: DeviceState, slot: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return why the devices of the reservation's node do not serve the request."""
        return state.of_reservation(slot, change).reasons

    def filter_row(self, state: DeviceState, row: int, change: PodChange) -> int:
        """Return the verdict of one row after a change."""
        return state.best(row, change).code

    def score(self, state: DeviceState, rows: AnyRows) -> RawScores:
        """Score by what is used of the devices."""
        if state.pre_allocates:
            return _by_case(state, rows, state.if_unused, _score, np.float64)
        scores = _scores(state, rows)
        for position, row in _special_rows(state, rows, NO_CHANGE):
            scores[position] = state.best(row).score
        return scores

    def filter_and_score_row(self, state: DeviceState, row: int) -> tuple[int, float]:
        """Return the same for one row."""
        found = state.best(row)
        return found.code, float(found.score)

    def normalize_by_range(self, state: DeviceState, raw: Any, low: float, high: float) -> Any:
        """Scale the best row to 100."""
        return np.floor(raw * 100.0 / high) if high > 0 else raw

    def depends_on_pods(self, state: DeviceState) -> NDArray[np.bool_]:
        """Return the rows with pods that use devices."""
        found = np.zeros(state.nodes.capacity, np.bool_)
        found[state.ledger.rows_with_pods()] = True
        return found

    def reasons(
        self, state: DeviceState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return why the devices of the node do not serve the request."""
        return state.without_reservation(row, change).reasons

    def explain(self, state: DeviceState, rows: Rows) -> Mapping[str, Any]:
        """Return what the pod lacks; on nodes that other plugins rejected first if these are all.

        A shortage on every device is often one of the sum too, which NodeResourcesFit rejects.
        """
        if not len(rows):
            every = state.nodes.rows
            rows = every[self.filter(state, every) != Code.PASS]
        return explain_rows(state, rows)

    def reason_groups(self, state: DeviceState, rows: AnyRows) -> NDArray[np.int64]:
        """Return the numbers of the rows' states."""
        return state.cases(rows)

    def count_reasons(self, state: DeviceState, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of many rows."""
        counts: Counter[str] = Counter()
        _, first, times = np.unique(state.cases(rows), return_index=True, return_counts=True)
        for row, count in zip(rows[first].tolist(), times.tolist(), strict=True):
            for reason in state.without_reservation(row).reasons:
                counts[reason] += count
        return counts

    def reserve(self, state: DeviceState, placement: Placement) -> Reject | None:
        """Allocate devices of the node, or of the nominated reservation and no other.

        They are written with the Binding.
        """
        ledger, uid, node = state.ledger, placement.pod.uid, placement.node
        found = _found(state, placement)
        if found.code:
            return Reject(Code(found.code), found.reasons)
        if found.allocations is None:
            return None
        use = use_of(found.allocations)
        if placement.pod.is_reserve_pod:
            ledger.enter_reservation(uid, node, use, yields=True)
        else:
            claimant = assumed_claimant(placement.pod)
            ledger.enter(uid, node, use, placement.reservation, claimant)
        text = allocations_text(found.allocations, ledger.ids(node))
        placement.annotations[DEVICE_ALLOCATED] = text
        return None

    def unreserve(self, state: DeviceState, placement: Placement) -> None:
        """Release the devices, unless the pod is confirmed: then its annotation counts."""
        uid, nodes = placement.pod.uid, state.nodes
        if nodes.is_assumed(uid) or nodes.pod(uid) is None:
            state.ledger.remove(uid)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue when devices become free or change, or the pod's annotations do."""
        return self.traits.registers(event) and queueing_hints.helps(event, pod, view)


def _found(state: DeviceState, placement: Placement) -> Found:
    """Return the result for the chosen node, and the reservation or pods chosen there."""
    row, change = placement.row, NO_CHANGE
    if state.numa is not None:
        # The pod has its CPUs already; its NUMA nodes are to be found as they were before.
        change = PodChange(removed={row: (placement.pod,)})
    if placement.pre_allocated:
        return state.pre_allocation(row, placement.pre_allocated, change)
    if placement.reservation:
        info = state.reservations.by_uid[placement.reservation]
        return state.of_reservation(info.slot, change)
    return state.without_reservation(row, change)


def _special_rows(state: DeviceState, rows: AnyRows, change: PodChange) -> list[tuple[int, int]]:
    """Return the rows whose state alone does not decide, as (position in ``rows``, row)."""
    special = {*change.added, *change.removed}
    if state.match is not None:
        special.update(state.match.rows.tolist())
    return positions_of(special, rows)


def _codes(state: DeviceState, rows: AnyRows) -> Verdicts:
    """Return the codes of rows if the pod uses no reservation there."""
    if not _has_stored_results(state, rows):
        return _by_case(state, rows, state.without_reservation, _code, np.int8)
    results, cases = state.results(rows)
    return results.codes(cases)


def _scores(state: DeviceState, rows: AnyRows) -> RawScores:
    """Return the scores of rows if the pod uses no reservation there."""
    if not _has_stored_results(state, rows):
        return _by_case(state, rows, state.without_reservation, _score, np.float64)
    results, cases = state.results(rows)
    return results.scores(cases)


def _has_stored_results(state: DeviceState, rows: AnyRows) -> bool:
    """Return whether to look up results by case; for few rows that costs more than it saves."""
    count = rows.stop - (rows.start or 0) if isinstance(rows, slice) else len(rows)
    return count > _FEW_ROWS and state.depends_on_cases_alone


def _by_case(
    state: DeviceState,
    rows: AnyRows,
    of_row: Callable[[int], Found],
    value: Callable[[Found], float],
    dtype: type[Any],
) -> NDArray[Any]:
    """Return a value for each row, computed once for rows in equal states."""
    _, first, places = np.unique(state.cases(rows), return_index=True, return_inverse=True)
    table = np.array([value(of_row(row)) for row in rows_at(rows, first)], dtype)
    found: NDArray[Any] = table[places]
    return found


def _code(found: Found) -> int:
    return found.code


def _score(found: Found) -> float:
    return found.score
