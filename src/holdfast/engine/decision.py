"""Choose a node for a pod, in two pure functions: ``feasible`` and ``rank``.

``feasible`` runs the PreFilter and Filter plugins and returns the rows on which the pod can run, or
why there are none. ``rank`` runs the Score plugins and returns the best row. The caller (the
scheduler, a simulation, a test) applies the decision: nothing here changes the world.

Results are cached between pods, and a change of the cluster updates only the rows that it concerns.
The cache makes decisions faster and must never change them. These are its invariants, asserted
by ``decision_check`` under ``--check-invariants``::

    cache.pod_class             pods of one class get the same decision
    pod_class.refresh           feasible_mask and totals are the combined results of all plugins
    pod_class.remaining_after   equal verdicts of uncached filters leave the same rows
    pod_class.best_rows         exactly the feasible rows with the highest total
    pod_class.uniform           the totals are also right for a subset of the feasible rows
    pod_class.tier_classes      the rows that a plugin with tiers lets pass, the best tier first
    pod_class.first_rejections  for each row, the first filter that rejects it
    NominatedPodFilter.refresh  for each row, the filters' result with its nominated pods added
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.cached_scores import INFEASIBLE, best_of
from holdfast.engine.decision_cache import decision_cache
from holdfast.engine.feasible_rows import Feasible, rows_before, run_uncached_filters
from holdfast.engine.nominated_pods import (
    NominatedPodFilter,
    nominated_in_sets,
    put_statuses_in_sets,
    run_filter_plugins,
)
from holdfast.engine.plugin_results import PreFilterOutcome, active_filters, in_filter_order
from holdfast.engine.profile import Profile
from holdfast.engine.rejections import (
    common_allowed_rows,
    pre_filter_rejection,
    reject_all_nodes,
    reject_by_row,
)
from holdfast.engine.scoring import (
    best_tier,
    run_pre_score_plugins,
    score_rows,
    total,
    weighted_scores,
)
from holdfast.framework.plugin import (
    AnyRows,
    Code,
    Placement,
    PodChange,
    Reject,
    Rows,
    Scope,
)
from holdfast.framework.points import Point
from holdfast.framework.rejection import Rejection, RowStatuses
from holdfast.framework.view import View
from holdfast.framework.world import World

LIST_LIMITS = "ListLimits"
"""Stands for the plugin that rejects a pod with a list that is too long. Only a change of the pod
can help, so there are no queueing hints."""
_FEW = 32
"""Up to this number the cached best rows are tested one by one, instead of all rows at once."""


def run_pre_enqueue_plugins(
    profile: Profile, pod: PodInfo, world: World, now: float
) -> tuple[str, Reject] | None:
    """Return the first plugin that rejects the pod at PreEnqueue, with its result, or None."""
    view = View(world, pod, now)
    for plugin in profile.plugins_at(Point.PRE_ENQUEUE):
        reject = profile.meter.call(plugin.name, Point.PRE_ENQUEUE, plugin.pre_enqueue, pod, view)
        if reject is not None:
            return plugin.name, reject
    return None


def decide(
    profile: Profile, pod: PodInfo, world: World, now: float, rng: np.random.Generator
) -> Placement | Rejection:
    """Run ``feasible`` and, unless it rejects the pod, ``rank``."""
    found = feasible(profile, pod, world, now)
    return found if isinstance(found, Rejection) else rank(profile, found, rng)


def feasible(profile: Profile, pod: PodInfo, world: World, now: float) -> Feasible | Rejection:
    """Return the rows on which the pod can run, or why there are none.

    1. Look up the pod's class: the PreFilter results of the plugins, and the rows that pass every
       cached filter. Call ``pre_filter`` of the uncached plugins. Each may reject the pod.
    2. Run the filters that are not cached. If a plugin lists the rows of each tier, the best tier
       that has a feasible row is sufficient.
    3. Remove rows on which the pod does not fit together with the pods nominated to them.
    4. If the pod itself is nominated to one of the remaining rows, that row is chosen unscored.
    """
    cache = decision_cache(profile, world)
    view = View(world, pod, now, reservations=cache.allocates_reservations)
    if pod.excess or not world.nodes.row_of:
        return _reject_without_plugins(view)
    pod_class = cache.pod_class(pod, view)
    found = Feasible(pod, view, pod_class, cache.pre_filter_per_pod(pod_class, pod, view))
    if not pod_class.pre_filter_passed or any(
        [p.reject is not None or p.allowed_rows is not None for p in found.per_pod_outcomes]
    ):
        rejected = _pre_filter_reject(found.outcomes)
        if rejected is not None:
            return pre_filter_rejection(view, found.outcomes, *rejected)
    if pod_class.tiered is not None and _find_best_tier(found):
        return found
    pod_class.refresh()
    error = ""
    if pod_class.uncached_filters or found.outcomes is not pod_class.outcomes:
        error = run_uncached_filters(found)
    nominated = bool(world.nominations)
    if nominated:
        _filter_with_nominated_pods(found)
    if nominated or pod.pod.status.nominated_node_name:
        _preselect_nominated_row(found)
    if error and found.preselected_row is None:
        return reject_all_nodes(view, found.outcomes, error=error)
    return found if found.count else _reject(found)


def rows_to_filter(profile: Profile, pod: PodInfo, world: World, now: float, plugin: str) -> Rows:
    """Return the rows with which ``feasible`` would call the filter of an uncached plugin."""
    cache = decision_cache(profile, world)
    view = View(world, pod, now, reservations=cache.allocates_reservations)
    none: Rows = np.zeros(0, np.intp)
    if pod.excess or not world.nodes.row_of:
        return none
    pod_class = cache.pod_class(pod, view)
    found = Feasible(pod, view, pod_class, cache.pre_filter_per_pod(pod_class, pod, view))
    if _pre_filter_reject(found.outcomes) is not None:
        return none
    pod_class.refresh()
    return rows_before(found, plugin)


def _find_best_tier(found: Feasible) -> bool:
    """Find the feasible rows of the best tier that has any, without evaluating the others.

    Nominated pods, and plugins that are called for every pod, need all rows.
    """
    pod, view = found.pod, found.view
    if (
        found.outcomes is not found.pod_class.outcomes
        or pod.pod.status.nominated_node_name
        or view.world.nominations
    ):
        return False
    for tier_class in found.pod_class.tier_classes():
        tier_class.refresh()
        tier = Feasible(pod, view, tier_class, tier_class.outcomes)
        if tier_class.uncached_filters:
            run_uncached_filters(tier)
        if tier.count:
            found.best_tier = tier
            return True
    return False


def _reject(found: Feasible) -> Rejection:
    """Reject a pod for which no row is feasible."""
    view, pod_class = found.view, found.pod_class
    if found.outcomes is not pod_class.outcomes:
        return reject_by_row(view, found.outcomes, found.statuses)
    verdicts = [] if found.remaining is None else found.remaining.verdicts
    cached, nominated = pod_class.first_rejections(verdicts), pod_class.nominated_filter
    return reject_by_row(view, found.outcomes, found.statuses, cached, nominated)


def _reject_without_plugins(view: View) -> Rejection:
    """Reject a pod for which no plugin is called: there are no nodes, or a list is too long."""
    if not view.pod.excess:
        return reject_all_nodes(view, ())
    too_many = Reject(Code.UNRESOLVABLE, (view.pod.excess,))
    return reject_all_nodes(view, (), pre_filter_reject=(LIST_LIMITS, too_many))


def _pre_filter_reject(outcomes: list[PreFilterOutcome]) -> tuple[str, Reject] | None:
    """Return the plugin that rejects the pod at PreFilter, with its result, or None.

    Of several it is the first whose code is not UNSCHEDULABLE, otherwise the last one, as
    upstream. Plugins whose allowed rows have nothing in common reject the pod together.
    """
    last = None
    for outcome in outcomes:
        if outcome.reject is not None:
            last = (outcome.use.name, outcome.reject)
            if outcome.reject.code is not Code.UNSCHEDULABLE:
                return last
    if last is not None:
        return last
    restricting = [p for p in outcomes if p.allowed_rows is not None]
    if len(restricting) > 1 and not len(common_allowed_rows(restricting)):
        names = sorted(p.use.name for p in restricting)
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
        return ", ".join(names), Reject(Code.UNRESOLVABLE, (reason,))
    return None


def _filter_with_nominated_pods(found: Feasible) -> None:
    """Remove the rows on which the pod does not fit together with the pods nominated to them."""
    pod_class = found.pod_class
    if pod_class.uncached_filters or found.outcomes is not pod_class.outcomes:
        found.statuses = _statuses_with_nominated_pods(found)
    else:
        if pod_class.nominated_filter is None:
            pod_class.nominated_filter = _make_nominated_filter(found, found.outcomes)
        found.statuses = pod_class.nominated_filter.refresh()
        own = found.nominated_row
        if own is not None:
            found.statuses = found.statuses.resized(found.view.nodes.size)
            found.statuses.put(own, pod_class.nominated_filter.status(own, without=found.pod.uid))
    if found.statuses:
        size = found.view.nodes.size
        mask = pod_class.feasible_mask[:size] if found.mask is None else found.mask
        found.mask = mask & (found.statuses.numbers[:size] == 0)


def _statuses_with_nominated_pods(found: Feasible) -> RowStatuses:
    """Return the statuses of feasible rows that fail once their nominated pods are added."""
    pod_class, nodes, nominations = found.pod_class, found.view.nodes, found.view.world.nominations
    mask = pod_class.feasible_mask[: nodes.size] if found.mask is None else found.mask
    statuses, filters = RowStatuses(nodes.size), active_filters(found.outcomes)
    remaining = filters
    if found.outcomes is pod_class.outcomes:
        # The results of the cached filters before the first uncached one are cached.
        if pod_class.leading_nominated_filter is None:
            leading = takewhile(
                lambda p: p.row_results is not None, in_filter_order(found.outcomes)
            )
            pod_class.leading_nominated_filter = _make_nominated_filter(found, [*leading])
        remaining = filters[pod_class.leading_nominated_filter.filter_count :]
        statuses = pod_class.leading_nominated_filter.refresh().resized(nodes.size)
        statuses.put_all((~mask & (statuses.numbers != 0)).nonzero()[0], None)
        if found.nominated_row is not None:
            statuses.put(found.nominated_row, None)
    rows = nominations.columns.rows(found.pod.priority)
    in_sets = nominated_in_sets(filters, found.view.world, found.pod)
    # Added pods make no difference to filters that depend on the node alone.
    remaining = tuple([pair for pair in remaining if pair[0].traits.scope is not Scope.NODE])
    for row in rows[mask[rows] & (statuses.numbers[rows] == 0)].tolist():
        if others := nominations.ahead_of(found.pod, row):
            added = PodChange({row: [*others.values()]})
            run = filters if row == found.nominated_row else remaining
            statuses.put(row, run_filter_plugins(run, row, added, in_sets))
    if in_sets is not None:
        put_statuses_in_sets(filters, in_sets, mask, statuses)
    return statuses


def _make_nominated_filter(
    found: Feasible, outcomes: Iterable[PreFilterOutcome]
) -> NominatedPodFilter:
    return NominatedPodFilter(
        found.view.world,
        found.pod.priority,
        active_filters(outcomes),
        found.pod_class.feasible_mask,
    )


def _preselect_nominated_row(found: Feasible) -> None:
    """Choose the row that the pod is nominated to, if it is feasible."""
    pod, world = found.pod, found.view.world
    node = world.nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name
    row = world.nodes.row_of.get(node)
    if row is not None:
        mask = found.pod_class.feasible_mask if found.mask is None else found.mask
        if mask[row]:
            found.preselected_row = row


def rank(
    profile: Profile,
    found: Feasible,
    rng: np.random.Generator,
    extender_scores: NDArray[np.float64] | None = None,
) -> Placement:
    """Place the pod on the feasible row with the highest total score; ties are broken at random.

    ``extender_scores``, one per row, are added to the scores of the plugins.
    """
    row = found.preselected_row
    if row is None:
        compared = found if found.best_tier is None else found.best_tier
        # Only these can have pre_score without score; most have none, and need no list of rows.
        if any([p.only_pre_scores for p in found.per_pod_outcomes]):
            run_pre_score_plugins(found.per_pod_outcomes, found.rows)
        row = _best_row(profile, compared, rng, extender_scores)
    return Placement(found.pod, row, found.view.nodes.names[row], found.plans)


def _best_row(
    profile: Profile,
    found: Feasible,
    rng: np.random.Generator,
    extender_scores: NDArray[np.float64] | None,
) -> int:
    pod_class = found.pod_class
    cached = pod_class.totals_complete and found.has_scores_of_class
    cached = cached and extender_scores is None
    if cached and found.mask is None:
        ties: Sequence[int] | Rows = pod_class.best_rows()
    elif cached and pod_class.uniform:
        ties = _best_in_mask(found)
    else:
        if not pod_class.has_totals and len(only := found.rows) == 1:
            return int(only[0])  # as upstream: one row is not scored, so no score can be invalid
        rows, sums = scored_rows(profile, found)
        if extender_scores is not None:
            sums = sums + extender_scores[rows]
        ties = best_of(sums)
        if not isinstance(rows, slice):
            ties = rows[ties]
    count = len(ties)
    return int(ties[0 if count == 1 else int(rng.random() * count)])


def _best_in_mask(found: Feasible) -> Sequence[int] | Rows:
    """Return the rows of the mask with the highest cached total; totals must be uniform."""
    mask, pod_class = found.mask, found.pod_class
    assert mask is not None
    ties = pod_class.best_rows()
    if len(ties) <= _FEW:
        feasible_ties = sorted([row for row in ties if mask[row]])
        if feasible_ties:
            return feasible_ties
    return best_of(np.where(mask, pod_class.totals[: len(mask)], INFEASIBLE))


def scored_rows(profile: Profile, found: Feasible) -> tuple[AnyRows, NDArray[np.float64]]:
    """Return the rows of the best tier and their totals, from the cache where that is valid."""
    found = found if found.best_tier is None else found.best_tier
    pod_class = found.pod_class
    cached = pod_class.has_totals and found.has_scores_of_class
    if not (cached and (found.mask is None or pod_class.uniform)):
        rows = best_tier(found.outcomes, found.rows)
        return rows, total(score_rows(profile, found.outcomes, rows), len(rows))
    size = found.view.nodes.size
    chosen: AnyRows = slice(0, size) if found.count == size else found.rows
    sums = pod_class.totals[chosen] if isinstance(chosen, slice) else pod_class.totals.take(chosen)
    if pod_class.dominant_score is not None:
        sums = sums + pod_class.dominant_score.scores_of(chosen)
    for outcome in pod_class.uncached_scores:
        sums = sums + weighted_scores(profile, outcome, chosen)
    return chosen, sums
