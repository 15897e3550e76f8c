"""Rules for the results of a plugin for one pod in one world.

An array must be the same as if it were computed one row at a time, in any order; a fast path must
return the same as the array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import is_
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.plugin_results import PreFilterOutcome, WrongPlan, run_pre_filter
from holdfast.scheduling.engine.plugin_use import CyclePlan, PluginUse
from holdfast.scheduling.framework.plan import PodPlan
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    Code,
    Placement,
    Plugin,
    PodChange,
    PodLimits,
    PreemptionRules,
    Reject,
    RequiredResources,
    Reserver,
    Rows,
    Scope,
)
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.preemption_rules import rules_of
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.reserved_resources import expected_reservation
from holdfast.testing.memory_api import MemoryApi
from holdfast.testing.random_cluster import RandomCluster


@dataclass(frozen=True, slots=True)
class Case:
    """One plugin after ``pre_filter``, for one pod in one world."""

    plugin: Plugin
    pod: PodInfo
    world: World
    outcome: PreFilterOutcome

    @property
    def plan(self) -> CyclePlan:
        """What ``pre_filter`` returned, if that is a plan."""
        return self.outcome.plan

    @property
    def rows(self) -> Rows:
        """The rows of all nodes, ascending."""
        return self.world.nodes.rows

    def verdicts(self, rows: Any, change: PodChange = NO_CHANGE) -> NDArray[np.int8]:
        """Call ``filter``."""
        return self.plan.filter(rows, change)

    def scores(self, rows: Any) -> NDArray[np.float64]:
        """Call ``score``."""
        return self.plan.score(rows)


def prepare_case(plugin: Plugin, world: World, pod: Any, now: float = 0.0) -> Case:
    """Call ``pre_filter`` for a pod, without caches."""
    pod_info = world.pod_info(pod)
    use = PluginUse(plugin)
    try:
        outcome = run_pre_filter(use, pod_info, View(world, pod_info, now))
    except WrongPlan as wrong:
        raise AssertionError(str(wrong)) from wrong
    return Case(use.plugin, pod_info, world, outcome)


def check_rows(case: Case, call: Callable[[Any], Any], random: Random, point: str) -> None:
    """Check that the result for a row depends neither on the other rows nor on their order."""
    name, rows = case.plugin.name, case.rows
    whole = call(rows.copy())
    assert len(whole) == len(rows), f"{name}: {point} returns a value per row"
    order = list(range(len(rows)))
    random.shuffle(order)
    assert (call(rows[order]) == whole[order]).all(), f"{name}: {point} row-order invariance"
    some = sorted(order[: max(1, len(order) // 2)])
    asked = rows[some]
    assert (call(asked) == whole[some]).all(), f"{name}: {point} subset invariance"
    assert (asked == rows[some]).all(), f"{name}: {point} left its rows unchanged"
    if case.plugin.traits.accepts_slices:
        sliced = call(slice(0, case.world.nodes.size))
        assert (sliced[rows] == whole).all(), f"{name}: {point} slice equals rows"


def check_verdicts(case: Case) -> None:
    """Check that verdicts are codes and rejected rows have reasons, as in ``count_reasons``."""
    name, rows = case.plugin.name, case.rows
    verdicts = case.verdicts(rows)
    assert verdicts.dtype == np.int8, f"{name}: verdicts are int8"
    traits = case.plugin.traits
    allowed = {0, 1, 2} | (
        set()
        if traits.scope in (Scope.NODE, Scope.ROW) or traits.accepts_slices
        else {int(Code.ERROR)}
    )
    assert set(verdicts.tolist()) <= allowed, f"{name}: verdicts are codes"
    rejected = rows[verdicts != 0]
    reasons_of_rows = Counter(reason for row in rejected for reason in case.plan.reasons(int(row)))
    assert bool(reasons_of_rows) == bool(len(rejected)), f"{name}: a rejection has reasons"
    counts = {w: n for w, n in case.plan.count_reasons(rejected).items() if n}
    assert counts == reasons_of_rows, f"{name}: count_reasons equals reasons"
    groups = case.plan.reason_groups(rejected)
    if groups is not None:
        by_group: dict[int, tuple[str, ...]] = {}
        for row, group in zip(rejected, groups.tolist(), strict=True):
            reasons = case.plan.reasons(int(row))
            assert by_group.setdefault(group, reasons) == reasons, (
                f"{name}: rows of one group have the same reasons"
            )


def check_changes(case: Case, cluster: RandomCluster) -> None:
    """Check that verdicts with a hypothetical change equal those after it and change no state."""
    name, nodes, rows = case.plugin.name, case.world.nodes, case.rows
    plain = case.verdicts(rows)
    row = int(cluster.random.choice(rows.tolist()))
    more = case.world.pod_info(cluster.a_waiting_pod())
    less = cluster.random.choice([*nodes.pods_on(row).values(), None])
    removed = {row: (less,)} if less is not None else {}
    change = PodChange(added={row: (more,)}, removed=removed)
    asked = case.verdicts(rows, change)
    single = [case.plan.filter_row(one, change) for one in rows.tolist()]
    assert asked.tolist() == single, f"{name}: filter_row equals filter with a change"
    assert (case.verdicts(rows) == plain).all(), f"{name}: change then undo is identity"
    reservation = expected_reservation(case.world.reservations, row, more)
    if reservation is not None and case.world.reservations.terminating_owners(reservation):
        return  # whether the pod gets the resources of the leaving one depends on the order
    if less is not None and less.terminating:
        return  # upstream's spread counts its removal, but not the terminating pod itself
    mine = case.pod.affinity_terms
    has_terms = mine.required_affinity or mine.required_anti_affinity
    if more.affinity_terms.required_anti_affinity and not has_terms and not asked.any():
        return  # upstream's PreFilter ignores them if no existing pod's term is in a domain
    fork = case.world.fork()
    if less is not None:
        fork.delete(less.pod)
    fork.nodes.add_pod(more, nodes.names[row])
    if reservation is not None:
        fork.reservations.allocate(more.uid, {reservation.uid: {**dict(more.request), PODS: 1}})
    real = prepare_case(case.plugin, fork, case.pod.pod)
    if real.outcome.filters:
        assert (real.verdicts(rows) == asked).all(), (
            f"{name}: verdicts with a change equal those after it"
        )


def check_leaving(case: Case, random: Random) -> None:
    """Check ``depends_on_pods``, ``pod_limits`` and ``required_resources`` against ``filter``."""
    plugin, rules, nodes = case.plugin, rules_of(case.plan), case.world.nodes
    row = int(random.choice(case.rows.tolist()))
    there = [pod for pod in nodes.pods_on(row).values() if not pod.is_reserve_pod]
    removed_pods = [pod for pod in there if random.random() < 0.5]
    asked = np.array([row], np.intp)
    verdict = int(case.verdicts(asked, PodChange(removed={row: removed_pods}))[0])
    required, limits, depends = rules.required_resources(), rules.pod_limits(), False
    if required is None or overrides(case.plan, PreemptionRules.depends_on_pods):
        depending = rules.depends_on_pods()
        depends = bool(depending[row] if isinstance(depending, np.ndarray) else depending)
    if not depends and required is None:
        plain = int(case.verdicts(asked)[0])
        assert verdict == plain, (
            f"{plugin.name}: a verdict that does not depend on pods stays when pods leave"
        )
    if limits is not None:
        _check_limits(case, limits, row, removed_pods, verdict)
    if required is not None:
        if required.unknown_rows is not None and required.unknown_rows[row]:
            return
        enough = _resources_suffice(case, row, removed_pods, required)
        law = f"{plugin.name}: a row passes if the resources suffice"
        assert enough or verdict, law
        assert depends or enough is (verdict == 0), law


def _check_limits(
    case: Case, limits: PodLimits, row: int, removed_pods: list[PodInfo], verdict: int
) -> None:
    """Check that a row passes exactly if no limit is exceeded without the removed pods."""
    if limits.unknown_rows is None or not limits.unknown_rows[row]:
        left = [
            limit.remaining[row] + sum(map(limit.count_of, removed_pods)) for limit in limits.limits
        ]
        within = bool(min(left, default=0) >= 0)
        assert within is (verdict == 0), f"{case.plugin.name}: a row passes within its limits"


def _resources_suffice(
    case: Case, row: int, removed_pods: list[PodInfo], required: RequiredResources
) -> bool:
    """Return whether the required resources are free on a row without some pods."""
    amounts = case.world.nodes.amounts
    freed, pod_slots = PodChange(removed={row: removed_pods}).freed_resources(row)
    enough = int(amounts.free[PODS][row]) + pod_slots >= 1
    for resource, amount in required.amounts:
        ignored = resource in required.ignored_if_absent and not amounts.allocatable[resource][row]
        free = int(amounts.free[resource][row]) + freed.get(resource, 0)
        enough = enough and (ignored or free >= amount)
    return enough


def check_table(case: Case) -> None:
    """Check that ``score_table`` equals ``score`` and ``normalize_score``."""
    if not case.outcome.methods.has_score_table:
        return
    assert case.plan.pre_score(case.rows) is None
    indexes_and_table = case.plan.score_table(case.rows)
    if indexes_and_table is not None:
        final = case.plan.normalize_score(case.rows, case.scores(case.rows))
        assert (indexes_and_table[1][indexes_and_table[0]] == final).all(), (
            f"{case.plugin.name}: score_table equals normalize_score"
        )


def check_tier_rows(case: Case, outcome: PreFilterOutcome) -> None:
    """Check that ``tier_rows`` equals ``filter`` and ``tier``; rows of a tier have one score."""
    plan, rows, name = outcome.plan, case.rows, case.plugin.name
    tier_rows = plan.tier_rows() if outcome.filters and outcome.tiers else None
    if tier_rows is None:
        return
    passed = rows[plan.filter(rows) == 0]
    tiers = plan.tier(passed)
    expected = [passed[tiers == tier].tolist() for tier in np.unique(tiers)]
    listed = [of_tier for of_tier in tier_rows if len(of_tier)]
    law = f"{name}: tier_rows equals filter and tier"
    assert [of_tier.tolist() for of_tier in listed] == expected, law
    again = plan.tier_rows()
    assert again is not None and all(map(is_, again, tier_rows)), (
        f"{name}: tier_rows returns the same arrays unless their rows changed"
    )
    for of_tier in listed if outcome.scores else ():
        scores = plan.normalize_score(of_tier, plan.score(of_tier))
        assert (scores == scores[0]).all(), f"{name}: rows of a tier have the same score"


def check_twin(case: Case) -> None:
    """Check that ``filter_row`` equals ``filter`` and ``score_row`` equals ``score``."""
    rows, name = case.rows.tolist(), case.plugin.name
    if case.outcome.filters:
        single = [case.plan.filter_row(row) for row in rows]
        assert case.verdicts(case.rows).tolist() == single, f"{name}: filter_row equals filter"
    if case.outcome.scores:
        scores = [case.plan.score_row(row) for row in rows]
        assert case.scores(case.rows).tolist() == scores, f"{name}: score_row equals score"


def check_preparation(case: Case) -> None:
    """Check that ``prepare_rows`` changes neither verdicts nor scores."""
    plugin = case.plugin
    if not overrides(case.plan, PodPlan.prepare_rows):
        return
    fork = prepare_case(plugin, case.world.fork(), case.pod.pod)
    for _ in fork.plan.prepare_rows():
        pass
    law = f"{plugin.name}: results are the same after prepare_rows"
    if case.outcome.filters:
        assert (fork.verdicts(case.rows) == case.verdicts(case.rows)).all(), law
    if case.outcome.scores:
        assert (fork.scores(case.rows) == case.scores(case.rows)).all(), law


def check_promise(case: Case, random: Random) -> None:
    """Check that ``unreserve`` undoes ``reserve``, even if it is called twice."""
    if not overrides(case.plan, Reserver.reserve):
        return
    fork = prepare_case(case.plugin, case.world.fork(), case.pod.pod)
    world, plan, rows = fork.world, fork.outcome.plan, fork.rows
    assert isinstance(plan, Reserver)
    before = fork.verdicts(rows) if fork.outcome.filters else np.zeros(len(rows), np.int8)
    passing = rows[before == 0].tolist()
    if not passing:
        return
    row = random.choice(passing)
    placement = Placement(fork.pod, row, world.nodes.names[row], {case.plugin.name: plan})
    world.assume(fork.pod, row)
    plan.reserve(placement)
    plan.unreserve(placement)
    plan.unreserve(placement)
    world.forget(fork.pod.uid)
    again = prepare_case(case.plugin, world, case.pod.pod)
    if fork.outcome.filters:
        same = (again.verdicts(rows) == before).all()
        assert same, f"{case.plugin.name}: reserve then unreserve is identity"


def check_pending(case: Case, cluster: RandomCluster) -> None:
    """Check that, after PreBind ends pending, a second attempt in the same world writes nothing."""
    plugin = case.plugin
    if not overrides(case.plan, Reserver.may_end_pending):
        return
    api = MemoryApi(case.world.fork())
    api.load(cluster.classic.values())
    rejection = _pend(case, api, cluster.random)
    if rejection is not None:
        api.calls.clear()
        again = _pend(case, api, cluster.random)
        assert again == rejection, f"{plugin.name}: it waits as before"
        assert not api.calls, f"{plugin.name}: a second attempt writes nothing, not {api.calls}"


def _pend(case: Case, api: MemoryApi, random: Random) -> Reject | None:
    """Run one attempt up to PreBind in the world of the API, and return what PreBind returned."""
    world = api.world
    assert world is not None
    again = prepare_case(case.plugin, world, case.pod.pod)
    plan, rows = again.outcome.plan, again.rows
    assert isinstance(plan, Reserver)
    passing = rows[again.verdicts(rows) == 0] if again.outcome.filters else rows
    if not len(passing):
        return None
    if len(passing) > 1:
        again.plan.pre_score(passing)
    row = random.choice(passing.tolist())
    placement = Placement(again.pod, row, world.nodes.names[row], {case.plugin.name: plan})
    plan.reserve(placement)
    ended = None
    if plan.may_end_pending(placement):
        ended = api.drive(plan.pre_bind(placement))
    plan.unreserve(placement)
    return ended
