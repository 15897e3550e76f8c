"""Combine what plugins say about matched reservations with the plan that allocates them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.engine.plugin_results import PreFilterOutcome
from holdfast.framework.reservation_options import (
    ReservationAllocator,
    ReservationFilter,
    ReservationOptions,
)
from holdfast.framework.view import View


def filters_reservations(outcome: PreFilterOutcome) -> bool:
    """Return whether a plugin filters the reservations of the pod."""
    return outcome.filters and isinstance(outcome.plan, ReservationFilter)


def combine_options(
    outcome: PreFilterOutcome,
    allocator: ReservationAllocator,
    others: Sequence[PreFilterOutcome],
    view: View,
) -> PreFilterOutcome:
    """Return the outcome of the allocating plan that considers the others.

    It is shared by pods with the same outcomes, so they get the same resources with an identity.
    """
    options = ReservationOptions(
        [other.plan for other in others if isinstance(other.plan, ReservationFilter)],
        partial(view.world.identified_resources, view.pod),
    )
    return outcome.considering(allocator.with_options(options), others)
