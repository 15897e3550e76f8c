"""Laws of one question: what a plugin answers about one pod in one world.

An array is right only if it could have been worked out one row at a time, from scratch, in any
order; a fast path, only if it says what the array says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.held_room import offer_for
from holdfast.columns.interner import PODS
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.plugin_results import PreFilterOutcome, run_pre_filter
from holdfast.engine.plugin_use import CyclePlugin, PluginUse
from holdfast.framework.plugin import (
    NO_CHANGE,
    Code,
    CountReasonsPlugin,
    DependsOnPodsPlugin,
    FilterAndScoreRowPlugin,
    FilterRowPlugin,
    Placement,
    Plugin,
    PodChange,
    PodLimits,
    PodLimitsPlugin,
    ReasonGroupsPlugin,
    RequiredResources,
    RequiredResourcesPlugin,
    ReservePlugin,
    Rows,
    ScoreTablePlugin,
    implements,
)
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.testing.random_cluster import RandomCluster


@dataclass(frozen=True, slots=True)
class Case:
    """One plugin prepared for one pod in one world."""

    plugin: CyclePlugin
    pod: PodInfo
    world: World
    outcome: PreFilterOutcome

    @property
    def rows(self) -> Rows:
        """Every row that is a node, ascending."""
        return self.world.nodes.rows

    def verdicts(self, rows: Any, change: PodChange = NO_CHANGE) -> NDArray[np.int8]:
        """What filter answers."""
        found: NDArray[np.int8] = self.plugin.filter(self.outcome.state, rows, change)
        return found

    def scores(self, rows: Any) -> NDArray[np.float64]:
        """What score answers."""
        found: NDArray[np.float64] = self.plugin.score(self.outcome.state, rows)
        return found


def prepare_case(plugin: Plugin, world: World, pod: Any) -> Case:
    """Prepare a plugin for a pod, remembering nothing."""
    pod_info = world.pod_info(pod)
    use = PluginUse(plugin)
    return Case(
        use.plugin, pod_info, world, run_pre_filter(use, pod_info, View(world, pod_info, 0.0), ())
    )


def check_rows(case: Case, answer: Callable[[Any], Any], random: Random, point: str) -> None:
    """A row's answer depends neither on the other rows asked about nor on their order."""
    name, rows = case.plugin.name, case.rows
    whole = answer(rows.copy())
    assert len(whole) == len(rows), f"{name}: {point} answers for each row"
    order = list(range(len(rows)))
    random.shuffle(order)
    assert (answer(rows[order]) == whole[order]).all(), f"{name}: {point} row-order invariance"
    some = sorted(order[: max(1, len(order) // 2)])
    asked = rows[some]
    assert (answer(asked) == whole[some]).all(), f"{name}: {point} subset invariance"
    assert (asked == rows[some]).all(), f"{name}: {point} left its rows unchanged"
    if case.plugin.traits.accepts_slices:
        sliced = answer(slice(0, case.world.nodes.size))
        assert (sliced[rows] == whole).all(), f"{name}: {point} slice equals rows"


def check_verdicts(case: Case) -> None:
    """Verdicts are codes, and every rejection has words, which the tally counts."""
    name, rows = case.plugin.name, case.rows
    verdicts = case.verdicts(rows)
    assert verdicts.dtype == np.int8, f"{name}: verdicts are int8"
    traits = case.plugin.traits
    allowed = {0, 1, 2} | (
        set() if traits.scope.cacheable or traits.accepts_slices else {int(Code.ERROR)}
    )
    assert set(verdicts.tolist()) <= allowed, f"{name}: verdicts are codes"
    rejected = rows[verdicts != 0]
    words = Counter(
        word for row in rejected for word in case.plugin.reasons(case.outcome.state, int(row))
    )
    assert bool(words) == bool(len(rejected)), f"{name}: a rejection has reasons"
    plugin, state = case.plugin, case.outcome.state
    if implements(plugin, CountReasonsPlugin) and len(rejected):
        tally = {w: n for w, n in plugin.count_reasons(state, rejected).items() if n}
        assert tally == words, f"{name}: tally equals reasons"
    if implements(plugin, ReasonGroupsPlugin) and len(rejected):
        said: dict[int, tuple[str, ...]] = {}
        for row, group in zip(
            rejected, plugin.reason_groups(state, rejected).tolist(), strict=True
        ):
            reasons = case.plugin.reasons(state, int(row))
            assert said.setdefault(group, reasons) == reasons, f"{name}: groups give one reason"


def check_changes(case: Case, cluster: RandomCluster) -> None:
    """A hypothesis answers what would be if it came true, and then leaves no trace."""
    name, nodes, rows = case.plugin.name, case.world.nodes, case.rows
    plain = case.verdicts(rows)
    row = int(cluster.random.choice(rows.tolist()))
    more = case.world.pod_info(cluster.a_waiting_pod())
    less = cluster.random.choice([*nodes.pods_on(row).values(), None])
    removed = {row: (less,)} if less is not None else {}
    change = PodChange(added={row: (more,)}, removed=removed)
    asked = case.verdicts(rows, change)
    if implements(case.plugin, FilterRowPlugin):
        single = [case.plugin.filter_row(case.outcome.state, one, change) for one in rows.tolist()]
        assert asked.tolist() == single, f"{name}: one row under a change equals many"
    assert (case.verdicts(rows) == plain).all(), f"{name}: change then undo is identity"
    drawn_on = offer_for(case.world.offers, row, more)
    if drawn_on is not None and case.world.offers.leaving(drawn_on):
        return  # it would take the place of who leaves, and there is no saying when
    if less is not None and less.terminating:
        return  # upstream's spread counts its leaving, and does not count it while it stands
    fork = case.world.fork()
    if less is not None:
        fork.delete(less.pod)
    fork.nodes.add_pod(more, nodes.names[row])
    if drawn_on is not None:
        fork.offers.assign(more.uid, {drawn_on.uid: {**dict(more.request), PODS: 1}})
    real = prepare_case(case.plugin, fork, case.pod.pod)
    if real.outcome.filters:
        assert (real.verdicts(rows) == asked).all(), f"{name}: a change answers what would be"


def check_leaving(case: Case, random: Random) -> None:
    """What a plugin says rests on pods does, or may; where it says no, nobody's leaving matters."""
    plugin, state, nodes = case.plugin, case.outcome.state, case.world.nodes
    row = int(random.choice(case.rows.tolist()))
    there = [pod for pod in nodes.pods_on(row).values() if not pod.is_reserve_pod]
    gone = [pod for pod in there if random.random() < 0.5]
    asked = np.array([row], np.intp)
    verdict = int(case.verdicts(asked, PodChange(removed={row: gone}))[0])
    rests = False
    if implements(plugin, DependsOnPodsPlugin):
        found = plugin.depends_on_pods(state)
        rests = found is not None and bool(found[row])
        if not rests and not implements(plugin, RequiredResourcesPlugin):
            plain = int(case.verdicts(asked)[0])
            assert verdict == plain, f"{plugin.name}: a row that rests on no pods keeps its verdict"
    if implements(plugin, PodLimitsPlugin):
        _check_limits(case, plugin.pod_limits(state), row, gone, verdict)
    if implements(plugin, RequiredResourcesPlugin):
        needs: RequiredResources = plugin.required_resources(state)
        if needs.unknown_rows is not None and needs.unknown_rows[row]:
            return
        enough = _room_left(case, row, gone, needs)
        law = f"{plugin.name}: a row passes where there is room"
        assert enough or verdict, law
        assert rests or enough is (verdict == 0), law


def _check_limits(
    case: Case, limits: PodLimits, row: int, gone: list[PodInfo], verdict: int
) -> None:
    """A row passes exactly if no limit is exceeded once some have left."""
    if limits.unknown_rows is None or not limits.unknown_rows[row]:
        left = [limit.remaining[row] + sum(map(limit.count_of, gone)) for limit in limits.limits]
        within = bool(min(left, default=0) >= 0)
        assert within is (verdict == 0), f"{case.plugin.name}: a row passes within its limits"


def _room_left(case: Case, row: int, gone: list[PodInfo], needs: RequiredResources) -> bool:
    """Tell whether what a plugin needs would be free on a row without some pods."""
    amounts = case.world.nodes.amounts
    room, slots = PodChange(removed={row: gone}).freed_resources(row)
    enough = int(amounts.free[PODS][row]) + slots >= 1
    for resource, amount in needs.amounts:
        waived = resource in needs.ignored_if_absent and not amounts.allocatable[resource][row]
        free = int(amounts.free[resource][row]) + room.get(resource, 0)
        enough = enough and (waived or free >= amount)
    return enough


def check_table(case: Case) -> None:
    """A table of scores says the same as scoring row by row and normalizing."""
    plugin, state = case.plugin, case.outcome.state
    if not implements(plugin, ScoreTablePlugin):
        return
    assert case.plugin.pre_score(state, case.rows) is None
    found = plugin.score_table(state, case.rows)
    if found is not None:
        final = case.plugin.normalize_score(state, case.rows, case.scores(case.rows))
        assert (found[1][found[0]] == final).all(), f"{plugin.name}: a table says what rows say"


def check_twin(case: Case) -> None:
    """The scalar twin gives the same verdict and raw score as the arrays."""
    plugin, prepared = case.plugin, case.outcome
    if not implements(plugin, FilterAndScoreRowPlugin):
        return
    verdicts = case.verdicts(case.rows) if prepared.filters else None
    scores = case.scores(case.rows) if prepared.scores else None
    for i, row in enumerate(case.rows.tolist()):
        verdict, score = plugin.filter_and_score_row(prepared.state, row)
        same = (verdicts is None or verdict == verdicts[i]) and (
            scores is None or score == scores[i]
        )
        assert same, f"{plugin.name}: scalar twin equals vector"


def check_promise(case: Case, random: Random) -> None:
    """What reserve enters unreserve withdraws, however often it is asked to."""
    if not implements(case.plugin, ReservePlugin):
        return
    fork = prepare_case(case.plugin, case.world.fork(), case.pod.pod)
    world, state, rows = fork.world, fork.outcome.state, fork.rows
    before = fork.verdicts(rows) if fork.outcome.filters else np.zeros(len(rows), np.int8)
    passing = rows[before == 0].tolist()
    if not passing:
        return
    row = random.choice(passing)
    placement = Placement(fork.pod, row, world.nodes.names[row], {case.plugin.name: state})
    world.assume(fork.pod, row)
    case.plugin.reserve(state, placement)
    case.plugin.unreserve(state, placement)
    case.plugin.unreserve(state, placement)
    world.forget(fork.pod.uid)
    again = prepare_case(case.plugin, world, case.pod.pod)
    if fork.outcome.filters:
        same = (again.verdicts(rows) == before).all()
        assert same, f"{case.plugin.name}: reserve then unreserve is identity"
