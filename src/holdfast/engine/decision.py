"""One decision, from a pod to its node: two pure halves, ``feasible`` and ``rank``.

``feasible`` finds the rows that can take the pod, or says why there is none; ``rank`` chooses the
best of them. The caller (scheduler, what-if, a test) applies the decision. Nothing here changes the
world; what is kept between calls only makes the next one cheaper, by these invariants::

    memory.record       pods of one class are decided alike
    record.refresh      ok and total are what all kept answers add up to now
    record.left_by      the same verdicts leave the same rows
    record.best_rows    exactly the feasible rows with the highest total
    record.flat         totals hold for any part of the feasible rows
    record.objections   of each row, the first filter that rejects it
    Crowd.refresh       of each row, what filters say with its nominated pods there

``decision_check`` asserts them under ``--check-invariants``.
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
    run_filter_plugins_with_nominated_pods,
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
from holdfast.framework.plugin import AnyRows, Code, Placement, PreEnqueuePlugin, Reject, Rows
from holdfast.framework.rejection import NO_STATUSES, Rejection, RowStatuses
from holdfast.framework.view import View
from holdfast.framework.world import World

LIST_LIMITS = "ListLimits"
"""What rejects a pod of which a list has too many entries; no plugin, so that no event helps."""
_FEW = 32
"""So many kept best rows are looked at one by one before all rows are."""


@dataclass(slots=True, eq=False)
class Feasible:
    """The rows on which a pod can run.

    ``outcomes`` is the list ``pod_class.outcomes`` itself, unless a plugin that is called for every
    pod takes part. ``mask`` is None while it equals ``pod_class.feasible_mask``.
    ``preselected_row`` is the row of the node that the pod is nominated to, if that is feasible: it
    is chosen without scoring.
    """

    pod: PodInfo
    view: View
    pod_class: PodClass
    outcomes: list[PreFilterOutcome]
    mask: NDArray[np.bool_] | None = None
    preselected_row: int | None = None
    statuses: RowStatuses = NO_STATUSES
    remaining: RemainingRows | None = None

    @property
    def rows(self) -> Rows:
        """The feasible rows, ascending. Not to be written to."""
        if self.mask is None:
            return self.pod_class.rows()
        if self.remaining is not None and self.mask is self.remaining.mask:
            return self.remaining.rows
        rows: Rows = self.mask.nonzero()[0]
        return rows

    @property
    def count(self) -> int:
        """How many rows that is."""
        return self.pod_class.count if self.mask is None else int(np.count_nonzero(self.mask))

    @property
    def nominated_row(self) -> int | None:
        """The row the pod itself is nominated to."""
        return self.view.nodes.row_of.get(self.view.world.nominations.node_of(self.pod.uid))

    def restricted_to(self, rows: Rows) -> Feasible:
        """The same with fewer rows, as an extender would have it."""
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
    """Which plugin keeps a pod out of the queue and why, or None; the first one speaks."""
    view = View(world, pod, now)
    for plugin in profile.plugins_at(PreEnqueuePlugin):
        refusal: Reject | None = plugin.pre_enqueue(pod, view)
        if refusal is not None:
            return plugin.name, refusal
    return None


def decide(
    profile: Profile, pod: PodInfo, world: World, now: float, rng: np.random.Generator
) -> Placement | Rejection:
    """Both halves at once."""
    found = feasible(profile, pod, world, now)
    return found if isinstance(found, Rejection) else rank(profile, found, rng)


def feasible(profile: Profile, pod: PodInfo, world: World, now: float) -> Feasible | Rejection:
    """Find the rows that can take the pod, or say why there is none.

    The record of the pod's class has what plugins prepared for it and the rows that pass every
    kept filter. Plugins that are asked for every pod prepare besides, and may refuse it. Then rows
    are struck out: by filters whose answers are not kept, and where nominated pods need the room.
    The node the pod itself is nominated to is taken unscored if it is left.
    """
    cache = decision_cache(profile, world)
    view = View(world, pod, now, offers=cache.allocates_reservations)
    if pod.excess or not world.nodes.row_of:
        return _rejected_unseen(view)
    pod_class = cache.pod_class(pod, view)
    found = Feasible(pod, view, pod_class, pod_class.outcomes)
    if pod_class.per_pod or not pod_class.pre_filter_passed:
        found.outcomes = cache.pre_filter_per_pod(pod_class, pod, view)
        if found.outcomes is not pod_class.outcomes or not pod_class.pre_filter_passed:
            refusal = _refusal(found.outcomes)
            if refusal is not None:
                return pre_filter_rejection(view, found.outcomes, *refusal)
    pod_class.refresh()
    error = ""
    if pod_class.uncached_filters or found.outcomes is not pod_class.outcomes:
        error = _strike_out(found)
    if world.nominations:
        _leave_room(found)
    if pod.pod.status.nominated_node_name or world.nominations:
        _prefer_nominated(found)
    if error and found.preselected_row is None:
        return reject_all_nodes(view, found.outcomes, error=error)
    if found.count:
        return found
    same = found.outcomes is pod_class.outcomes
    kept, nominated_filter = (
        (pod_class.first_rejections(), pod_class.nominated_filter) if same else (None, None)
    )
    return reject_by_row(view, found.outcomes, found.statuses, kept, nominated_filter)


def _rejected_unseen(view: View) -> Rejection:
    """Reject a pod without asking any plugin: there is no node, or a list of it is too long."""
    if not view.pod.excess:
        return reject_all_nodes(view, ())
    too_many = Reject(Code.UNRESOLVABLE, (view.pod.excess,))
    return reject_all_nodes(view, (), pre_filter_reject=(LIST_LIMITS, too_many))


def _refusal(outcomes: list[PreFilterOutcome]) -> tuple[str, Reject] | None:
    """What preparing came to: the first unresolvable word, else the last of the others."""
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
        words = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
        return ", ".join(names), Reject(Code.UNRESOLVABLE, (words,))
    return None


def _strike_out(found: Feasible) -> str:
    """Let plugins whose answers are not kept strike out rows; answers an error, or "".

    An error on any row fails the attempt, unless the pod goes where it is nominated to.
    """
    pod_class = found.pod_class
    if pod_class.accepts_slices and found.outcomes is pod_class.outcomes:
        size = found.view.nodes.size
        # Cheaper over all rows than picking some; such a plugin never fails.
        everywhere = slice(0, size)
        found.remaining = pod_class.remaining_after(
            [p.plugin.filter(p.state, everywhere) for p in pod_class.uncached_filters]
        )
        found.mask = found.remaining.mask
        return ""
    return _ask_in_turn(found)


def _ask_in_turn(found: Feasible) -> str:
    size, error = found.view.nodes.size, ""
    left = np.ones(size, np.bool_)
    for outcome in found.outcomes:
        if outcome.row_results is not None or outcome.skip:
            continue
        if outcome.allowed_rows is not None:
            allowed = np.zeros(size, np.bool_)
            allowed[outcome.allowed_rows] = True
            left &= allowed
        if not outcome.filters:
            continue
        if outcome.use.accepts_slices:
            left &= outcome.plugin.filter(outcome.state, slice(0, size)) == 0
            continue
        rows = (left & _passing_until(found, outcome)).nonzero()[0]
        verdicts = outcome.plugin.filter(outcome.state, rows)
        failed = (verdicts == Code.ERROR).nonzero()[0]
        if len(failed) and not error:
            words = ", ".join(outcome.plugin.reasons(outcome.state, int(rows[failed[0]])))
            error = f'running "{outcome.plugin.name}" filter plugin: {words}'
        left[rows] = verdicts == 0
    found.mask = found.pod_class.feasible_mask[:size] & left
    return error


def _passing_until(found: Feasible, outcome: PreFilterOutcome) -> NDArray[np.bool_]:
    """Rows that pass all kept filters before this one: it may fail there, whoever rejects later."""
    size = found.view.nodes.size
    mask = found.pod_class.feasible_mask[:size]
    turn = outcome.use.filter_order
    kept = [p for p in found.outcomes if p.filters and p.row_results is not None]
    if all(other.use.filter_order < turn for other in kept):
        return mask
    mask = found.view.nodes.alive[:size].copy()
    for other in kept:
        verdicts = other.row_results.verdicts if other.row_results is not None else None
        if verdicts is not None and other.use.filter_order < turn:
            mask &= verdicts[:size] == 0
    return mask


def _leave_room(found: Feasible) -> None:
    """Strike out rows that would not take this pod beside the pods nominated to them."""
    pod_class = found.pod_class
    if pod_class.uncached_filters or found.outcomes is not pod_class.outcomes:
        found.statuses = _beside_nominated(found)
    else:
        if pod_class.nominated_filter is None:
            pod_class.nominated_filter = _nominated_filter(found, found.outcomes)
        found.statuses = pod_class.nominated_filter.refresh()
        own = found.nominated_row
        if own is not None:
            found.statuses = found.statuses.resized(found.view.nodes.size)
            found.statuses.put(own, pod_class.nominated_filter.status(own, but=found.pod.uid))
    if found.statuses:
        size = found.view.nodes.size
        mask = pod_class.feasible_mask[:size] if found.mask is None else found.mask
        found.mask = mask & (found.statuses.numbers[:size] == 0)


def _beside_nominated(found: Feasible) -> RowStatuses:
    """What is said of rows that would do but for the pods nominated to them."""
    pod_class, nodes, nominations = found.pod_class, found.view.nodes, found.view.world.nominations
    mask = pod_class.feasible_mask[: nodes.size] if found.mask is None else found.mask
    words, filters = RowStatuses(nodes.size), active_filters(found.outcomes)
    if found.outcomes is pod_class.outcomes:
        # Those who have their turn before any that looks beyond the row are remembered.
        if pod_class.leading_nominated_filter is None:
            ahead = takewhile(lambda p: p.row_results is not None, in_filter_order(found.outcomes))
            pod_class.leading_nominated_filter = _nominated_filter(found, [*ahead])
        words = pod_class.leading_nominated_filter.refresh().resized(nodes.size)
        words.put_all((~mask & (words.numbers != 0)).nonzero()[0], None)
        if found.nominated_row is not None:
            words.put(found.nominated_row, None)
    rows = nominations.columns.rows(found.pod.priority)
    for row in rows[mask[rows] & (words.numbers[rows] == 0)].tolist():
        if others := nominations.ahead_of(found.pod, row):
            words.put(row, run_filter_plugins_with_nominated_pods(filters, row, others))
    return words


def _nominated_filter(found: Feasible, outcomes: Iterable[PreFilterOutcome]) -> NominatedPodFilter:
    return NominatedPodFilter(
        found.view.world,
        found.pod.priority,
        active_filters(outcomes),
        found.pod_class.feasible_mask,
    )


def _prefer_nominated(found: Feasible) -> None:
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
    points: NDArray[np.float64] | None = None,
) -> Placement:
    """Choose the best of the feasible rows; among equals each is as likely.

    ``points`` (one a row) are added to what the plugins give.
    """
    row = found.preselected_row
    if row is None:
        row = _best_row(profile, found, rng, points)
    states = found.pod_class.states
    if found.outcomes is not found.pod_class.outcomes:
        states = {p.plugin.name: p.state for p in found.outcomes if not p.skip}
    return Placement(found.pod, row, found.view.nodes.names[row], states)


def _best_row(
    profile: Profile,
    found: Feasible,
    rng: np.random.Generator,
    points: NDArray[np.float64] | None,
) -> int:
    """Choose a row; among equals each is as likely. ``points`` (one a row) are added."""
    pod_class = found.pod_class
    known = pod_class.totals_complete and found.outcomes is pod_class.outcomes and points is None
    if known and found.mask is None:
        ties: Sequence[int] | Rows = pod_class.best_rows()
    elif known and pod_class.uniform:
        ties = _best_left(found)
    else:
        if not pod_class.has_totals and len(only := found.rows) == 1:
            return int(only[0])  # unscored: what is wrong with the scores is no matter
        rows, sums = scored_rows(profile, found)
        if points is not None:
            sums = sums + points[rows]
        ties = best_of(sums)
        if not isinstance(rows, slice):
            ties = rows[ties]
    count = len(ties)
    return int(ties[0 if count == 1 else int(rng.random() * count)])


def _best_left(found: Feasible) -> Sequence[int] | Rows:
    """The best rows of those the mask leaves, if totals hold for any part of the rows."""
    mask, pod_class = found.mask, found.pod_class
    assert mask is not None
    ties = pod_class.best_rows()
    if len(ties) <= _FEW:
        left = sorted([row for row in ties if mask[row]])
        if left:
            return left
    return best_of(np.where(mask, pod_class.totals[: len(mask)], INFEASIBLE))


def scored_rows(profile: Profile, found: Feasible) -> tuple[AnyRows, NDArray[np.float64]]:
    """The rows of the best tier and their totals; kept sums are used where they hold."""
    pod_class = found.pod_class
    same = pod_class.has_totals and found.outcomes is pod_class.outcomes
    if not (same and (found.mask is None or pod_class.uniform)):
        rows = best_tier(found.outcomes, found.rows)
        return rows, total(score_rows(profile, found.outcomes, rows), len(rows))
    size = found.view.nodes.size
    asked: AnyRows = slice(0, size) if found.count == size else found.rows
    sums = pod_class.totals[asked] if isinstance(asked, slice) else pod_class.totals.take(asked)
    if pod_class.dominant_score is not None:
        sums = sums + pod_class.dominant_score.scores_of(asked)
    for outcome in pod_class.uncached_scores:
        sums = sums + weighted_scores(profile, outcome, asked)
    return asked, sums
