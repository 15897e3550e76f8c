"""The requirements of pods of one priority on a row: free resources, and pod limits.

One row is computed in plain integers, many rows in arrays. Shortages are a bit set: bit 0 is a pod
slot, then the resources follow in order, then two bits for each limit: one if it is exceeded, one
if it stays exceeded whatever is evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.nominated_pods import NominatedInSets, has_row_sets
from holdfast.scheduling.framework.plan import NodeFilter
from holdfast.scheduling.framework.plugin import FilterPair, PodLimit, PodLimits, RequiredResources
from holdfast.scheduling.framework.preemption_rules import NEVER, rules_of
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.default_preemption.victims import Balance
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.pod_values import PodValues
from holdfast.state.columns.ranked_pods import RankedPods
from holdfast.state.columns.request_fit import (
    ENOUGH,
    RequestFit,
    SomeRows,
    short_bits,
    short_bits_at,
)

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_UNRESOLVABLE = NEVER // 2
MAX_BITS = 62
_RESOURCE_BITS = 29
"""Bits for slots and resources; the last resources share one. The others are for limits.

When each of more resources had a bit, preemption failed or evicted in vain.
"""
_MAX_LIMITS = 16
"""With more limits, rows are dry-run one by one: the bits do not suffice."""


class RowBalance(NamedTuple):
    """The free amounts of a row after removing all lower-priority pods and adding the preemptor.

    ``columns`` has what each of those pods needs, one list per resource or limit; ``left`` has the
    free amount of each.
    """

    short: int
    pod_slots: int
    columns: list[Sequence[int]]
    left: list[int]


class RowBalances(NamedTuple):
    """The same for many rows: number of lower-priority pods, bits of what is short, balances."""

    lower: Ints
    short: Ints
    balances: list[Balance]


class Requirements:
    """The resources and limits of a class of pods of one priority."""

    def __init__(self, world: World, ceiling: int, needs: RequiredResources) -> None:
        self._world = world
        self._ceiling = ceiling
        self._fit = RequestFit.of(world.nodes.amounts, needs.amounts, needs.ignored_if_absent)
        self._resources = [resource for resource, _ in needs.amounts]
        self._first = min(1 + len(needs.amounts), _RESOURCE_BITS)
        """The first bit of the limits."""
        self.limits: Sequence[PodLimit] = ()

    def replace_limits(self, limits: Sequence[PodLimit], size: int) -> Bools | None:
        """Replace the limits; return the rows on which they changed, or None."""
        before, self.limits = self.limits, limits
        if any(old.version != new.version for old, new in zip(before, limits, strict=False)):
            # Other pods may count now, even where the remaining number is the same.
            return np.ones(size, np.bool_)
        changed: Bools | None = None
        for old, new in zip(before, limits, strict=False):
            if old.remaining is not new.remaining:
                differs = old.remaining[:size] != new.remaining[:size]
                changed = differs if changed is None else changed | differs
        return changed if changed is not None and changed.any() else None

    def resource_bits(self) -> int:
        """Return the bits of slots and resources."""
        return (1 << self._first) - 1

    def limit_bits(self, begin: int, end: int) -> int:
        """Return the bits of the limits from ``begin`` to ``end``."""
        return ((1 << 2 * (end - begin)) - 1) << (self._first + 2 * begin)

    def _values(self, limit: PodLimit, ranked: RankedPods) -> PodValues:
        return ranked.values_of(
            limit.key, limit.count_of, limit.version, by_label_group=limit.by_label_group
        )

    def at(self, row: int, ranked: RankedPods, begin: int, end: int) -> RowBalance:
        """Compute one row, on which the pods of ranks ``begin`` to ``end`` may be evicted."""
        left = self._fit.remaining_at(row)
        ahead = self._world.nominations.with_priority(self._ceiling, row)
        if ahead:
            taken = self._fit.requests_of(ahead)
            left = [rest - gone for rest, gone in zip(left, taken, strict=True)]
        left[0] += end - begin
        columns: list[Sequence[int]] = []
        for i, resource in enumerate(self._resources, 1):
            asked = ranked.amounts(resource).rows[row]
            asked = asked[begin:] if begin else asked
            left[i] += sum(asked)
            columns.append(asked)
        short = short_bits_at(left, self._first - 1)
        for i, limit in enumerate(self.limits):
            asked = self._values(limit, ranked).rows[row]
            asked = asked[begin:] if begin else asked
            rest = int(limit.remaining[row]) + sum(asked)
            if not limit.requires_pods:
                rest -= sum([limit.count_of(pod) for pod in ahead])
                columns.append(asked)
                left.append(rest)
            short |= (int(rest < 0) | int(rest < _UNRESOLVABLE) << 1) << (self._first + 2 * i)
        return RowBalance(short, left[0], columns, left[1:])

    def of(self, rows: SomeRows, ranked: RankedPods, lower: Bools) -> RowBalances:
        """Compute many rows; ``lower`` marks the pods that may be evicted: [rank, row]."""
        ranks = len(lower)
        tables = [ranked.amounts(resource) for resource in self._resources]
        tables += [self._values(limit, ranked) for limit in self.limits]
        asked = [table.columns()[:ranks, rows] for table in tables]
        count, given = ranked.count[rows], [table.totals[rows] for table in tables]
        if ranks and (~lower[0] & (count > 0)).any():
            # Some rows have pods of higher or equal priority: leave those out.
            count = lower.sum(axis=0)
            asked = [amounts * lower for amounts in asked]
            given = [amounts.sum(axis=0) for amounts in asked]
        left = self._free_without(rows, count, given)
        short = self._short(left)
        # Rows that are short of something are no candidates: let everything fit there.
        for rest in left:
            rest[short > 0] = ENOUGH
        balances = [] if (left[0] >= count).all() else [Balance(left[0], lower.astype(np.int64))]
        requiring = [False] * len(self._resources) + [limit.requires_pods for limit in self.limits]
        balances += [
            Balance(rest, taken)
            for rest, taken, requires in zip(left[1:], asked, requiring, strict=True)
            if not requires
        ]
        return RowBalances(count, short, balances)

    def _short(self, left: list[Ints]) -> Ints:
        resources, first = 1 + len(self._resources), self._first
        short = short_bits(left[:resources], first - 1)
        for i, rest in enumerate(left[resources:]):
            short |= (rest < 0).astype(np.int64) << (first + 2 * i)
            short |= (rest < _UNRESOLVABLE).astype(np.int64) << (first + 2 * i + 1)
        return short

    def _free_without(self, rows: SomeRows, count: Ints, given: list[Ints]) -> list[Ints]:
        """Return what is free of slots, resources and limits without the lower-priority pods."""
        nominations, resources = self._world.nominations, len(self._resources)
        gains = zip(self._fit.remaining(rows), (count, *given[:resources]), strict=True)
        left = [rest + gained for rest, gained in gains]
        if nominations:
            coming = nominations.columns.requested(self._ceiling, self._resources)
            left = [rest - taken[rows] for rest, taken in zip(left, coming, strict=True)]
        for limit, gained in zip(self.limits, given[resources:], strict=True):
            rest = limit.remaining[rows] + gained
            if nominations and not limit.requires_pods:
                rest = rest - nominations.columns.sum_counts(self._ceiling, limit.count_of)[rows]
            left.append(rest)
        return left


class CollectedLimits:
    """The limits of all filter plugins; ``ranges`` has the range of each plan's limits, by its id.

    The limits say nothing about ``unknown_rows``. ``incomplete_for`` tells whether they are too
    weak on a row to which a pod is nominated.
    """

    def __init__(
        self, filters: Iterable[FilterPair], in_sets: NominatedInSets | None = None
    ) -> None:
        self.limits: tuple[PodLimit, ...] = ()
        self.ranges: dict[int, tuple[int, int]] = {}
        self.unknown_rows: list[NDArray[np.bool_]] = []
        self.incomplete_for: list[Callable[[PodInfo], bool]] = []
        for _, plan in filters:
            rules = rules_of(plan)
            if rules.required_resources() is not None:
                continue
            if in_sets is not None and has_row_sets(plan):
                self._add(plan, rules.pod_limits_in_sets(in_sets.change))
            else:
                self._add(plan, rules.pod_limits())

    def _add(self, plan: NodeFilter, more: PodLimits | None) -> None:
        if more is None:
            return
        begin, end = len(self.limits), len(self.limits) + len(more.limits)
        if end > _MAX_LIMITS:
            return
        self.limits += more.limits
        self.ranges[id(plan)] = (begin, end)
        if more.unknown_rows is not None:
            self.unknown_rows.append(more.unknown_rows)
        if more.incomplete_for is not None:
            self.incomplete_for.append(more.incomplete_for)


def requiring_resources(
    filters: Iterable[FilterPair],
) -> tuple[NodeFilter, RequiredResources] | None:
    """Return the filter that requires resources, and these resources, if there is one."""
    for _, plan in filters:
        needs = rules_of(plan).required_resources()
        if needs is not None:
            return plan, needs
    return None
