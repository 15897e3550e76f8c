"""Rules for plugins that exclude reservations, alone and together with the Reservation plugin."""

from __future__ import annotations

import numpy as np

from holdfast.scheduling.engine.decision_cache import DecisionCache
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plan import Reserver
from holdfast.scheduling.framework.plugin import NO_CHANGE, Placement, PodChange
from holdfast.scheduling.framework.reservation_options import ReservationFilter
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.reservation import ReservationPlugin
from holdfast.state.reservations.matching import ReservationMatch
from holdfast.testing.plugin_laws import Case
from holdfast.testing.random_cluster import RandomCluster

_TOGETHER = "reservation options"


def check_reservation_options(case: Case, cluster: RandomCluster) -> None:
    """Check that verdicts of reservations obey the laws of rows; ``filter`` is their best."""
    plan, random, name = case.outcome.plan, cluster.random, case.plugin.name
    match = case.world.match(case.pod)
    if not (isinstance(plan, ReservationFilter) and case.outcome.filters):
        return
    if not isinstance(match, ReservationMatch) or match.ignores_reservations:
        return
    slots = match.slots
    order = random.sample(range(len(slots)), random.randint(1, len(slots)))
    verdicts = plan.filter_reservations(slots.copy())
    assert set(verdicts.tolist()) <= {0, 1, 2}, f"{name}: verdicts of reservations are codes"
    some = plan.filter_reservations(slots[order])
    assert (some == verdicts[order]).all(), f"{name}: reservations in any order, or some"
    for slot in slots[verdicts != 0].tolist():
        assert plan.reservation_reasons(slot), f"{name}: an exclusion has reasons"
    row = int(random.choice(match.rows.tolist()))
    leaving = [*case.world.nodes.pods_on(row).values()][:2]
    for change in (NO_CHANGE, PodChange(removed={row: leaving})):
        _check_best(case, plan, match, change)
    again = plan.filter_reservations(slots)
    assert (again == verdicts).all(), f"{name}: change then undo is identity"
    _check_together(case, match, cluster)


def _check_best(
    case: Case, plan: ReservationFilter, match: ReservationMatch, change: PodChange
) -> None:
    """Check that ``filter`` returns the lowest code of a row's options."""
    rows = case.rows
    best = plan.filter_without_reservation(rows, change).copy()
    verdicts = plan.filter_reservations(match.slots, change)
    positions = np.searchsorted(rows, match.rows[match.at])
    np.minimum.at(best, positions, verdicts)
    assert (plan.filter(rows, change) == best).all(), (
        f"{case.plugin.name}: filter returns the best option of a row"
    )


def _check_together(case: Case, match: ReservationMatch, cluster: RandomCluster) -> None:
    """Check that the Reservation plugin never allocates an excluded reservation."""
    world, plugin = case.world.fork(), case.plugin
    profile = Profile("together", (ReservationPlugin(), plugin))
    pod_class = DecisionCache(profile).pod_class(case.pod, View(world, case.pod, 0.0))
    known = case.world.caches.setdefault((_TOGETHER, plugin.name), DecisionCache(profile))
    cached = known.pod_class(case.pod, View(case.world, case.pod, 0.0))
    law = f"{plugin.name}: results with cached options equal new ones"
    assert (cached.rejected is None) == (pod_class.rejected is None), law
    if pod_class.rejected is not None:
        return
    allocating, own = [outcome.plan for outcome in pod_class.outcomes]
    again = cached.outcomes[0].plan
    assert isinstance(allocating, Reserver)
    assert isinstance(own, ReservationFilter)
    verdicts = allocating.filter(match.rows)
    assert (again.filter(match.rows) == verdicts).all(), law
    assert (again.score(match.rows) == allocating.score(match.rows)).all(), law
    rows = match.rows[verdicts == 0].tolist()
    if not rows:
        return
    row = cluster.random.choice(rows)
    placement = Placement(case.pod, row, world.nodes.names[row], {})
    world.assume(case.pod, row)
    if allocating.reserve(placement) is not None:
        return
    without = PodChange(removed={row: (case.pod,)})
    if placement.reservation:
        slot = np.array([world.reservations.by_uid[placement.reservation].slot], np.intp)
        verdict = own.filter_reservations(slot, without)
    else:
        verdict = own.filter_without_reservation(np.array([row], np.intp), without)
    assert verdict[0] == 0, f"{plugin.name}: an excluded option is never used"
