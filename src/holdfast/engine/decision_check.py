"""Decide again with nothing kept, and compare: what ``--check-invariants`` asks of a decision.

Everything that is kept between pods (answers, sums, best rows, objections) only makes the next
decision cheaper. So a decision made without it must come out the same, and each part of it must be
what its invariant says (``PodClass.faults``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.engine.cached_scores import best_of
from holdfast.engine.decision import Feasible, feasible, scored_rows
from holdfast.engine.decision_cache import decision_cache
from holdfast.engine.plugin_results import differences
from holdfast.engine.profile import Profile
from holdfast.engine.scoring import InvalidScore, best_tier, score_rows, total
from holdfast.framework.extender import EXTENDER
from holdfast.framework.plugin import Placement, Rows
from holdfast.framework.rejection import Rejection


def placement_faults(
    profile: Profile, found: Feasible, placement: Placement, *, extended: bool = False
) -> Iterator[str]:
    """Name what is wrong with a pod's placement, or with what is kept of any class.

    ``extended``: extenders were asked, so rows may be missing and other scores count.
    """
    yield from decision_cache(profile, found.view.world).faults()
    fresh = _decided_anew(profile, found)
    if isinstance(fresh, Rejection):
        yield f"{found.pod.key} fits nowhere if nothing is kept: {fresh.message()}"
    elif not np.isin(found.rows, fresh.rows).all():
        yield f"{found.pod.key} fits fewer rows if nothing is kept"
    elif extended:
        return
    elif len(found.rows) != len(fresh.rows) or found.preselected_row != fresh.preselected_row:
        yield f"{found.pod.key} fits other rows if nothing is kept"
    elif found.preselected_row is None and len(fresh.rows) > 1:
        yield from _score_faults(profile, found, fresh, placement)


def rejection_faults(profile: Profile, rejection: Rejection) -> Iterator[str]:
    """Name what is wrong with a rejection; extenders' own are not made from anything kept."""
    if EXTENDER in rejection.unschedulable_plugins:
        return
    yield from decision_cache(profile, rejection.view.world).faults()
    fresh = _decided_anew(profile, rejection)
    if not isinstance(fresh, Rejection):
        yield f"{rejection.pod.key} fits somewhere if nothing is kept"
    elif fresh.error or rejection.error:
        if fresh.error != rejection.error:
            yield f"{rejection.pod.key} fails as {fresh.error!r} if nothing is kept"
    else:
        yield from differences("codes of a rejection", rejection.codes, fresh.codes)
        if (
            rejection.unschedulable_plugins != fresh.unschedulable_plugins
            or rejection.histogram() != fresh.histogram()
        ):
            yield f"{rejection.message()!r} is {fresh.message()!r} if nothing is kept"


def _decided_anew(profile: Profile, decided: Feasible | Rejection) -> Feasible | Rejection:
    """Ask again what is feasible, with an empty memory."""
    view = decided.view
    kept = view.world.caches.pop(profile)
    try:
        return feasible(profile, decided.pod, view.world, view.now)
    finally:
        view.world.caches[profile] = kept


def _score_faults(
    profile: Profile, found: Feasible, fresh: Feasible, placement: Placement
) -> Iterator[str]:
    """Compare kept sums, and the row that was chosen by them, with sums worked out in full."""
    try:
        rows = best_tier(fresh.outcomes, fresh.rows)
        sums = total(score_rows(profile, fresh.outcomes, rows), len(rows))
    except InvalidScore as wrong:
        yield f"{found.pod.key} cannot be scored if nothing is kept: {wrong}"
        return
    at, kept = scored_rows(profile, found)
    asked: Rows = np.arange(found.view.nodes.size)[at]
    if not np.array_equal(asked, rows):
        yield f"{found.pod.key} has other rows ranked if nothing is kept"
        return
    yield from differences(f"{found.pod.key}: kept sums", kept, sums)
    if placement.row not in rows[best_of(sums)]:
        yield f"{found.pod.key} goes to {placement.node}, which is not the best node"
