"""Compute the cost of preemption on all rows at once, as if only resources and limits counted.

One table serves pods of one priority with the same required resources and limits. The steps are
those of ``victims.dry_run``: remove all pods of lower priority, test whether the pod fits, then
reprieve as many as possible, the most important first, and those that would violate a disruption
budget before all others. The results are stored and recomputed only for rows that changed.

Pods are in columns by their rank on the node: rank 0 of all rows is one array. So one step of the
reprieve is a few array operations for all rows, although rows have different pods. Ranking all pods
for the first time takes 0.25 s for 150,000 of them, so it is done in steps before the cycle
(decision 0031).

A preemption changes one row, so a single row can also be computed, in plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.disruption_budgets import BudgetStatus, DisruptionBudgets
from holdfast.scheduling.engine.preemption import SHIFT, cost_of
from holdfast.scheduling.framework.plugin import Candidate, RequiredResources
from holdfast.scheduling.framework.preemption_rules import PodLimit
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.default_preemption.ranking import NOT_A_CANDIDATE, CostColumns
from holdfast.scheduling.plugins.default_preemption.requirements import MAX_BITS, Requirements
from holdfast.scheduling.plugins.default_preemption.victims import reprieve, reprieve_columns
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.journal import FEW_ROWS, JournalReader
from holdfast.state.columns.ranked_pods import NOT_STARTED, RankedPods
from holdfast.state.columns.request_fit import SomeRows

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_MAX_DRY_RUNS = 64
_KEY = "preemption"


class RowDryRun(NamedTuple):
    """The result of one row: bits of what is short, and the victims, by rank."""

    lower: int
    short: int
    victims: list[int]
    violating: set[int]


class DryRunColumns:
    """The dry runs of all rows; arrays are [row].

    Invariant: after ``refresh`` each row has the result of its own dry run (``_dry_run``).
    ``lower`` counts pods of lower priority. ``short`` has a bit for each requirement that is not
    met even without them (see Requirements). ``costs`` are the costs of the victims.
    ``no_victims_needed``: there are pods of lower priority, and none must be evicted, so the pod is
    rejected for another reason. ``victim_bits`` has a bit for the rank of each victim, or is 0 if
    there are too many.
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
        self._seen_budgets: tuple[int, tuple[BudgetStatus, ...]] = (-1, ())
        self.costs = CostColumns(nodes.capacity)
        self.lower: Ints = np.zeros(nodes.capacity, np.int64)
        self.short: Ints = np.zeros(nodes.capacity, np.int64)
        self.victim_bits: Ints = np.zeros(nodes.capacity, np.int64)
        self.no_victims_needed: Bools = np.zeros(nodes.capacity, np.bool_)

    def refresh(self, limits: Sequence[PodLimit] = ()) -> None:
        """Recompute rows that changed, or whose budgets or limits changed."""
        size = self._world.nodes.size
        ranked = self._world.nodes.ranked_pods()
        self._budgets.refresh()
        version, statuses = self._budgets.version, self._budgets.statuses
        if self._seen_budgets[0] != version:
            self._journal_reader.forget()
        stale = self._journal_reader.stale(size)
        changed = self.requirements.replace_limits(limits, size)
        if self._seen_budgets[0] == version and self._seen_budgets[1] != statuses:
            by_budgets = self._budgets.changed_rows(self._seen_budgets[1], ranked, size)
            changed = by_budgets if changed is None else changed | by_budgets
        if changed is not None and not isinstance(stale, slice):
            changed[stale] = True
            stale = changed.nonzero()[0]
            stale = stale.tolist() if len(stale) <= FEW_ROWS else stale
        self._seen_budgets = (version, statuses)
        if isinstance(stale, list):
            for row in stale:
                self._refresh_row(row, ranked)
            if stale:
                # Used again after few changes: keeping the cheapest rows sorted pays off.
                self.costs.keep_cheapest_rows(size)
        elif isinstance(stale, slice) or len(stale):
            self._refresh_rows(stale, ranked)

    def rows_without_victims(self) -> Bools | None:
        """Return the rows where no victims are needed; None if there are none."""
        no_victims_needed = self.no_victims_needed[: self._world.nodes.size]
        return no_victims_needed if no_victims_needed.any() else None

    def faults(self, now: float) -> Iterator[str]:
        """Name every row whose stored result differs from its own dry run."""
        nodes, ranked = self._world.nodes, self._world.nodes.ranked_pods()
        yield from self.costs.faults(nodes.size)
        for row, name in enumerate(nodes.names):
            lower, short, victims, violating = self._dry_run(row, ranked)
            tried = (lower, short, lower > 0 and not short and not victims)
            stored = (int(self.lower[row]), int(self.short[row]), bool(self.no_victims_needed[row]))
            if stored != tried:
                yield f"{name}: stored {stored}, its dry run gives {tried}"
            elif (self.costs.weight[row] != NOT_A_CANDIDATE) != bool(victims):
                yield f"{name}: stored a cost without victims, or victims without a cost"
            elif victims:
                if (bits := int(self.victim_bits[row])) and _ranks(bits) != victims:
                    yield f"{name}: stored victims {_ranks(bits)}, its dry run gives {victims}"
                evicted = tuple(ranked.pods[row][rank] for rank in victims)
                candidate = Candidate(name, evicted, len(violating.intersection(victims)))
                stored_cost, cost = self.costs.cost(row, now), cost_of(candidate, now)
                # Where a pod started after now the order differs: the search dry-runs those rows.
                if stored_cost != cost and ranked.newest_start[row] < now:
                    yield f"{name}: stored {stored_cost}, its dry run gives {cost}"

    # --- one row, in plain numbers ------------------------------------------------------------

    def victims(self, row: int) -> tuple[list[str], int]:
        """Return the uids of a candidate row's victims and how many violate a budget."""
        ranked = self._world.nodes.ranked_pods()
        pods, bits = ranked.pods[row], int(self.victim_bits[row])
        if bits and not self._budgets.statuses:
            return [pods[rank].uid for rank in _ranks(bits)], 0
        result = self._dry_run(row, ranked)

        def order(rank: int) -> tuple[int, float, bool]:
            # Among equally important victims, those that violate a budget come first.
            return (-pods[rank].priority, pods[rank].start_time, rank not in result.violating)

        victims = sorted(result.victims, key=order) if result.violating else result.victims
        violations = len(result.violating.intersection(result.victims))
        return [pods[rank].uid for rank in victims], violations

    def _refresh_row(self, row: int, ranked: RankedPods) -> None:
        lower, short, victims, violating = self._dry_run(row, ranked)
        self.lower[row], self.short[row] = lower, short
        self.no_victims_needed[row] = lower > 0 and not short and not victims
        priorities = ranked.priority.rows[row]
        violations = len(violating.intersection(victims)) if violating else 0
        start = ranked.started.rows[row][victims[0]] if victims else 0.0
        self.costs.put(row, violations, [priorities[rank] for rank in victims], start)
        if victims:
            few = victims[-1] < MAX_BITS
            self.victim_bits[row] = sum([1 << rank for rank in victims]) if few else 0

    def _dry_run(self, row: int, ranked: RankedPods) -> RowDryRun:
        priorities = ranked.priority.rows[row]
        begin, end = 0, len(priorities)
        while begin < end and priorities[begin] >= self._ceiling:
            begin += 1
        short, pod_slots, columns, left = self.requirements.at(row, ranked, begin, end)
        if short or begin == end:
            return RowDryRun(end - begin, short, [], set())
        violating = self._budgets.violating(ranked.pods[row], begin)
        victims = reprieve(end - begin, violating, columns, left, pod_slots)
        if begin:
            victims = [begin + rank for rank in victims]
            violating = {begin + rank for rank in violating}
        return RowDryRun(end - begin, 0, victims, violating)

    # --- many rows, as columns ----------------------------------------------------------------

    def _refresh_rows(self, rows: SomeRows, ranked: RankedPods) -> None:
        ranks = int(ranked.count[rows].max(initial=0))
        lower = ranked.priority.columns()[:ranks, rows] < self._ceiling
        count, short, balances = self.requirements.of(rows, ranked, lower)
        violating = self._budgets.violating_columns(ranked, rows, lower)
        victims = reprieve_columns(lower, violating, balances)
        self.lower[rows], self.short[rows] = count, short
        self._put_costs(rows, victims, violating, ranked)
        self.no_victims_needed[rows] = (
            (short == 0) & (count > 0) & (self.costs.weight[rows] == NOT_A_CANDIDATE)
        )

    def _put_costs(
        self, rows: SomeRows, victims: Bools, violating: Bools | None, ranked: RankedPods
    ) -> None:
        """Add up the costs of the victims.

        The most important victim comes last: its priority and start time are the ones that count.
        """
        size = victims.shape[1]
        priority, started = ranked.priority.columns()[:, rows], ranked.started.columns()[:, rows]
        total, count = np.zeros(size, np.int64), np.zeros(size, np.int64)
        highest, start = np.full(size, -SHIFT), np.full(size, NOT_STARTED)
        violations, bits = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for rank in reversed(range(len(victims))):
            evicted = victims[rank]
            if not evicted.any():
                continue
            total += priority[rank] * evicted
            count += evicted
            np.copyto(highest, priority[rank], where=evicted)
            np.copyto(start, started[rank], where=evicted)
            if violating is not None:
                violations += evicted & violating[rank]
            if len(victims) <= MAX_BITS:
                bits |= evicted * np.int64(1 << rank)
        self.costs.put_many(rows, violations, (highest, total), count, start)
        self.victim_bits[rows] = bits


