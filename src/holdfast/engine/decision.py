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
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.engine.cached_scores import INFEASIBLE, best_of
from holdfast.engine.decision_cache import decision_cache
from holdfast.engine.nominated_pods import (
    NominatedPodFilter,
    nominated_in_sets,
    put_statuses_in_sets,
    run_filter_plugins,
)
from holdfast.engine.plugin_results import PreFilterOutcome, active_filters, in_filter_order
from holdfast.engine.pod_class import PodClass, RemainingRows
from holdfast.engine.profile import Profile
from holdfast.engine.rejections import (
    common_allowed_rows,
    pre_filter_rejection,
    reject_all_nodes,
    reject_by_row,
)
from holdfast.engine.scoring import best_tier, score_rows, total, weighted_scores
from holdfast.framework.plugin import (
    AnyRows,
    Code,
    Placement,
    PodChange,
    PreEnqueuePlugin,
    Reject,
    Rows,
    Scope,
    State,
)
from holdfast.framework.rejection import NO_STATUSES, Rejection, RowStatuses
from holdfast.framework.view import View
from holdfast.framework.world import World

LIST_LIMITS = "ListLimits"
"""Stands for the plugin that rejects a pod with a list that is too long. Only a change of the pod
can help, so there are no queueing hints."""
_FEW = 32
"""Up to this number the cached best rows are tested one by one, instead of all rows at once."""


@dataclass(slots=True, eq=False)
class Feasible:
    """The rows on which a pod can run.

    ``outcomes`` is the list ``pod_class.outcomes`` itself, unless a plugin that is called for every
    pod takes part. ``mask`` is None while it equals ``pod_class.feasible_mask``.
    ``preselected_row`` is the row of the node that the pod is nominated to, if that is feasible: it
    is chosen without scoring. ``best_tier`` has the feasible rows of the best tier, if they were
    found without the others: then all ``rows`` are computed when they are read.
    """

    pod: PodInfo
    view: View
    pod_class: PodClass
    outcomes: list[PreFilterOutcome]
    mask: NDArray[np.bool_] | None = None
    preselected_row: int | None = None
    statuses: RowStatuses = NO_STATUSES
    remaining: RemainingRows | None = None
    best_tier: Feasible | None = None

    @property
    def rows(self) -> Rows:
        """The feasible rows, ascending; a shared array, do not modify it."""
        if self.best_tier is not None and self.mask is None:
            self.pod_class.refresh()
            _run_uncached_filters(self)
        if self.mask is None:
            return self.pod_class.rows()
        if self.remaining is not None and self.mask is self.remaining.mask:
            return self.remaining.rows
        rows: Rows = self.mask.nonzero()[0]
        return rows

    @property
    def count(self) -> int:
        """The number of feasible rows."""
        return self.pod_class.count if self.mask is None else int(np.count_nonzero(self.mask))

    @property
    def nominated_row(self) -> int | None:
        """The row of the node that the pod is nominated to, or None."""
        return self.view.nodes.row_of.get(self.view.world.nominations.node_of(self.pod.uid))

    @property
    def states(self) -> dict[str, State]:
        """The state of each plugin that takes part, by name; do not modify it."""
        if self.outcomes is self.pod_class.outcomes:
            return self.pod_class.states
        return {p.plugin.name: p.state for p in self.outcomes if not p.skip}

    def restricted_to(self, rows: Rows) -> Feasible:
        """Return the same with only these rows, which extenders have chosen."""
        mask = np.zeros(self.view.nodes.size, np.bool_)
        mask[rows] = True
        chosen = (
            self.preselected_row
            if self.preselected_row is not None and mask[self.preselected_row]
            else None
        )
        return Feasible(
            self.pod, self.view, self.pod_class, self.outcomes, mask, chosen, self.statuses
        )


