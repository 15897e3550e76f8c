"""Rules for plugins that exclude or rank reservations, alone and beside the Reservation plugin."""

from __future__ import annotations

import numpy as np

from holdfast.capacity.matching import ReservationMatch
from holdfast.engine.decision_cache import DecisionCache
from holdfast.engine.profile import Profile
from holdfast.framework.plugin import NO_CHANGE, Placement, PodChange, implements
from holdfast.framework.reservation_options import (
    FilterReservationsPlugin,
    ScoreReservationsPlugin,
)
from holdfast.framework.view import View
from holdfast.plugins.reservation import ReservationPlugin
from holdfast.testing.plugin_laws import Case
from holdfast.testing.random_cluster import RandomCluster

_TOGETHER = "reservation options"


def check_reservation_options(case: Case, cluster: RandomCluster) -> None:
    """Verdicts and scores of reservations obey the laws of rows; ``filter`` is their best."""
    plugin, random, name = case.plugin, cluster.random, case.plugin.name
    points = (FilterReservationsPlugin, ScoreReservationsPlugin)
    if not any(implements(plugin, point) for point in points):
        return
    match = case.world.match(case.pod)
    if not isinstance(match, ReservationMatch) or match.ignores_reservations:
        return
    slots, state = match.slots, case.outcome.state
    order = random.sample(range(len(slots)), random.randint(1, len(slots)))
    if implements(plugin, FilterReservationsPlugin) and case.outcome.filters:
        verdicts = plugin.filter_reservations(state, slots.copy())
        assert set(verdicts.tolist()) <= {0, 1, 2}, f"{name}: verdicts of reservations are codes"
        some = plugin.filter_reservations(state, slots[order])
        assert (some == verdicts[order]).all(), f"{name}: reservations in any order, or some"
        for slot in slots[verdicts != 0].tolist():
            assert plugin.reservation_reasons(state, slot), f"{name}: an exclusion has reasons"
        row = int(random.choice(match.rows.tolist()))
        leaving = [*case.world.nodes.pods_on(row).values()][:2]
        for change in (NO_CHANGE, PodChange(removed={row: leaving})):
            _check_best(case, plugin, match, change)
        again = plugin.filter_reservations(state, slots)
        assert (again == verdicts).all(), f"{name}: change then undo is identity"
        _check_together(case, plugin, match, cluster)
    if implements(plugin, ScoreReservationsPlugin):
        scores = plugin.score_reservations(state, slots.copy())
        law = f"{name}: scores of reservations are whole numbers in 0..100"
        assert ((scores >= 0) & (scores <= 100) & (scores == np.floor(scores))).all(), law
        assert (plugin.score_reservations(state, slots[order]) == scores[order]).all(), (
            f"{name}: scores of reservations in any order, or some"
        )


def _check_best(
    case: Case, plugin: FilterReservationsPlugin, match: ReservationMatch, change: PodChange
) -> None:
    """``filter`` returns the lowest code of a row's options."""
    state, rows = case.outcome.state, case.rows
    best = plugin.filter_without_reservation(state, rows, change).copy()
    verdicts = plugin.filter_reservations(state, match.slots, change)
    positions = np.searchsorted(rows, match.rows[match.at])
    np.minimum.at(best, positions, verdicts)
    assert (plugin.filter(state, rows, change) == best).all(), (
        f"{plugin.name}: filter returns the best option of a row"
    )


def _check_together(
    case: Case, plugin: FilterReservationsPlugin, match: ReservationMatch, cluster: RandomCluster
) -> None:
    """Beside the Reservation plugin, an excluded reservation is never allocated."""
    world, reservation = case.world.fork(), ReservationPlugin()
    profile = Profile("together", (reservation, plugin))
    pod_class = DecisionCache(profile).pod_class(case.pod, View(world, case.pod, 0.0))
    known = case.world.caches.setdefault((_TOGETHER, plugin.name), DecisionCache(profile))
    cached = known.pod_class(case.pod, View(case.world, case.pod, 0.0))
    law = f"{plugin.name}: results with cached options equal new ones"
    assert (cached.rejected is None) == (pod_class.rejected is None), law
    if pod_class.rejected is not None:
        return
    allocating, own = pod_class.outcomes
    verdicts = reservation.filter(allocating.state, match.rows)
    assert (reservation.filter(cached.outcomes[0].state, match.rows) == verdicts).all(), law
    scores = reservation.score(allocating.state, match.rows)
    assert (reservation.score(cached.outcomes[0].state, match.rows) == scores).all(), law
    rows = match.rows[verdicts == 0].tolist()
    if not rows:
        return
    row = cluster.random.choice(rows)
    placement = Placement(case.pod, row, world.nodes.names[row], {})
    world.assume(case.pod, row)
    if reservation.reserve(allocating.state, placement) is not None:
        return
    without = PodChange(removed={row: (case.pod,)})
    if placement.reservation:
        slot = np.array([world.reservations.by_uid[placement.reservation].slot], np.intp)
        verdict = plugin.filter_reservations(own.state, slot, without)
    else:
        verdict = plugin.filter_without_reservation(own.state, np.array([row], np.intp), without)
    assert verdict[0] == 0, f"{plugin.name}: an excluded option is never used"
