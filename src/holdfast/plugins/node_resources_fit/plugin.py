"""The plugin: filter by what is free, score by the configured strategy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api.requests import Reading, pod_request
from holdfast.api.resource_names import is_extended, is_scalar
from holdfast.capacity.held_room import given_back
from holdfast.capacity.offers import Offers
from holdfast.columns.amounts import Amounts, Request
from holdfast.columns.cells import Cells
from holdfast.columns.interner import CPU, MEMORY, PODS, ResourceNames
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import (
    NONE,
    AnyRows,
    Change,
    ClusterEvent,
    Code,
    Needs,
    RawScores,
    Reject,
    Rows,
    Scope,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View
from holdfast.plugins.node_resources_fit import hints
from holdfast.plugins.node_resources_fit.arguments import FitArgs, read_args
from holdfast.plugins.node_resources_fit.strategies import Scorer

TOO_MANY = "Too many pods"
IN_VAIN = "node(s) preemption failed due to insufficient resources"
# Upstream's scorer does not look at what the pod asks for as a whole; its filter does.
_BY_CONTAINERS = Reading(pod_level=False)


class FitState(NamedTuple):
    """What one request needs, with the columns it is compared with.

    ``backed`` are resources that devices may serve instead: they are not checked on nodes that
    have none of them. ``left`` marks rows where the Reservation plugin has the word.
    """

    amounts: Amounts
    names: ResourceNames
    needs: Request
    slots: NDArray[np.int64]
    columns: tuple[tuple[NDArray[np.int64], int, int], ...]
    """What is free of each resource needed, how much is needed, and which it is."""
    needs_at: tuple[tuple[Cells[int], int, int], ...]
    slots_at: Cells[int]
    backed: frozenset[int]
    left: NDArray[np.bool_] | None
    left_rows: frozenset[int]
    scorer: Scorer
    offers: Offers


class Shortage(NamedTuple):
    """One resource a row has too little of; unresolvable: it never had enough."""

    resource: str
    requested: int
    used: int
    capacity: int
    unresolvable: bool

    @property
    def reason(self) -> str:
        """Upstream's words for it."""
        return TOO_MANY if self.resource == "pods" else f"Insufficient {self.resource}"


