"""Repeat a decision without caches and compare the two, under ``--check-invariants``.

Caches (row results, totals, best rows, first rejections) must not change a decision. So a decision
without them must be equal, and each cached part must satisfy its invariant (``PodClass.faults``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.scheduling.engine.cached_scores import best_of
from holdfast.scheduling.engine.decision import all_tiers, feasible, scored_rows
from holdfast.scheduling.engine.decision_cache import decision_cache
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.engine.plugin_results import differences
from holdfast.scheduling.engine.post_filter import BetterTierPreemption, preempt_in_better_tiers
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.scoring import InvalidScore, best_tier, score_rows, total
from holdfast.scheduling.framework.extender import EXTENDER
from holdfast.scheduling.framework.plugin import Placement, Rows
from holdfast.scheduling.framework.rejection import Rejection


def placement_faults(
    profile: Profile, found: Feasible, placement: Placement, *, extended: bool = False
) -> Iterator[str]:
    """Describe what is wrong with the placement of a pod, or with the cache of any class.

    ``extended``: extenders were called, so rows may be missing, and their scores count too.
    """
    yield from decision_cache(profile, found.view.world).faults()
    fresh = _decide_again(profile, found)
    if isinstance(fresh, Rejection):
        yield f"{found.pod.key} fits on no node without caches: {fresh.message()}"
        return
    fresh, rows = all_tiers(fresh), all_tiers(found).rows
    if not np.isin(rows, fresh.rows).all():
        yield f"{found.pod.key} fits on fewer rows without caches"
    elif extended:
        return
    elif len(rows) != len(fresh.rows) or found.preselected_row != fresh.preselected_row:
        yield f"{found.pod.key} fits on other rows without caches"
    elif found.preselected_row is None and len(fresh.rows) > 1:
        yield from _score_faults(profile, found, fresh, placement)


def rejection_faults(profile: Profile, rejection: Rejection) -> Iterator[str]:
    """Describe what is wrong with a rejection. Rejections by extenders use no caches."""
    if EXTENDER in rejection.unschedulable_plugins:
        return
    yield from decision_cache(profile, rejection.view.world).faults()
    fresh = _decide_again(profile, rejection)
    if not isinstance(fresh, Rejection):
        yield f"{rejection.pod.key} fits on a node without caches"
    elif fresh.error or rejection.error:
        if fresh.error != rejection.error:
            yield f"{rejection.pod.key} fails as {fresh.error!r} without caches"
    else:
        yield from differences("codes of a rejection", rejection.codes, fresh.codes)
        if (
            rejection.unschedulable_plugins != fresh.unschedulable_plugins
            or rejection.histogram() != fresh.histogram()
        ):
            yield f"{rejection.message()!r} is {fresh.message()!r} without caches"


def better_tier_faults(
    profile: Profile, found: Feasible, preemption: BetterTierPreemption
) -> Iterator[str]:
    """Describe what is wrong with preemption in a better tier, instead of a placement."""
    fresh = _decide_again(profile, found)
    again = (
        None
        if isinstance(fresh, Rejection)
        else preempt_in_better_tiers(profile, fresh, found.view.now)
    )
    if again is None:
        yield f"{found.pod.key} does not preempt in a better tier without caches"
    elif (again.message(), again.result.victims) != (
        preemption.message(),
        preemption.result.victims,
    ):
        yield f"{preemption.message()!r} is {again.message()!r} without caches"


def _decide_again(profile: Profile, decided: Feasible | Rejection) -> Feasible | Rejection:
    """Compute the feasible rows again, with an empty cache."""
    view = decided.view
    cached = view.world.caches.pop(profile)
    try:
        return feasible(profile, profile.view(decided.pod, view.world, view.now))
    finally:
        view.world.caches[profile] = cached


def _score_faults(
    profile: Profile, found: Feasible, fresh: Feasible, placement: Placement
) -> Iterator[str]:
    """Compare the cached totals, and the row chosen by them, with totals computed in full."""
    try:
        rows = best_tier(fresh.outcomes, fresh.rows)
        sums = total(score_rows(profile, fresh.outcomes, rows), len(rows))
    except InvalidScore as wrong:
        yield f"{found.pod.key} cannot be scored without caches: {wrong}"
        return
    rows_used, cached = scored_rows(profile, found)
    compared: Rows = np.arange(found.view.nodes.size)[rows_used]
    if not np.array_equal(compared, rows):
        yield f"{found.pod.key} compares other rows without caches"
        return
    yield from differences(f"{found.pod.key}: cached totals", cached, sums)
    if placement.row not in rows[best_of(sums)]:
        yield f"{found.pod.key} is placed on {placement.node}, which is not the best node"
