"""What making room would cost on every row at once, were room and limits all that counted.

For pods of one priority that need the same room, and of which the same is said about who may stay:
take everybody less important away, see whether the pod fits, then let back whom we can, the most
important first, those beyond a disruption budget before all others. Worked out over columns, kept,
and worked out again only for rows that moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.journal import FEW_ROWS, JournalReader
from holdfast.columns.ranked_pods import NOT_STARTED, RankedPods
from holdfast.columns.request_fit import SomeRows
from holdfast.framework.plugin import Candidate, RequiredResources
from holdfast.framework.preemption_support import PodLimit
from holdfast.framework.world import World
from holdfast.plugins.default_preemption.budgets import BudgetStatus, DisruptionBudgets
from holdfast.plugins.default_preemption.ranking import NOT_A_CANDIDATE, SHIFT, CostColumns, cost_of
from holdfast.plugins.default_preemption.requirements import MOST_BITS, Requirements
from holdfast.plugins.default_preemption.victims import reprieve, reprieve_columns

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_MOST_TRIALS = 64
_KEY = "preemption"


class RowDryRun(NamedTuple):
    """What came of one row: what is short, and who has to go, by place."""

    lower: int
    short: int
    gone: list[int]
    violating_columns: set[int]


class DryRunColumns:
    """One question asked of all rows; arrays are [row].

    Invariant: after ``refresh`` each row has what trying it alone comes to (``_walk``). ``lower``
    counts the pods that might go. ``short`` has a bit for each thing the row lacks even without
    them (see Demand). ``losses`` has what the victims cost. ``idle``: there are pods that might go,
    and none has to: it is not for want of room that the row will not do. ``gone`` has a bit for the
    place of each victim in the row's order of importance, or is 0 if those are too many.
    """

    def __init__(
        self, world: World, budgets: DisruptionBudgets, ceiling: int, needs: RequiredResources
    ) -> None:
        nodes = world.nodes
        self._world = world
        self._budgets = budgets
        self._ceiling = ceiling
        self.requirements = Requirements(world, ceiling, needs)
        self._journal_reader = JournalReader(nodes.journal, nodes.order_journal)
        self._paid: tuple[int, tuple[BudgetStatus, ...]] = (-1, ())
        self.costs = CostColumns(nodes.capacity)
        self.lower: Ints = np.zeros(nodes.capacity, np.int64)
        self.short: Ints = np.zeros(nodes.capacity, np.int64)
        self.gone: Ints = np.zeros(nodes.capacity, np.int64)
        self.no_victims_needed: Bools = np.zeros(nodes.capacity, np.bool_)

    def refresh(self, limits: Sequence[PodLimit] = ()) -> None:
        """Look again at rows that moved, and where budgets or limits did."""
        size = self._world.nodes.size
        ranked = self._world.nodes.ranked_pods()
        self._budgets.refresh()
        version, statuses = self._budgets.version, self._budgets.statuses
        if self._paid[0] != version:
            self._journal_reader.forget()
        stale = self._journal_reader.stale(size)
        moved = self.requirements.moved(limits, size)
        if self._paid[0] == version and self._paid[1] != statuses:
            touched = self._budgets.changed_rows(self._paid[1], ranked, size)
            moved = touched if moved is None else moved | touched
        if moved is not None and not isinstance(stale, slice):
            moved[stale] = True
            stale = moved.nonzero()[0]
            stale = stale.tolist() if len(stale) <= FEW_ROWS else stale
        self._paid = (version, statuses)
        if isinstance(stale, list):
            for row in stale:
                self._try_one(row, ranked)
            if stale:
                # Asked again with little changed: keeping the cheapest begins to pay.
                self.costs.keep_cheapest_rows(size)
        elif isinstance(stale, slice) or len(stale):
            self._try_many(stale, ranked)

    def idle_rows(self) -> Bools | None:
        """Rows where nobody would have to go; None if there is no such row."""
        no_victims_needed = self.no_victims_needed[: self._world.nodes.size]
        return no_victims_needed if no_victims_needed.any() else None

    def faults(self, now: float) -> Iterator[str]:
        """Name every row that does not have what trying it alone comes to."""
        nodes, ranked = self._world.nodes, self._world.nodes.ranked_pods()
        yield from self.costs.faults(nodes.size)
        for row, name in enumerate(nodes.names):
            lower, short, gone, beyond = self._walk(row, ranked)
            tried = (lower, short, lower > 0 and not short and not gone)
            kept = (int(self.lower[row]), int(self.short[row]), bool(self.no_victims_needed[row]))
            if kept != tried:
                yield f"{name}: kept {kept} of making room, tried {tried}"
            elif (self.costs.weight[row] != NOT_A_CANDIDATE) != bool(gone):
                yield f"{name}: kept a loss without victims, or victims without a loss"
            elif gone:
                if (bits := int(self.gone[row])) and _places(bits) != gone:
                    yield f"{name}: kept victims {_places(bits)}, tried {gone}"
                victims = tuple(ranked.pods[row][place] for place in gone)
                candidate = Candidate(name, victims, len(beyond.intersection(gone)))
                kept_loss, cost = self.costs.cost(row, now), cost_of(candidate, now)
                # Where a pod started later than now, another order counts: Search tries those rows.
                if kept_loss != cost and ranked.newest_start[row] < now:
                    yield f"{name}: kept {kept_loss}, tried {cost}"

    # --- one row, in plain numbers ------------------------------------------------------------

    def victims(self, row: int) -> tuple[list[str], int]:
        """Who has to go on a row where the pod would fit, by uid, and how many are guarded."""
        ranked = self._world.nodes.ranked_pods()
        pods, bits = ranked.pods[row], int(self.gone[row])
        if bits and not self._budgets.statuses:
            return [pods[place].uid for place in _places(bits)], 0
        walk = self._walk(row, ranked)

        def order(place: int) -> tuple[int, float, bool]:
            # Among equals the guarded ones are named first.
            return (
                -pods[place].priority,
                pods[place].start_time,
                place not in walk.violating_columns,
            )

        gone = sorted(walk.gone, key=order) if walk.violating_columns else walk.gone
        return [pods[place].uid for place in gone], len(
            walk.violating_columns.intersection(walk.gone)
        )

    def _try_one(self, row: int, ranked: RankedPods) -> None:
        lower, short, gone, beyond = self._walk(row, ranked)
        self.lower[row], self.short[row] = lower, short
        self.no_victims_needed[row] = lower > 0 and not short and not gone
        priorities = ranked.priority.rows[row]
        guarded = len(beyond.intersection(gone)) if beyond else 0
        start = ranked.started.rows[row][gone[0]] if gone else 0.0
        self.costs.put(row, guarded, [priorities[place] for place in gone], start)
        if gone:
            self.gone[row] = sum([1 << place for place in gone]) if gone[-1] < MOST_BITS else 0

    def _walk(self, row: int, ranked: RankedPods) -> RowDryRun:
        priorities = ranked.priority.rows[row]
        begin, end = 0, len(priorities)
        while begin < end and priorities[begin] >= self._ceiling:
            begin += 1
        short, slots, columns, left = self.requirements.at(row, ranked, begin, end)
        if short or begin == end:
            return RowDryRun(end - begin, short, [], set())
        beyond = self._budgets.violating(ranked.pods[row], begin)
        gone = reprieve(end - begin, beyond, columns, left, slots)
        if begin:
            gone, beyond = [begin + place for place in gone], {begin + place for place in beyond}
        return RowDryRun(end - begin, 0, gone, beyond)

    # --- many rows, as columns ----------------------------------------------------------------

    def _try_many(self, rows: SomeRows, ranked: RankedPods) -> None:
        deep = int(ranked.count[rows].max(initial=0))
        lower = ranked.priority.columns()[:deep, rows] < self._ceiling
        there, short, rests = self.requirements.of(rows, ranked, lower)
        beyond = self._budgets.violating_columns(ranked, rows, lower)
        gone = reprieve_columns(lower, beyond, rests)
        self.lower[rows], self.short[rows] = there, short
        self._tell(rows, gone, beyond, ranked)
        self.no_victims_needed[rows] = (
            (short == 0) & (there > 0) & (self.costs.weight[rows] == NOT_A_CANDIDATE)
        )

    def _tell(self, rows: SomeRows, gone: Bools, beyond: Bools | None, ranked: RankedPods) -> None:
        """Add up what the victims cost, the most important one last: it has the last word."""
        size = gone.shape[1]
        priority, started = ranked.priority.columns()[:, rows], ranked.started.columns()[:, rows]
        total, count = np.zeros(size, np.int64), np.zeros(size, np.int64)
        highest, start = np.full(size, -SHIFT), np.full(size, NOT_STARTED)
        guarded, bits = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for place in reversed(range(len(gone))):
            going = gone[place]
            if not going.any():
                continue
            total += priority[place] * going
            count += going
            np.copyto(highest, priority[place], where=going)
            np.copyto(start, started[place], where=going)
            if beyond is not None:
                guarded += going & beyond[place]
            if len(gone) <= MOST_BITS:
                bits |= going * np.int64(1 << place)
        self.costs.put_many(rows, guarded, (highest, total), count, start)
        self.gone[rows] = bits


def _places(bits: int) -> list[int]:
    """Which bits are set."""
    found = []
    while bits:
        found.append((bits & -bits).bit_length() - 1)
        bits &= bits - 1
    return found


class DryRunCache:
    """The disruption budgets, and a trial for each priority and need that was asked about."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._layout = -1
        self._of: dict[tuple[Any, ...], DryRunColumns] = {}
        self.budgets = DisruptionBudgets(world)

    def of(
        self, priority: int, needs: RequiredResources, limits: Sequence[PodLimit] = ()
    ) -> DryRunColumns:
        """The trial of pods of a priority with these needs and limits, up to date."""
        layout = self._world.nodes.epochs["layout"]
        if layout != self._layout:
            self._of, self._layout = {}, layout
        key = (priority, needs.amounts, needs.ignored_if_absent, *(limit.key for limit in limits))
        dry_run_columns = self._of.pop(key, None)
        if dry_run_columns is None:
            if len(self._of) >= _MOST_TRIALS:
                del self._of[next(iter(self._of))]
            dry_run_columns = DryRunColumns(self._world, self.budgets, priority, needs)
        self._of[key] = dry_run_columns
        dry_run_columns.refresh(limits)
        return dry_run_columns


def dry_run_cache_of(world: World) -> DryRunCache:
    """The trials of this world; a fork begins with none."""
    found: DryRunCache | None = world.caches.get(_KEY)
    if found is None:
        found = world.caches[_KEY] = DryRunCache(world)
    return found