def _ranks(bits: int) -> list[int]:
    """Return which bits are set."""
    ranks = []
    while bits:
        ranks.append((bits & -bits).bit_length() - 1)
        bits &= bits - 1
    return ranks


class DryRunCache:
    """The disruption budgets, and the dry runs for each priority, resources and limits."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._layout = -1
        self._of: dict[tuple[Any, ...], DryRunColumns] = {}
        self.budgets = DisruptionBudgets(world)

    def of(
        self, priority: int, needs: RequiredResources, limits: Sequence[PodLimit] = ()
    ) -> DryRunColumns:
        """Return the refreshed dry runs for pods of a priority with these resources and limits."""
        layout = self._world.nodes.epochs[Epoch.LAYOUT]
        if layout != self._layout:
            self._of, self._layout = {}, layout
        key = (priority, needs.amounts, needs.ignored_if_absent, *(limit.key for limit in limits))
        dry_run_columns = self._of.pop(key, None)
        if dry_run_columns is None:
            if len(self._of) >= _MAX_DRY_RUNS:
                del self._of[next(iter(self._of))]
            dry_run_columns = DryRunColumns(self._world, self.budgets, priority, needs)
        self._of[key] = dry_run_columns
        dry_run_columns.refresh(limits)
        return dry_run_columns


def dry_run_cache_of(world: World) -> DryRunCache:
    """Return the cache of this world; a fork starts with an empty one."""
    cache: DryRunCache | None = world.caches.get(_KEY)
    if cache is None:
        cache = world.caches[_KEY] = DryRunCache(world)
    return cache
