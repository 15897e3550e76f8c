"""What a row must have left for pods of one priority: room, and no more pods than limits allow.

One row is asked in plain numbers, many as columns. What is short is told in bits: bit 0 a pod slot,
then the needs in order, then two bits a limit: that it is exceeded, and that it always will be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.columns.pod_values import PodValues
from holdfast.columns.ranked_pods import RankedPods
from holdfast.columns.request_fit import ENOUGH, RequestFit, SomeRows, short_bits, short_bits_at
from holdfast.engine.nominated_pods import FilterPair
from holdfast.framework.plugin import RequiredResources, RequiredResourcesPlugin, implements
from holdfast.framework.preemption_support import NEVER, PodLimit, PodLimits, PodLimitsPlugin
from holdfast.framework.world import World
from holdfast.plugins.default_preemption.victims import Balance

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_HOPELESS = NEVER // 2
MOST_BITS = 62
_ROOM_BITS = 29
"""So many are for slots and needs, so that all limits have theirs; the last needs share one."""
_MOST_LIMITS = 16
"""Beyond that many, rows are tried one by one: the bits of what is short are used up."""


class RowBalance(NamedTuple):
    """What one row has left beside the pod were everybody lower gone, and what those ask for."""

    short: int
    slots: int
    columns: list[Sequence[int]]
    left: list[int]


class RowBalances(NamedTuple):
    """The same of many rows: pods that are lower, bits of what is short, what is left to take."""

    there: Ints
    short: Ints
    rests: list[Balance]


class Requirements:
    """The needs and limits of a class of pods of one priority; limits may be replaced by newer."""

    def __init__(self, world: World, ceiling: int, needs: RequiredResources) -> None:
        self._world = world
        self._ceiling = ceiling
        self._fit = RequestFit.of(world.nodes.amounts, needs.amounts, needs.ignored_if_absent)
        self._resources = [resource for resource, _ in needs.amounts]
        self._first = min(1 + len(needs.amounts), _ROOM_BITS)
        """The bit with which those of limits begin."""
        self.limits: Sequence[PodLimit] = ()

    def moved(self, limits: Sequence[PodLimit], size: int) -> Bools | None:
        """Take newer limits; tells on which rows they are others, None if on none."""
        before, self.limits = self.limits, limits
        if any(old.version != new.version for old, new in zip(before, limits, strict=False)):
            # Others may count now, even where as much is left as before.
            return np.ones(size, np.bool_)
        moved: Bools | None = None
        for old, new in zip(before, limits, strict=False):
            if old.remaining is not new.remaining:
                differs = old.remaining[:size] != new.remaining[:size]
                moved = differs if moved is None else moved | differs
        return moved if moved is not None and moved.any() else None

    def room_bits(self) -> int:
        """The bits of everything but limits."""
        return (1 << self._first) - 1

    def limit_bits(self, begin: int, end: int) -> int:
        """The bits of some limits, by place."""
        return ((1 << 2 * (end - begin)) - 1) << (self._first + 2 * begin)

    def _grid(self, limit: PodLimit, ranked: RankedPods) -> PodValues:
        return ranked.values_of(
            limit.key, limit.count_of, limit.version, by_label_group=limit.by_label_group
        )

    def at(self, row: int, ranked: RankedPods, begin: int, end: int) -> RowBalance:
        """Ask one row, on which pods from ``begin`` to ``end`` might go."""
        left = self._fit.remaining_at(row)
        ahead = self._world.nominations.with_priority(self._ceiling, row)
        if ahead:
            taken = self._fit.requests_of(ahead)
            left = [rest - gone for rest, gone in zip(left, taken, strict=True)]
        left[0] += end - begin
        columns: list[Sequence[int]] = []
        for place, resource in enumerate(self._resources, 1):
            asked = ranked.amounts(resource).rows[row]
            asked = asked[begin:] if begin else asked
            left[place] += sum(asked)
            columns.append(asked)
        short = short_bits_at(left, self._first - 1)
        for i, limit in enumerate(self.limits):
            asked = self._grid(limit, ranked).rows[row]
            asked = asked[begin:] if begin else asked
            rest = int(limit.remaining[row]) + sum(asked)
            if not limit.requires_pods:
                rest -= sum([limit.count_of(pod) for pod in ahead])
                columns.append(asked)
                left.append(rest)
            short |= (int(rest < 0) | int(rest < _HOPELESS) << 1) << (self._first + 2 * i)
        return RowBalance(short, left[0], columns, left[1:])

    def of(self, rows: SomeRows, ranked: RankedPods, lower: Bools) -> RowBalances:
        """Ask many rows; ``lower`` are those who might go, [place, row]."""
        deep = len(lower)
        grids = [ranked.amounts(resource) for resource in self._resources]
        grids += [self._grid(limit, ranked) for limit in self.limits]
        asked = [grid.columns()[:deep, rows] for grid in grids]
        there, given = ranked.count[rows], [grid.totals[rows] for grid in grids]
        if deep and (~lower[0] & (there > 0)).any():
            # Not everybody is less important. (Where nobody stands nothing is asked for anyway.)
            there = lower.sum(axis=0)
            asked = [amounts * lower for amounts in asked]
            given = [amounts.sum(axis=0) for amounts in asked]
        left = self._left(rows, there, given)
        short = self._short(left)
        # Rows that lack something are left alone; what becomes of them is of no interest.
        for rest in left:
            rest[short > 0] = ENOUGH
        rests = [] if (left[0] >= there).all() else [Balance(left[0], lower.astype(np.int64))]
        anchors = [False] * len(self._resources) + [limit.requires_pods for limit in self.limits]
        rests += [
            Balance(rest, taken)
            for rest, taken, anchor in zip(left[1:], asked, anchors, strict=True)
            if not anchor
        ]
        return RowBalances(there, short, rests)

    def _short(self, left: list[Ints]) -> Ints:
        room, first = 1 + len(self._resources), self._first
        short = short_bits(left[:room], first - 1)
        for i, rest in enumerate(left[room:]):
            short |= (rest < 0).astype(np.int64) << (first + 2 * i)
            short |= (rest < _HOPELESS).astype(np.int64) << (first + 2 * i + 1)
        return short

    def _left(self, rows: SomeRows, there: Ints, given: list[Ints]) -> list[Ints]:
        """What would be left of slots, needs and limits beside the pod, were all lower gone."""
        nominations, room = self._world.nominations, len(self._resources)
        gains = zip(self._fit.remaining(rows), (there, *given[:room]), strict=True)
        left = [rest + gained for rest, gained in gains]
        if nominations:
            coming = nominations.columns.requested(self._ceiling, self._resources)
            left = [rest - taken[rows] for rest, taken in zip(left, coming, strict=True)]
        for limit, gained in zip(self.limits, given[room:], strict=True):
            rest = limit.remaining[rows] + gained
            if nominations and not limit.requires_pods:
                rest = rest - nominations.columns.sum_counts(self._ceiling, limit.count_of)[rows]
            left.append(rest)
        return left


class CollectedLimits:
    """``places`` tells which of the limits are whose, by the plugin's name.

    The limits say nothing about ``unknown_rows``. ``incomplete_for`` tells whether they are too
    weak on a row to which a pod is nominated.
    """

    def __init__(self, filters: Iterable[FilterPair]) -> None:
        self.limits: tuple[PodLimit, ...] = ()
        self.places: dict[str, tuple[int, int]] = {}
        self.unknown_rows: list[NDArray[np.bool_]] = []
        self.incomplete_for: list[Callable[[PodInfo], bool]] = []
        for plugin, state in filters:
            if implements(plugin, PodLimitsPlugin) and not implements(
                plugin, RequiredResourcesPlugin
            ):
                self._add(plugin.name, plugin.pod_limits(state))

    def _add(self, name: str, more: PodLimits) -> None:
        begin, end = len(self.limits), len(self.limits) + len(more.limits)
        if end > _MOST_LIMITS:
            return
        self.limits += more.limits
        self.places[name] = (begin, end)
        if more.unknown_rows is not None:
            self.unknown_rows.append(more.unknown_rows)
        if more.incomplete_for is not None:
            self.incomplete_for.append(more.incomplete_for)
