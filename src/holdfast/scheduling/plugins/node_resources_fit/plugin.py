"""The plugin: filter by free resources, score by the configured strategy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import DeviceClass
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.quantity import milli, units
from holdfast.api.requests import PodResourcesOptions, pod_request
from holdfast.api.resource_names import is_extended, is_scalar
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeFilter,
    NodeScorer,
    Plugin,
    PodChange,
    PreemptionRules,
    RawScores,
    Reject,
    RequiredResources,
    Rows,
    Scope,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.node_resources_fit.arguments import FitArgs, read_args
from holdfast.scheduling.plugins.node_resources_fit.strategies import RowScore, Scorer
from holdfast.state.columns.amounts import RequestedAmounts
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.interner import CPU, MEMORY, PODS, ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.request_fit import (
    InsufficientResource,
    RequestFit,
    remaining_of,
    short_bits,
)
from holdfast.state.devices.inventory import IMPLICIT_PREFIX
from holdfast.state.reservations.reservation_cache import ReservationCache
from holdfast.state.reservations.reserved_resources import freed_capacity

TOO_MANY = "Too many pods"
PREEMPTION_FAILED = "node(s) preemption failed due to insufficient resources"
# kube-scheduler's scorer ignores pod-level resources; its filter does not.
_BY_CONTAINERS = PodResourcesOptions(pod_level=False)
Freed = Callable[[ReservationCache, int, PodChange], tuple[dict[int, int], int]]
Backs = Callable[[str], bool]
"""Returns whether devices may provide a resource on nodes that have none of it."""
RequestsByName = Mapping[str, int]
"""The pod's requests by name, without zeros."""
_read: deque[tuple[Node, Mapping[str, int]]] = deque(maxlen=2)


def _freed_by_any_pod(
    _reservations: ReservationCache, row: int, change: PodChange
) -> tuple[dict[int, int], int]:
    return change.freed_resources(row)


def _freed(
    reservations: ReservationCache, row: int, change: PodChange
) -> tuple[dict[int, int], int]:
    """Return what becomes free on a row, without what victims allocated from a reservation.

    An added pod that allocates from a reservation does not reduce what is free.
    """
    if not reservations:
        return change.freed_resources(row)
    freed = freed_capacity(reservations, change).rows.get(row, {})
    return freed, freed.get(PODS, 0)


