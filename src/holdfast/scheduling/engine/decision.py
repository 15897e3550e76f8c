"""Choose a node for a pod, in two pure functions: ``feasible`` and ``rank``.

``feasible`` runs the PreFilter and Filter plugins and returns the rows on which the pod can run, or
why there are none. ``rank`` runs the Score plugins and returns the best row. The caller (the
scheduler, a simulation, a test) applies the decision: nothing here changes the world.

Results are kept for the next pods, and a change of the cluster updates only the rows that it
concerns (docs/caching.md). That makes decisions faster and must never change them. These are the
invariants, asserted by ``decision_check`` under ``--check-invariants``::

    cache.pod_class             pods of one class get the same decision
    pod_class.refresh           feasible_mask and totals are the combined results of all plugins
    pod_class.remaining_after   equal verdicts of filters per pod leave the same rows
    pod_class.best_rows         exactly the feasible rows with the highest total
    pod_class.uniform           the totals are also right for a subset of the feasible rows
    pod_class.tier_classes      the rows that a plugin with tiers lets pass, the best tier first
    pod_class.first_rejections  for each row, the first filter that rejects it
    NominatedPodFilter.refresh  for each row, the filters' result with its nominated pods added
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from holdfast.scheduling.engine.cached_scores import INFEASIBLE, best_of
from holdfast.scheduling.engine.decision_cache import decision_cache
from holdfast.scheduling.engine.feasible_rows import Feasible, rows_before, run_filters_per_pod
from holdfast.scheduling.engine.nominated_pods import (
    nominated_in_sets,
    put_statuses_in_sets,
    run_filter_plugins,
)
from holdfast.scheduling.engine.plugin_results import PreFilterOutcome, active_filters
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.rejections import (
    common_allowed_rows,
    pre_filter_rejection,
    reject_all_nodes,
    reject_by_row,
)
from holdfast.scheduling.engine.scoring import (
    best_tier,
    run_pre_score_plugins,
    score_rows,
    total,
    weighted_scores,
)
from holdfast.scheduling.framework.plugin import (
    AnyRows,
    Code,
    Placement,
    PodChange,
    Reject,
    Rows,
    Scope,
)
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.rejection import Rejection, RowStatuses
from holdfast.scheduling.framework.view import View

LIST_LIMITS = "ListLimits"
"""The plugin name in rejections of pods with a list that is too long. Only a change of the pod can
help, so there are no queueing hints."""
_FEW = 32
"""Up to this number the cached best rows are tested one by one, instead of all rows at once."""


def run_pre_enqueue_plugins(profile: Profile, view: View) -> tuple[str, Reject] | None:
    """Return the first plugin that rejects the pod at PreEnqueue, with its result, or None."""
    for plugin in profile.plugins_at(Point.PRE_ENQUEUE):
        reject = plugin.pre_enqueue(view.pod, view)
        if reject is not None:
            return plugin.name, reject
    return None


def decide(profile: Profile, view: View, rng: np.random.Generator) -> Placement | Rejection:
    """Run ``feasible`` and, unless it rejects the pod, ``rank``."""
    found = feasible(profile, view)
    return found if isinstance(found, Rejection) else rank(profile, found, rng)


def feasible(profile: Profile, view: View) -> Feasible | Rejection:
    """Return the rows on which the pod of the view can run, or why there are none.

    1. Look up the pod's class: the plans of the plugins, and the rows that pass every filter whose
       results are kept. Call ``pre_filter`` of the plugins of which nothing is kept (scope
       CLUSTER). Each plugin may reject the pod.
    2. Run the filters whose results are not kept (usually of the scopes DOMAIN and CLUSTER). If a
       plugin lists the rows of each tier, the best tier that has a feasible row is sufficient: a
       lower one is never chosen.
    3. Remove rows on which the pod does not fit together with the pods nominated to them.
    4. If the pod itself is nominated to one of the remaining rows, that row is chosen unscored.
    """
    if view.pod.excess or not view.nodes.row_of:
        return _reject_without_plugins(view)
    found = _pre_filtered(profile, view)
    pod_class = found.pod_class
    # A class stores whether its cached outcomes reject its pods, so most pods skip this.
    if not (pod_class.pre_filter_passed and found.is_of_class):
        rejected = _pre_filter_reject(found.outcomes)
        if rejected is not None:
            return pre_filter_rejection(view, found.outcomes, *rejected)
    if pod_class.parts.tiered is not None:
        tier = _feasible_in_best_tier(found)
        if tier is not None:
            return tier
    return _filter(found)


def _pre_filtered(profile: Profile, view: View) -> Feasible:
    """Return a pod's class and outcomes; the rows are not evaluated yet.

    A plan that is made for this pod alone and only reserves does not affect the choice of a node:
    the pod still uses the rows of its class. Without that rule, a plugin that writes something at
    Reserve for every pod would disable the cache.
    """
    cache = decision_cache(profile, view.world)
    pod_class = cache.pod_class(view.pod, view)
    outcomes = cache.outcomes_for(pod_class, view)
    if outcomes is pod_class.outcomes:
        return Feasible(view.pod, view, pod_class, outcomes, True)
    asked = [outcomes[place] for place, _ in pod_class.parts.asked_per_pod]
    of_class = not any([outcome.decides for outcome in asked])
    return Feasible(view.pod, view, pod_class, outcomes, of_class, asked)


def _feasible_in_best_tier(found: Feasible) -> Feasible | None:
    """Return the feasible rows of the best tier that has any, without evaluating the others.

    None: there are none, or all rows are needed. The pod's own nominated node may be in a lower
    tier, and other nominated pods are considered for the whole class only (decision 0027).
    """
    pod, view = found.pod, found.view
    nominated = pod.pod.status.nominated_node_name or view.world.nominations
    if nominated or not found.is_of_class:
        return None
    whole = found.pod_class
    for tier_class in whole.tier_classes():
        tier_class.refresh()
        tier = Feasible(
            pod, view, tier_class, found.outcomes, True, found.outcomes_per_pod, whole_class=whole
        )
        if tier_class.parts.filters_per_pod:
            tier, _ = run_filters_per_pod(tier)
        if tier.row_count:
            return tier
    return None


def _filter(found: Feasible) -> Feasible | Rejection:
    """Run the filters for all rows that PreFilter allows."""
    world, pod_class, error = found.view.world, found.pod_class, ""
    pod_class.refresh()
    if pod_class.parts.filters_per_pod or not found.is_of_class:
        found, error = run_filters_per_pod(found)
    nominated = bool(world.nominations)
    if nominated:
        found = _with_nominated_pods(found)
    if nominated or found.pod.pod.status.nominated_node_name:
        found = _with_preselected_row(found)
    if error and found.preselected_row is None:
        return reject_all_nodes(found.view, found.outcomes, error=error)
    return found if found.row_count else _reject(found)


def _reject(found: Feasible) -> Rejection:
    """Reject a pod for which no row is feasible."""
    view, pod_class = found.view, found.pod_class
    if not found.is_of_class:
        return reject_by_row(view, found.outcomes, found.statuses)
    verdicts = [] if found.remaining is None else found.remaining.verdicts
    kept, nominated = pod_class.first_rejections(verdicts), None
    if not pod_class.parts.filters_per_pod:
        nominated = pod_class.made_nominated_filter
    return reject_by_row(view, found.outcomes, found.statuses, kept, nominated)


def _reject_without_plugins(view: View) -> Rejection:
    """Reject a pod for which no plugin is called: there are no nodes, or a list is too long."""
    if not view.pod.excess:
        return reject_all_nodes(view, ())
    too_many = Reject(Code.UNRESOLVABLE, (view.pod.excess,))
    return reject_all_nodes(view, (), pre_filter_reject=(LIST_LIMITS, too_many))


def _pre_filter_reject(outcomes: list[PreFilterOutcome]) -> tuple[str, Reject] | None:
    """Return the plugin that rejects the pod at PreFilter, with its result, or None.

    If there are several, it is the first whose code is not UNSCHEDULABLE, else the last, as
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