class NodeResourcesFit:
    """Rule out nodes without room; prefer by LeastAllocated or another strategy."""

    name: ClassVar[str] = "NodeResourcesFit"
    traits: Traits = Traits(
        scope=Scope.ROW,
        epochs=("classes",),
        hears={
            "Node": ("Add", "UpdateNodeAllocatable"),
            "Pod": ("Delete", "UpdatePodScaleDown"),
            "DeviceClass": ("Add", "Update"),
        },
        sliced=True,
    )

    def __init__(self, args: Mapping[str, Any] | FitArgs) -> None:
        self._args = args if isinstance(args, FitArgs) else read_args(args)
        self._scored = [(name, w, is_scalar(name)) for name, w in self._args.resources]
        self._scalars = any(scalar for _, _, scalar in self._scored)
        self._ignores = bool(self._args.ignored or self._args.ignored_groups)
        if self._scalars:  # devices may serve them
            self.traits = replace(self.traits, epochs=("classes", "devices"))

    def reads(self, pod: PodFacts, view: View) -> Hashable:
        """The request, and on which rows an offer may serve it instead of free room."""
        return (pod.request, _scored(pod), view.lifts)

    def prepare(self, pod: PodFacts, view: View) -> FitState | Reject:
        """Look up the columns of everything asked for."""
        if not self._args.resources:
            return Reject(Code.ERROR, ("resources not found",))
        nodes = view.nodes
        amounts, names = nodes.amounts, nodes.resources
        needs = pod.request
        if self._ignores:
            needs = tuple((r, a) for r, a in needs if not self.uncounted(names[r]))
        columns = tuple([(amounts.free[r], a, r) for r, a in needs])
        needs_at = tuple([(amounts.free_at[r], a, r) for r, a in needs])
        terms = self._terms(pod, names)
        served = view.world.devices.served(id_ for id_, _, _ in terms) if self._scalars else {}
        left, left_rows = None, frozenset[int]()
        matched = view.matched
        if matched is not None and len(matched.rows):
            left = np.zeros(nodes.capacity, np.bool_)
            left[matched.rows] = True
            left_rows = frozenset(matched.rows.tolist())
        return FitState(
            amounts=amounts, names=names, needs=needs, slots=amounts.free[PODS], columns=columns,
            needs_at=needs_at, slots_at=amounts.free_at[PODS], left=left, left_rows=left_rows,
            backed=view.world.devices.backing(needs),
            scorer=Scorer(self._args, amounts, terms, served, view.lifted),
            offers=view.world.offers,
        )  # fmt: skip

    def uncounted(self, name: str) -> bool:
        """Tell whether a resource is left to somebody else to count, by configuration."""
        if not is_extended(name):
            return False
        return (
            name in self._args.ignored
            or name.split("/", maxsplit=1)[0] in self._args.ignored_groups
        )

    def _terms(self, pod: PodFacts, names: ResourceNames) -> list[tuple[int, int, int]]:
        amounts = dict(pod.request)
        amounts[CPU], amounts[MEMORY] = _scored(pod)
        terms = [(names.id(name), weight, scalar) for name, weight, scalar in self._scored]
        return [
            (id_, weight, amounts.get(id_, 0))
            for id_, weight, scalar in terms
            if amounts.get(id_, 0) or not scalar
        ]

    def filter(self, state: FitState, rows: AnyRows, change: Change = NONE) -> Verdicts:
        """Unschedulable where room is short, unresolvable where there never was enough."""
        fits: NDArray[np.bool_] = state.slots[rows] >= 1
        for free, amount, resource in state.columns:
            enough = free[rows] >= amount
            if resource in state.backed:
                enough |= state.amounts.allocatable[resource][rows] == 0
            fits &= enough
        if state.left is not None:
            fits |= state.left[rows]
        verdicts: Verdicts = (~fits).view(np.int8)
        if state.needs and np.count_nonzero(fits) < len(fits):
            verdicts[self._never(state, rows) & ~fits] = Code.UNRESOLVABLE
        if change:
            for position, row in change.touches(rows):
                verdicts[position] = self.verdict(state, row, change)
        return verdicts

    def _never(self, state: FitState, rows: AnyRows) -> NDArray[np.bool_]:
        allocatable = state.amounts.allocatable
        never: NDArray[np.bool_] = np.zeros(len(allocatable[CPU][rows]), np.bool_)
        for resource, amount in state.needs:
            short = allocatable[resource][rows] < amount
            if resource in state.backed:
                short &= allocatable[resource][rows] > 0
            never |= short
        return never

    def score(self, state: FitState, rows: AnyRows) -> RawScores:
        """By the strategy."""
        return state.scorer.many(rows)

    def row(self, state: FitState, row: int) -> tuple[int, float]:
        """The same for one row."""
        verdict = 0
        if state.slots_at[row] < 1:
            verdict = self.verdict(state, row, NONE)
        else:
            for free_at, amount, _ in state.needs_at:
                if free_at[row] < amount:
                    verdict = self.verdict(state, row, NONE)
                    break
        return verdict, state.scorer.one(row)

    def verdict(self, state: FitState, row: int, change: Change) -> int:
        """The same as filter for one row, under a change."""
        if row in state.left_rows:
            return 0
        short = _shortages(state, row, change)
        if any(shortage.unresolvable for shortage in short):
            return 2
        return 1 if short else 0

    def needs(self, state: FitState) -> Needs:
        """The request; rows with a matched offer are judged by what is held there too."""
        return Needs(state.needs, state.backed, state.left)

    def rests_on_pods(self, state: FitState) -> NDArray[np.bool_] | None:
        """What a pod draws on an offer does not become free when it leaves."""
        if not state.offers:
            return None
        drawn = np.zeros(len(state.slots), np.bool_)
        drawn[state.offers.rows_drawn()] = True
        return drawn

    def shortages(self, state: FitState, row: int, change: Change = NONE) -> list[Shortage]:
        """Everything that is short on a row, pods first."""
        return _shortages(state, row, change)

    def reasons(self, state: FitState, row: int, change: Change = NONE) -> tuple[str, ...]:
        """Everything that is short, pods first; or that victims would make no room, but for owners.

        What a victim drew on a reservation stays held for others like it.
        """
        short = _shortages(state, row, change)
        if change and short and not _shortages(state, row, change, _freed_at_all):
            return (IN_VAIN,)
        return tuple(shortage.reason for shortage in short)

    def tally(self, state: FitState, rows: Rows) -> Mapping[str, int]:
        """Count the shortages of many rows."""
        free = state.amounts.free
        # Comparing all rows is cheaper than picking some.
        asked = np.zeros(len(free[PODS]), np.bool_)
        asked[rows] = True
        counts = {TOO_MANY: int(np.count_nonzero(asked & (free[PODS] < 1)))}
        for resource, amount in state.needs:
            short = asked & (free[resource] < amount)
            if resource in state.backed:
                short &= state.amounts.allocatable[resource] > 0
            counts[f"Insufficient {state.names[resource]}"] = int(np.count_nonzero(short))
        return {reason: count for reason, count in counts.items() if count}

    def groups(self, state: FitState, rows: AnyRows) -> NDArray[np.int64]:
        """A bit for each thing that is short."""
        free = state.amounts.free
        short = (free[PODS][rows] < 1).astype(np.int64)
        for bit, (resource, amount) in enumerate(state.needs, 1):
            lacking = free[resource][rows] < amount
            if resource in state.backed:
                lacking &= state.amounts.allocatable[resource][rows] > 0
            short |= lacking.astype(np.int64) << bit
        grouped: NDArray[np.int64] = short
        return grouped

    def hint(self, event: ClusterEvent, pod: PodFacts, view: View) -> bool:
        """A node with more room, a pod or reservation that left or shrank, a device class."""
        names = view.nodes.resources
        asked = {names[resource]: amount for resource, amount in pod.request}
        if event.resource == "Node":
            backs = view.world.devices.class_for
            return hints.node_helps(asked, event.old, event.new, lambda n: backs(n) is not None)
        if event.resource == "DeviceClass":
            return hints.class_helps(asked, event.old, event.new)
        if event.resource not in ("AssignedPod", "UnschedulablePod"):
            return False
        return hints.pod_helps(pod.pod, asked, event.old, event.new)


