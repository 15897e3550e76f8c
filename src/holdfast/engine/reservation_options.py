"""Combine what plugins say about matched reservations with the plugin that allocates them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from holdfast.engine.plugin_results import PreFilterOutcome
from holdfast.engine.profile import Profile
from holdfast.framework.reservation_options import (
    AllocateReservationsPlugin,
    FilterReservationsPlugin,
    ReservationOptions,
    ScoreReservationsPlugin,
)
from holdfast.framework.view import View


def has_options(outcome: PreFilterOutcome) -> bool:
    """Return whether a plugin filters or scores the reservations of the pod."""
    use = outcome.use
    if not (use.filters_reservations or use.scores_reservations):
        return False
    return not outcome.skip and outcome.reject is None


def combine_options(
    profile: Profile, allocating: PreFilterOutcome, others: Sequence[PreFilterOutcome], view: View
) -> PreFilterOutcome:
    """Return the outcome of the allocating plugin that considers the others.

    It is shared by pods with the same outcomes, so they get the same resources with an identity.
    """
    options = ReservationOptions(
        [
            (cast("FilterReservationsPlugin", p.plugin), p.state)
            for p in others
            if p.use.filters_reservations and p.filters
        ],
        [
            (cast("ScoreReservationsPlugin", p.plugin), p.state, profile.weight(p.plugin.name))
            for p in others
            if p.use.scores_reservations
        ],
        partial(view.world.identified_resources, view.pod),
    )
    plugin = cast("AllocateReservationsPlugin", allocating.plugin)
    return allocating.considering(plugin.with_options(allocating.state, options), others)