def _with_nominated_pods(found: Feasible) -> Feasible:
    """Remove the rows on which the pod does not fit together with the pods nominated to them."""
    pod_class, size = found.pod_class, found.view.nodes.size
    if pod_class.parts.filters_per_pod or not found.is_of_class:
        statuses = _statuses_with_nominated_pods(found)
    else:
        kept = pod_class.nominated_filter(found.view.world, found.pod.priority)
        statuses, own = kept.refresh(), found.nominated_row
        if own is not None:
            statuses = statuses.resized(size)
            statuses.put(own, kept.status(own, without=found.pod.uid))
    if not statuses:
        return replace(found, statuses=statuses)
    mask = found.current_mask & (statuses.numbers[:size] == 0)
    return replace(found, mask=mask, statuses=statuses)


def _statuses_with_nominated_pods(found: Feasible) -> RowStatuses:
    """Return the statuses of feasible rows that fail once their nominated pods are added.

    Three things are left out: the pass without nominated pods, which the rows have passed already;
    the cached filters; and the filters of scope NODE. Row sets are evaluated for all rows in one
    call. When every filter ran twice for each nominated row, a decision next to 100 nominated pods
    of a policy took 33 ms; now it takes 1.4.
    """
    pod_class, nodes, nominations = found.pod_class, found.view.nodes, found.view.world.nominations
    mask = found.current_mask
    statuses, filters = RowStatuses(nodes.size), active_filters(found.outcomes)
    remaining = filters
    if found.is_of_class:
        # The results of the filters before the first one that is called per pod are kept.
        kept = pod_class.nominated_filter(found.view.world, found.pod.priority)
        remaining = filters[kept.filter_count :]
        statuses = kept.refresh().resized(nodes.size)
        statuses.put_all((~mask & (statuses.numbers != 0)).nonzero()[0], None)
        # The class also counts the pod itself on the row it is nominated to: filter that row again.
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