class FitPlan(NodeFilter, NodeScorer, PreemptionRules):
    """Reject nodes on which one request does not fit; score the others by the strategy.

    ``reserved_rows`` are left to the Reservation plugin.
    """

    __slots__ = ("_names", "_reservations", "_reserved_row_set", "_scorer", "device_backed", "fit",
                 "request", "reserved_rows", "score_row")  # fmt: skip
    score_row: RowScore
    """The function of the strategy itself: a method that calls it would be slower."""

    def __init__(self, request: RequestedAmounts, scorer: Scorer, view: View) -> None:
        nodes, world = view.nodes, view.world
        self.request = request
        self.device_backed = world.devices.device_backed(request)
        self.fit = RequestFit.of(nodes.amounts, request, self.device_backed)
        self.reserved_rows: NDArray[np.bool_] | None = None
        self._reserved_row_set = frozenset[int]()
        matched = view.matched_reservations
        if matched is not None and len(matched.rows):
            self.reserved_rows = np.zeros(nodes.capacity, np.bool_)
            self.reserved_rows[matched.rows] = True
            self._reserved_row_set = frozenset(matched.rows.tolist())
        self._names = nodes.resources
        self._reservations = world.reservations
        self._scorer = scorer
        self.score_row = scorer.of_row()

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows that are short: as unresolvable if they are short even when empty."""
        fits = self.fit.fits(rows)
        if self.reserved_rows is not None:
            fits |= self.reserved_rows[rows]
        verdicts: Verdicts = (~fits).view(np.int8)
        if self.request and np.count_nonzero(fits) < len(fits):
            verdicts[~(self.fit.fits_if_empty(rows) | fits)] = Code.UNRESOLVABLE
        if change:
            for position, row in change.positions_in(rows):
                verdicts[position] = self.filter_row(row, change)
        return verdicts

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row."""
        if change is NO_CHANGE and self.fit.fits_at(row):
            return 0
        if row in self._reserved_row_set:
            return 0
        short = self._shortages(row, change)
        if any(shortage.unresolvable for shortage in short):
            return 2
        return 1 if short else 0

    def score(self, rows: AnyRows) -> RawScores:
        """Score by the strategy."""
        return self._scorer.many(rows)

    def required_resources(self) -> RequiredResources:
        """Return the request; it does not decide rows with a matched reservation."""
        return RequiredResources(self.request, self.device_backed, self.reserved_rows)

    def depends_on_pods(self) -> NDArray[np.bool_] | bool:
        """Return rows with allocated reservations: evicting an owner frees nothing there."""
        if not self._reservations:
            return False
        has_allocations = np.zeros(len(self.fit.needs[0].free), np.bool_)
        has_allocations[self._reservations.rows_with_allocations()] = True
        return has_allocations

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return everything that is short, pod slots first.

        The reason is different if only owners of a reservation would gain from the evictions: what
        a victim allocated from a reservation stays reserved.
        """
        short = self._shortages(row, change)
        if change and short and not self._shortages(row, change, _freed_by_any_pod):
            return (PREEMPTION_FAILED,)
        return tuple(self.reason_of(shortage.resource) for shortage in short)

    def reason_of(self, resource: int) -> str:
        """Return kube-scheduler's reason for a resource that is short."""
        return TOO_MANY if resource == PODS else f"Insufficient {self._names[resource]}"

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the shortages of many rows."""
        every = slice(0, len(self.fit.needs[0].free))
        # Comparing all rows is cheaper than selecting some.
        counted = np.zeros(every.stop, np.bool_)
        counted[rows] = True
        reasons = (TOO_MANY, *[f"Insufficient {self._names[r]}" for r, _ in self.request])
        counts = {
            reason: int(np.count_nonzero(counted & (remaining < 0)))
            for reason, remaining in zip(reasons, self.fit.remaining(every), strict=True)
        }
        return {reason: count for reason, count in counts.items() if count}

    def reason_groups(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return a number per row with one bit for each shortage."""
        return short_bits(self.fit.remaining(rows))

    def _shortages(
        self, row: int, change: PodChange, freed_by: Freed = _freed
    ) -> list[InsufficientResource]:
        """Return everything that is short on a row."""
        if not change:
            return self.fit.shortages(row)
        freed, pod_slots = freed_by(self._reservations, row, change)
        return self.fit.shortages(row, [pod_slots, *[freed.get(r, 0) for r, _ in self.request]])


class NodeResourcesFit(Plugin):
    """Filter nodes without enough free resources; score by the strategy."""

    name = "NodeResourcesFit"
    traits = Traits(
        scope=Scope.ROW,
        epochs=(Epoch.CLASSES,),
        events_to_register={
            EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_ALLOCATABLE),
            EventResource.POD: (ActionType.DELETE, ActionType.UPDATE_POD_SCALE_DOWN),
            EventResource.DEVICE_CLASS: (ActionType.ADD, ActionType.UPDATE),
        },
        accepts_slices=True,
    )
    plan_classes = (FitPlan,)

    def __init__(self, args: Mapping[str, Any] | FitArgs) -> None:
        self._args = args if isinstance(args, FitArgs) else read_args(args)
        self._scored = [(name, w, is_scalar(name)) for name, w in self._args.resources]
        self._scalars = any(scalar for _, _, scalar in self._scored)
        self._ignores = bool(self._args.ignored or self._args.ignored_groups)
        if self._scalars:  # devices may serve them
            self.traits = replace(self.traits, epochs=(Epoch.CLASSES, Epoch.DEVICES))

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the request, and the rows where a reservation may provide it."""
        return (pod.request, _scored(pod), view.reserved_key)

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None] | None:
        """Count in short steps the devices that serve scored resources."""
        if not self._scalars:
            return None
        ids = [id_ for id_, _, _ in self._terms(pod, view.nodes.resources)]
        served = view.world.devices.device_backed_resources(ids).values()
        return chain.from_iterable(resource.count_in_steps() for resource in served)

    def pre_filter(self, pod: PodInfo, view: View) -> FitPlan | Reject:
        """Look up the columns of everything requested."""
        if not self._args.resources:
            return Reject(Code.ERROR, ("resources not found",))
        nodes = view.nodes
        names, request = nodes.resources, pod.request
        if self._ignores:
            request = tuple((r, a) for r, a in request if not self.ignores_resource(names[r]))
        terms = self._terms(pod, names)
        ids = (id_ for id_, _, _ in terms)
        served = view.world.devices.device_backed_resources(ids) if self._scalars else {}
        scorer = Scorer(self._args, nodes.amounts, terms, served, view.reserved_for_pod)
        return FitPlan(request, scorer, view)

    def ignores_resource(self, name: str) -> bool:
        """Return whether the configuration excludes a resource from the filter."""
        if not is_extended(name):
            return False
        return (
            name in self._args.ignored
            or name.split("/", maxsplit=1)[0] in self._args.ignored_groups
        )

    def _terms(self, pod: PodInfo, names: ResourceNames) -> list[tuple[int, int, int]]:
        amounts = dict(pod.request)
        amounts[CPU], amounts[MEMORY] = _scored(pod)
        terms = [(names.id(name), weight, scalar) for name, weight, scalar in self._scored]
        return [
            (id_, weight, amounts.get(id_, 0))
            for id_, weight, scalar in terms
            if amounts.get(id_, 0) or not scalar
        ]

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue for more allocatable, a pod deleted or shrunk, or a device class."""
        names = view.nodes.resources
        asked = {names[resource]: amount for resource, amount in pod.request}
        if event.resource == EventResource.NODE:
            backs = view.world.devices.device_class_for
            return node_helps(asked, event.old, event.new, lambda n: backs(n) is not None)
        if event.resource == EventResource.DEVICE_CLASS:
            return class_helps(asked, event.old, event.new)
        if event.resource not in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD):
            return False
        return pod_helps(pod.pod, asked, event.old, event.new)