def run_pre_enqueue_plugins(
    profile: Profile, pod: PodInfo, world: World, now: float
) -> tuple[str, Reject] | None:
    """Return the first plugin that rejects the pod at PreEnqueue, with its result, or None."""
    view = View(world, pod, now)
    for plugin in profile.plugins_at(PreEnqueuePlugin):
        reject: Reject | None = plugin.pre_enqueue(pod, view)
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
    found = Feasible(pod, view, pod_class, pod_class.outcomes)
    if pod_class.per_pod or not pod_class.pre_filter_passed:
        found.outcomes = cache.pre_filter_per_pod(pod_class, pod, view)
        if found.outcomes is not pod_class.outcomes or not pod_class.pre_filter_passed:
            rejected = _pre_filter_reject(found.outcomes)
            if rejected is not None:
                return pre_filter_rejection(view, found.outcomes, *rejected)
    if pod_class.tiered is not None and _find_best_tier(found):
        return found
    pod_class.refresh()
    error = ""
    if pod_class.uncached_filters or found.outcomes is not pod_class.outcomes:
        error = _run_uncached_filters(found)
    nominated = bool(world.nominations)
    if nominated:
        _filter_with_nominated_pods(found)
    if nominated or pod.pod.status.nominated_node_name:
        _preselect_nominated_row(found)
    if error and found.preselected_row is None:
        return reject_all_nodes(view, found.outcomes, error=error)
    return found if found.count else _reject(found)


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
            _run_uncached_filters(tier)
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
            last = (outcome.plugin.name, outcome.reject)
            if outcome.reject.code is not Code.UNSCHEDULABLE:
                return last
    if last is not None:
        return last
    restricting = [p for p in outcomes if p.allowed_rows is not None]
    if len(restricting) > 1 and not len(common_allowed_rows(restricting)):
        names = sorted(p.plugin.name for p in restricting)
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
        return ", ".join(names), Reject(Code.UNRESOLVABLE, (reason,))
    return None


def _run_uncached_filters(found: Feasible) -> str:
    """Remove the rows that uncached filters reject from the mask; return an error, or "".

    An error on any row fails the attempt, unless the pod fits on the node it is nominated to.
    """
    pod_class = found.pod_class
    if pod_class.accepts_slices and found.outcomes is pod_class.outcomes:
        size = found.view.nodes.size
        # A slice of all rows is cheaper than selected rows, and these plugins return no errors.
        all_rows = slice(0, size)
        found.remaining = pod_class.remaining_after(
            [p.plugin.filter(p.state, all_rows) for p in pod_class.uncached_filters]
        )
        found.mask = found.remaining.mask
        return ""
    return _run_filters_in_order(found)


def _run_filters_in_order(found: Feasible) -> str:
    size, error = found.view.nodes.size, ""
    passed = np.ones(size, np.bool_)
    for outcome in found.outcomes:
        if outcome.row_results is not None or outcome.skip:
            continue
        if outcome.allowed_rows is not None:
            allowed = np.zeros(size, np.bool_)
            allowed[outcome.allowed_rows] = True
            passed &= allowed
        if not outcome.filters:
            continue
        if outcome.use.accepts_slices:
            passed &= outcome.plugin.filter(outcome.state, slice(0, size)) == 0
            continue
        rows = (passed & _passed_before(found, outcome)).nonzero()[0]
        verdicts = outcome.plugin.filter(outcome.state, rows)
        failed = (verdicts == Code.ERROR).nonzero()[0]
        if len(failed) and not error:
            reasons = ", ".join(outcome.plugin.reasons(outcome.state, int(rows[failed[0]])))
            error = f'running "{outcome.plugin.name}" filter plugin: {reasons}'
        passed[rows] = verdicts == 0
    found.mask = found.pod_class.feasible_mask[:size] & passed
    return error


def _passed_before(found: Feasible, outcome: PreFilterOutcome) -> NDArray[np.bool_]:
    """Return a mask of the rows that pass all cached filters before this one in filter order.

    Rows that only later filters reject are included: an error of this filter there counts.
    """
    size = found.view.nodes.size
    mask = found.pod_class.feasible_mask[:size]
    order = outcome.use.filter_order
    cached = [p for p in found.outcomes if p.filters and p.row_results is not None]
    if all(other.use.filter_order < order for other in cached):
        return mask
    mask = found.view.nodes.alive[:size].copy()
    for other in cached:
        verdicts = other.row_results.verdicts if other.row_results is not None else None
        if verdicts is not None and other.use.filter_order < order:
            mask &= verdicts[:size] == 0
    return mask


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
        row = _best_row(profile, compared, rng, extender_scores)
    return Placement(found.pod, row, found.view.nodes.names[row], found.states)


def _best_row(
    profile: Profile,
    found: Feasible,
    rng: np.random.Generator,
    extender_scores: NDArray[np.float64] | None,
) -> int:
    pod_class = found.pod_class
    cached = pod_class.totals_complete and found.outcomes is pod_class.outcomes
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
    cached = pod_class.has_totals and found.outcomes is pod_class.outcomes
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