Freed = Callable[[Offers, int, Change], tuple[dict[int, int], int]]


def _freed_at_all(_offers: Offers, row: int, change: Change) -> tuple[dict[int, int], int]:
    return change.freed(row)


def _freed(offers: Offers, row: int, change: Change) -> tuple[dict[int, int], int]:
    """Room that becomes free on a row; what a victim drew on an offer stays held for owners.

    And who comes to draw on an offer takes what is held already.
    """
    if not offers:
        return change.freed(row)
    freed = given_back(offers, change).rows.get(row, {})
    return freed, freed.get(PODS, 0)


def _shortages(
    state: FitState, row: int, change: Change, freed_by: Freed = _freed
) -> list[Shortage]:
    """Everything that is short on a row."""
    freed, slots = freed_by(state.offers, row, change) if change else ({}, 0)
    short = []
    if state.slots_at[row] + slots < 1:
        capacity = state.amounts.allocatable_at[PODS][row]
        short.append(Shortage("pods", 1, capacity - state.slots_at[row] - slots, capacity, False))
    for free_at, amount, resource in state.needs_at:
        have = state.amounts.allocatable_at[resource][row]
        if have == 0 and resource in state.backed:
            continue
        free = free_at[row] + freed.get(resource, 0)
        if free < amount:
            name = state.names[resource]
            short.append(Shortage(name, amount, have - free, have, amount > have))
    return short


def _scored(pod: PodFacts) -> tuple[int, int]:
    """Cpu and memory that the scorer counts: not what the pod asks for as a whole."""
    if pod.pod.spec.resources is None:
        return pod.nonzero_millicores, pod.nonzero_bytes
    asked = pod_request(pod.pod, _BY_CONTAINERS)
    return asked.nonzero_millicores, asked.nonzero_bytes