def _with_preselected_row(found: Feasible) -> Feasible:
    """Choose the row that the pod is nominated to, if it is feasible."""
    pod, world = found.pod, found.view.world
    node = world.nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name
    row = world.nodes.row_of.get(node)
    if row is None or not found.current_mask[row]:
        return found
    return replace(found, preselected_row=row)


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
        # Only these can have pre_score without score; most have none, and need no list of rows.
        if not found.is_of_class and any([p.only_pre_scores for p in found.outcomes_per_pod]):
            run_pre_score_plugins(found.outcomes_per_pod, found.rows)
        row = _best_row(profile, found, rng, extender_scores)
    placement = Placement(found.pod, row, found.view.nodes.names[row], found.plans)
    if not found.outcomes_per_pod:
        placement.reservers = found.pod_class.reservers
    return placement


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
        if not pod_class.parts.has_totals and len(only := found.rows) == 1:
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
    # If the mask has any of the best rows of the class, no other row of it is as good.
    ties = pod_class.best_rows()
    if len(ties) <= _FEW:
        feasible_ties = sorted([row for row in ties if mask[row]])
        if feasible_ties:
            return feasible_ties
    return best_of(np.where(mask, pod_class.totals[: len(mask)], INFEASIBLE))


def scored_rows(profile: Profile, found: Feasible) -> tuple[AnyRows, NDArray[np.float64]]:
    """Return the rows of the best tier and their totals, from the cache where that is valid."""
    pod_class = found.pod_class
    cached = pod_class.parts.has_totals and found.has_scores_of_class
    if not (cached and (found.mask is None or pod_class.uniform)):
        rows = best_tier(found.outcomes, found.rows)
        return rows, total(score_rows(profile, found.outcomes, rows), len(rows))
    size = found.view.nodes.size
    chosen: AnyRows = slice(0, size) if found.row_count == size else found.rows
    sums = pod_class.totals[chosen] if isinstance(chosen, slice) else pod_class.totals.take(chosen)
    parts = pod_class.parts
    if parts.dominant_score is not None:
        sums = sums + parts.dominant_score.scores_of(chosen)
    for outcome in parts.scores_per_pod:
        sums = sums + weighted_scores(profile, outcome, chosen)
    return chosen, sums


def all_tiers(found: Feasible) -> Feasible:
    """Return all feasible rows, also where those of the best tier were sufficient."""
    if found.whole_class is None:
        return found
    whole = found.whole_class
    complete = _filter(replace(found, pod_class=whole, mask=None, remaining=None, whole_class=None))
    assert isinstance(complete, Feasible), "a row of the best tier is feasible"
    return complete


def rows_to_filter(profile: Profile, view: View, plugin: str) -> Rows:
    """Return the rows with which ``feasible`` would call a filter that it calls for every pod."""
    none: Rows = np.zeros(0, np.intp)
    if view.pod.excess or not view.nodes.row_of:
        return none
    found = _pre_filtered(profile, view)
    if _pre_filter_reject(found.outcomes) is not None:
        return none
    found.pod_class.refresh()
    return rows_before(found, plugin)