def _scored(pod: PodInfo) -> tuple[int, int]:
    """Return the cpu and memory that scoring counts: the sum over containers."""
    if pod.pod.spec.resources is None:
        return pod.nonzero_millicores, pod.nonzero_bytes
    asked = pod_request(pod.pod, _BY_CONTAINERS)
    return asked.nonzero_millicores, asked.nonzero_bytes


def fits_empty(asked: RequestsByName, node: Node, backs: Backs) -> bool:
    """Return whether the pod would fit on the node without other pods."""
    has = _allocatable(node)
    if has.get("pods", 0) < 1:
        return False
    return all(
        remaining_of(own := has.get(name, 0), amount, own, device_backed=backs(name)) >= 0
        for name, amount in asked.items()
    )


def grew(asked: RequestsByName, old: Node, new: Node, backs: Backs) -> bool:
    """Return whether the node has more of a requested resource, or more pod slots."""
    had, has = _allocatable(old), _allocatable(new)
    if has.get("pods", 0) > had.get("pods", 0):
        return True
    return any(
        has.get(name, 0) > had.get(name, 0) or (not has.get(name, 0) and backs(name))
        for name in asked
    )


def node_helps(asked: RequestsByName, old: Node | None, new: Node | None, backs: Backs) -> bool:
    """Return whether the pod may fit on a node that was added or updated."""
    if new is None or not fits_empty(asked, new, backs):
        return False
    return old is None or grew(asked, old, new, backs)


def pod_helps(pod: Pod, asked: RequestsByName, old: Pod | None, new: Pod | None) -> bool:
    """Return whether a pod was deleted or requests less; it may be the waiting pod itself."""
    if new is None:
        return old is not None and bool(old.spec.node_name or old.status.nominated_node_name)
    if new.uid == pod.uid:
        return True
    if old is None or not new.spec.node_name:
        return False
    before, after = pod_request(old).amounts, pod_request(new).amounts
    return any(before.get(name, 0) > after.get(name, 0) for name in asked)


def class_helps(asked: RequestsByName, old: DeviceClass | None, new: DeviceClass | None) -> bool:
    """Return whether a device class now provides a resource that the pod requests."""
    if new is None:
        return False
    named = new.spec.extended_resource_name
    if old is not None:
        return named != old.spec.extended_resource_name and named in asked
    return named in asked or f"{IMPLICIT_PREFIX}{new.name}" in asked


def _allocatable(node: Node) -> Mapping[str, int]:
    # One event is compared with every class of waiting pods: its nodes are read once.
    for seen, amounts in _read:
        if seen is node:
            return amounts
    allocatable = {
        name: milli(amount) if name == "cpu" else units(amount)
        for name, amount in node.status.allocatable.items()
    }
    _read.appendleft((node, allocatable))
    return allocatable
