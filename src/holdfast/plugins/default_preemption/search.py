"""Which row to make room on: every row is weighed, few are tried one by one.

Where room is all that pods have to do with the verdict, the columns of a Trial are the truth. Where
a filter looks at the pods there in other ways (ports, affinity, reservations, a filter that does
not say), they are a bound: victims found there cannot cost less. For a walk that lets pods back
meets its first victim where room runs out at the latest; another filter can only make that come
earlier. So such rows are tried for real in the order of their bounds, until those exceed the best
loss found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.extender import EXTENDER
from holdfast.framework.plugin import (
    Candidate,
    Code,
    DependsOnPodsPlugin,
    FilterAndScoreRowPlugin,
    FilterPlugin,
    Plugin,
    PodChange,
    PreemptionRulesPlugin,
    RequiredResources,
    RequiredResourcesPlugin,
    Rows,
    Scope,
    State,
    implements,
)
from holdfast.framework.rejection import Rejection, Status, count_reasons
from holdfast.framework.view import View
from holdfast.plugins.default_preemption.dry_run_columns import DryRunColumns, dry_run_cache_of
from holdfast.plugins.default_preemption.ranking import (
    LOWEST_COST,
    NOT_A_CANDIDATE,
    PreemptionCost,
    cost_of,
    lower_bound,
)
from holdfast.plugins.default_preemption.requirements import CollectedLimits
from holdfast.plugins.default_preemption.victims import NAME, NO_VICTIMS, DryRunContext, dry_run

Bools = NDArray[np.bool_]
_MAY_HELP = int(Code.UNSCHEDULABLE)
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class CandidateSearch:
    """One preemptor's search over the rows that eviction could help."""

    def __init__(self, rejection: Rejection, view: View) -> None:
        dry_run_cache = dry_run_cache_of(view.world)
        dry_run_cache.budgets.refresh()
        self._view = view
        self._size = view.nodes.size
        self._rejection = rejection
        self._context = DryRunContext(
            view, rejection.filters, dry_run_cache.budgets, spares_of(rejection)
        )
        self._outcomes: dict[int, Candidate | Status] = {}
        self._room = _by_room(rejection)
        self._needs: RequiredResources | None = None
        self._dry_run_columns: DryRunColumns | None = None
        self._limited = CollectedLimits(rejection.filters if self._room is not None else ())
        if self._room is not None:
            plugin, state = self._room
            self._needs = plugin.required_resources(state)
            self._dry_run_columns = dry_run_cache.of(
                view.pod.priority, self._needs, self._limited.limits
            )
        self._others = [pair for pair in rejection.filters if not self._counted(pair[0])]
        self._unbounded = self._beyond_room()
        self._hard = self._find_hard()
        self._fits: Bools | None = None

    def best(self) -> tuple[list[int], PreemptionCost] | None:
        """The rows where least is lost, ascending, and what; None if there is no such row."""
        best: PreemptionCost | None = None
        rows: list[int] = []
        if self._dry_run_columns is not None:
            rows = self._dry_run_columns.costs.cheapest(self._is_plain, self._plain)
            if rows:
                best = self._dry_run_columns.costs.cost(rows[0], self._view.now)
        for bound, row in self._bounds():
            if best is not None and bound > best:
                break
            outcome = self.outcome(row)
            if isinstance(outcome, Candidate):
                cost = cost_of(outcome, self._view.now)
                if best is None or cost < best:
                    best, rows = cost, []
                if cost == best:
                    rows.append(row)
        return None if best is None else (sorted(rows), best)

    def candidate(self, row: int) -> Candidate:
        """The victims on a row where the pod would fit."""
        if self._hard is not None and self._hard[row]:
            outcome = self.outcome(row)
            assert isinstance(outcome, Candidate)
            return outcome
        assert self._dry_run_columns is not None
        uids, violations = self._dry_run_columns.victims(row)
        there = self._view.nodes.pods_on(row)
        return Candidate(self._view.nodes.names[row], tuple(there[uid] for uid in uids), violations)

    def candidates(self) -> list[Candidate]:
        """Every row where the pod would fit, tried for real if need be."""
        rows = [row for row in self._hard_rows() if isinstance(self.outcome(row), Candidate)]
        if self._dry_run_columns is not None:
            plain = self._plain() & (
                self._dry_run_columns.costs.weight[: self._size] < NOT_A_CANDIDATE
            )
            rows += plain.nonzero()[0].tolist()
        return [self.candidate(row) for row in sorted(rows)]

    def faults(self, rows: Iterable[int]) -> Iterator[str]:
        """Name what is wrong with the trial, or with rows it gave: trying them finds others."""
        if self._dry_run_columns is None:
            return
        yield from self._dry_run_columns.faults(self._view.now)
        for row in rows:
            tried, found = dry_run(self._context, row), self.candidate(row)
            if isinstance(tried, Status):
                yield f"{found.node}: room can be made, tried alone {tried.reasons}"
            elif (set(tried.victims), tried.violations) != (set(found.victims), found.violations):
                yield f"{found.node}: has other victims if it is tried alone"

    def statuses(self) -> tuple[Mapping[str, int], list[str]]:
        """What stands in the way on how many nodes, and errors; asked if no row will do."""
        words: Counter[str] = Counter()
        words[NOT_HELPFUL] = self._rejection.nodes - int(np.count_nonzero(self._tried()))
        errors: list[str] = []
        for row in self._hard_rows():
            outcome = self.outcome(row)
            assert isinstance(outcome, Status)
            if outcome.code is Code.ERROR:
                errors.append(_failure(outcome.plugin, outcome.reasons))
            else:
                words.update(outcome.reasons)
        if self._dry_run_columns is not None:
            self._plain_words(self._dry_run_columns, words, errors)
        return {reason: count for reason, count in words.items() if count}, errors

    def _tried(self) -> Bools:
        """Rows that eviction could help."""
        tried: Bools = self._rejection.codes == Code.UNSCHEDULABLE
        return tried

    # --- rows where room is all that pods have to do with it ------------------------------------

    def _easy(self) -> Bools:
        """Those that are tried, whatever their filters say."""
        tried = self._tried()
        return tried if self._hard is None else tried & ~self._hard

    def _plain(self) -> Bools:
        """Those where the pod would fit, if there is room."""
        if self._fits is None:
            fits = self._easy()
            rejection = self._rejection
            # Whoever rejected a row, all before it in turn have passed it.
            begin = 0 if rejection.statuses else min(rejection.rejecting_filters or (0,))
            for index, (plugin, state) in enumerate(rejection.filters):
                if index >= begin and not self._counted(plugin):
                    rows = (fits & (rejection.plugin_of <= index)).nonzero()[0]
                    if len(rows):
                        fits[rows] = plugin.filter(state, rows) == 0
            self._fits = fits
        return self._fits

    def _is_plain(self, row: int) -> bool:
        """The same for one row."""
        if self._fits is not None:
            return bool(self._fits[row])
        if int(self._rejection.codes[row]) != _MAY_HELP:
            return False
        if self._hard is not None and self._hard[row]:
            return False
        return all([not _verdict(plugin, state, row) for plugin, state in self._others])

    def _plain_words(
        self, dry_run_columns: DryRunColumns, words: Counter[str], errors: list[str]
    ) -> None:
        left = self._easy()
        alone = left & (dry_run_columns.lower[: self._size] == 0)
        words[NO_VICTIMS] += int(np.count_nonzero(alone))
        left &= ~alone
        for plugin, state in self._rejection.filters:
            rows = left.nonzero()[0]
            if self._counted(plugin):
                short = dry_run_columns.short[rows] & self._bits(dry_run_columns, plugin)
                verdicts = (short != 0).astype(np.int8)
                words.update(self._shortages(plugin, state, rows[short != 0], short[short != 0]))
            else:
                verdicts = plugin.filter(state, rows)
                failing = verdicts == Code.ERROR
                words.update(count_reasons(plugin, state, rows[(verdicts != 0) & ~failing]))
                errors += (
                    _failure(plugin.name, plugin.reasons(state, row))
                    for row in rows[failing].tolist()
                )
            left[rows[verdicts != 0]] = False

    def _shortages(
        self, plugin: FilterPlugin, state: State, rows: Rows, short: NDArray[np.int64]
    ) -> Counter[str]:
        """Count what rows lack even without the lower pods; those that lack the same at once."""
        words: Counter[str] = Counter()
        for pattern in sorted(set(short.tolist())):
            alike = rows[short == pattern]
            row = int(alike[0])
            beside = self._view.world.nominations.ahead_of(self._view.pod, row)
            change = PodChange({row: [*beside.values()]}, {row: self._context.lower_on(row)})
            for reason in plugin.reasons(state, row, change):
                words[reason] += len(alike)
        return words

    def _bits(self, dry_run_columns: DryRunColumns, plugin: Plugin) -> int:
        """What of all that may be short is this filter's word."""
        if self._is_room(plugin):
            return dry_run_columns.requirements.room_bits()
        return dry_run_columns.requirements.limit_bits(*self._limited.places[plugin.name])

    # --- rows where filters look at pods in other ways ------------------------------------------

    def _find_hard(self) -> Bools | None:
        """Rows that must be tried for real to know; None if there is no such row."""
        hard = self._unbounded
        for more in (
            self._resting(),
            None if self._dry_run_columns is None else self._dry_run_columns.idle_rows(),
        ):
            # Where nobody has to go it is not for want of room that the row will not do.
            if more is not None:
                hard = more if hard is None else hard | more
        return None if hard is None else hard & self._tried()

    def _hard_rows(self) -> list[int]:
        return [] if self._hard is None else self._hard.nonzero()[0].tolist()

    def _beyond_room(self) -> Bools | None:
        """Rows of which the trial tells nothing: not the needs, not the order, not who is near."""
        size = self._size
        if self._dry_run_columns is None or self._needs is None:
            return np.ones(size, np.bool_)
        beyond: list[Bools] = []
        ranked = self._view.nodes.ranked_pods()
        if self._needs.unknown_rows is not None:
            beyond.append(self._needs.unknown_rows[:size])
        beyond.extend(apart[:size] for apart in self._limited.unknown_rows)
        if ranked.latest_start >= self._view.now:
            beyond.append(ranked.newest_start[:size] >= self._view.now)
        if (spares := self._context.protected_victims) is not None:
            spared = ranked.values_of("spared", lambda pod: int(spares(pod)), spares)
            beyond.append(spared.totals[:size] > 0)
        if self._rejection.statuses and EXTENDER in self._rejection.statuses.plugins():
            # What an extender refuses has room enough: only trying shows that evicting is no use.
            beyond.append(self._rejection.statuses.rows_of_plugin(EXTENDER))
        if inside := self._view.world.nominated_owner_rows.rows():
            beyond.append(np.isin(np.arange(size), list(inside)))
        own = self._view.nodes.row_of.get(self._view.world.nominations.node_of(self._view.pod.uid))
        if own is not None:
            beyond.append(np.arange(size) == own)
        return np.logical_or.reduce(beyond) if beyond else None

    def _resting(self) -> Bools | None:
        """Rows where the pods that stand there, or are to come, may decide by more than room."""
        found: list[Bools] = []
        nominations, priority = self._view.world.nominations, self._view.pod.priority
        promised: list[Rows | list[int]] = []
        for plugin, state in self._rejection.filters:
            if plugin.traits.scope is Scope.NODE or self._is_limited(plugin):
                continue
            if implements(plugin, DependsOnPodsPlugin):
                rests = plugin.depends_on_pods(state)
                if rests is not None:
                    found.append(rests[: self._size])
            elif not self._is_room(plugin):
                found.append(np.ones(self._size, np.bool_))
            if nominations and not self._is_room(plugin):
                promised.append(nominations.columns.rows())
        if nominations:
            of = nominations.columns.rows_of
            promised.extend(of(crowded, priority) for crowded in self._limited.incomplete_for)
        for rows in promised:
            found.append(np.zeros(self._size, np.bool_))
            found[-1][rows] = True
        return np.logical_or.reduce(found) if found else None

    def _bounds(self) -> list[tuple[PreemptionCost, int]]:
        """Hard rows with what they cost at least, the cheapest first."""
        bounds = []
        unbounded = self._unbounded
        for row in self._hard_rows():
            dry_run_columns = (
                None if unbounded is not None and unbounded[row] else self._dry_run_columns
            )
            if dry_run_columns is None or dry_run_columns.no_victims_needed[row]:
                bounds.append((LOWEST_COST, row))
            elif dry_run_columns.costs.weight[row] != NOT_A_CANDIDATE:
                bounds.append((lower_bound(dry_run_columns.costs.cost(row, self._view.now)), row))
        return sorted(bounds)

    def outcome(self, row: int) -> Candidate | Status:
        """What trying one row for real comes to."""
        found = self._outcomes.get(row)
        if found is None:
            found = self._outcomes[row] = dry_run(self._context, row)
        return found

    def _is_room(self, plugin: Plugin) -> bool:
        return self._room is not None and plugin is self._room[0]

    def _is_limited(self, plugin: Plugin) -> bool:
        return plugin.name in self._limited.places

    def _counted(self, plugin: Plugin) -> bool:
        """Whether the trial has all that a filter has to say, but for hard rows."""
        return self._is_room(plugin) or self._is_limited(plugin)


def spares_of(rejection: Rejection) -> Callable[[PodInfo], bool] | None:
    """Who is never evicted for the rejected pod, if any filter says so."""
    for plugin, _ in rejection.filters:
        if implements(plugin, PreemptionRulesPlugin):
            rule = plugin.protected_victims(rejection.pod)
            if rule is not None:
                return rule
    return None


def _by_room(rejection: Rejection) -> tuple[RequiredResourcesPlugin, State] | None:
    """The filter that asks for room, if there is one."""
    for plugin, state in rejection.filters:
        if implements(plugin, RequiredResourcesPlugin):
            return plugin, state
    return None


def _verdict(plugin: FilterPlugin, state: State, row: int) -> int:
    """What a filter says of a row as it is."""
    if implements(plugin, FilterAndScoreRowPlugin):
        return int(plugin.filter_and_score_row(state, row)[0])
    return int(plugin.filter(state, np.array([row], np.intp))[0])


def _failure(plugin: str, reasons: Iterable[str]) -> str:
    """Say which filter failed, unless the words say what was being run."""
    words = ", ".join(reasons)
    told = plugin == NAME or words.startswith("running ")
    return words if told else f'running "{plugin}" filter plugin: {words}'
