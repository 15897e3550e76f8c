"""The options of a pod on a row: a matched reservation there, or none.

A plugin that gives out what has an identity (CPUs, devices) can exclude and rank reservations
before one is nominated. The plugin that allocates reservations is the only one that knows amounts,
policies and order: it asks ``ReservationOptions``, and decides about the row. An option passes if
all plugins allow it. Slots are those of ``view.matched_reservations``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import FilterPlugin
from holdfast.framework.traits import Plugin, implements
from holdfast.framework.values import NO_CHANGE, PodChange, RawScores, Rows, State, Verdicts


class FilterReservationsPlugin(FilterPlugin, Protocol):
    """Exclude reservations on a row; not for plugins of scope CLUSTER.

    ``filter`` returns the best of the row's options, that is the lowest code; ``reasons`` is also
    called for a row of which only the option without a reservation is excluded. For a pod that
    ignores reservations ``filter`` decides alone.
    """

    def filter_reservations(
        self, state: State, slots: Rows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Return 0, 1 or 2 for each reservation: whether the pod can be allocated from it."""
        ...

    def filter_without_reservation(
        self, state: State, rows: Rows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Return 0, 1 or 2 for each row: whether the pod fits there if it uses no reservation."""
        ...

    def reservation_reasons(
        self, state: State, slot: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return the messages for an excluded reservation."""
        ...


class FilterPreAllocationPlugin(FilterReservationsPlugin, Protocol):
    """Decide about a reservation that takes over what running pods have.

    ``filter`` returns for its reserve pod whether the row could serve it without any pod there;
    ``filter_without_reservation`` whether it can take over nothing.
    """

    def filter_pre_allocation(
        self, state: State, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> int:
        """Return 0, 1 or 2: whether the reservation can have all that these pods on a row have."""
        ...


class ScoreReservationsPlugin(Plugin, Protocol):
    """Prefer some reservations of a row to others when one is nominated."""

    def score_reservations(self, state: State, slots: Rows) -> RawScores:
        """Return the score of each reservation, whole numbers in 0..100; weighted like others."""
        ...


class AllocateReservationsPlugin(Plugin, Protocol):
    """The plugin that decides which reservation a pod uses."""

    def with_options(self, state: State, options: ReservationOptions) -> State:
        """Return a state that considers what other plugins say about the matched reservations.

        The results for it depend on the row alone exactly if those for ``state`` do.
        """
        ...


class ReservationOptions:
    """What plugins say about the matched reservations of a pod; they are called when asked.

    The answers of a plugin change as those of its ``filter`` do: with the row of the reservation,
    and with the epochs in its traits, for which the engine makes new options. ``identified``
    returns the resources of a row in which several reservations do not add up, because the pod
    gets certain ones of them (``World.identified_resources``).
    """

    __slots__ = ("_filters", "_scorers", "identified")

    def __init__(
        self,
        filters: Sequence[tuple[FilterReservationsPlugin, State]],
        scorers: Sequence[tuple[ScoreReservationsPlugin, State, int]] = (),
        identified: Callable[[int], frozenset[int]] = lambda _row: frozenset(),
    ) -> None:
        self._filters = tuple(filters)
        self._scorers = tuple(scorers)
        self.identified = identified

    @property
    def scored(self) -> bool:
        """Whether plugins score the reservations."""
        return bool(self._scorers)

    def verdicts(self, slots: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return for each reservation the highest code of all plugins; 0: all allow it."""
        found = np.zeros(len(slots), np.int8)
        for plugin, state in self._filters:
            np.maximum(found, plugin.filter_reservations(state, slots, change), out=found)
        return found

    def verdicts_without(self, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return for each row the highest code of all plugins, if no reservation is used."""
        found = np.zeros(len(rows), np.int8)
        for plugin, state in self._filters:
            np.maximum(found, plugin.filter_without_reservation(state, rows, change), out=found)
        return found

    def allow_pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> bool:
        """Return whether a reservation may take over what pods on a row have; () for none."""
        if not pods:
            return not self.verdicts_without(np.array([row], np.intp), change)[0]
        return not any(
            implements(plugin, FilterPreAllocationPlugin)
            and plugin.filter_pre_allocation(state, row, pods, change)
            for plugin, state in self._filters
        )

    def scores(self, slots: Rows) -> RawScores:
        """Return the weighted sum of the plugins' scores for each reservation."""
        found = np.zeros(len(slots))
        for plugin, state, weight in self._scorers:
            found += weight * plugin.score_reservations(state, slots)
        return found

    def reasons(self, slots: Rows, change: PodChange = NO_CHANGE) -> list[tuple[str, ...]]:
        """Return for each reservation the messages of the plugins that exclude it."""
        found: list[tuple[str, ...]] = [()] * len(slots)
        for plugin, state in self._filters:
            excluded = plugin.filter_reservations(state, slots, change).nonzero()[0]
            for at, slot in zip(excluded.tolist(), slots[excluded].tolist(), strict=True):
                found[at] += plugin.reservation_reasons(state, slot, change)
        return found

    def reasons_without(self, rows: Rows, change: PodChange = NO_CHANGE) -> list[tuple[str, ...]]:
        """Return for each row the messages of the plugins that exclude it without reservation."""
        found: list[tuple[str, ...]] = [()] * len(rows)
        for plugin, state in self._filters:
            excluded = plugin.filter_without_reservation(state, rows, change).nonzero()[0]
            for at, row in zip(excluded.tolist(), rows[excluded].tolist(), strict=True):
                found[at] += tuple(plugin.reasons(state, row, change))
        return found
