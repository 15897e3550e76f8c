"""The options of a pod on a row: a matched reservation there, or none.

A plugin that allocates resources with an identity (CPUs, devices) can exclude reservations before
one is nominated. Only the plugin that allocates reservations handles amounts, policies and order:
it calls ``ReservationOptions`` and decides about the row. An option passes if all plugins allow it.
Slots are those of ``view.matched_reservations``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from holdfast.scheduling.framework.plan import NodeFilter
from holdfast.scheduling.framework.values import NO_CHANGE, PodChange, Rows, Verdicts
from holdfast.state.columns.pod_info import PodInfo


class ReservationFilter(NodeFilter):
    """Exclude reservations on a row; not for plugins of scope CLUSTER.

    ``filter`` returns the best of the row's options, that is the lowest code; ``reasons`` is also
    called for a row where only the option without a reservation is excluded. For a pod that ignores
    reservations, ``filter`` alone decides.
    """

    __slots__ = ()

    def filter_reservations(self, slots: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return 0, 1 or 2 for each reservation: whether the pod can be allocated from it."""
        raise NotImplementedError

    def filter_without_reservation(self, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return 0, 1 or 2 for each row: whether the pod fits there if it uses no reservation."""
        raise NotImplementedError

    def reservation_reasons(self, slot: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the messages for an excluded reservation."""
        raise NotImplementedError

    def filter_pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> int:
        """Return 0, 1 or 2: whether a reservation can take over all that these pods on a row have.

        For its reserve pod, ``filter`` returns whether the row could serve it without any pod
        there; ``filter_without_reservation`` returns whether it can do without taking over
        anything. The default accepts it.
        """
        return 0


class ReservationAllocator(NodeFilter):
    """The plan that decides which reservation a pod uses."""

    __slots__ = ()

    def with_options(self, options: ReservationOptions) -> Self:
        """Return a plan that considers what other plugins say about the matched reservations.

        Its results depend on the row alone exactly if those of this plan do.
        """
        raise NotImplementedError


class ReservationOptions:
    """The plugins' verdicts about the matched reservations of a pod, computed on demand.

    They change as those of a plugin's ``filter`` do: with the row of the reservation, and with the
    epochs in the plugin's traits, for which the engine makes new options. ``identified`` returns
    the resources of a row that do not add up over several reservations, because the pod gets
    specific units of them (``World.identified_resources``).
    """

    __slots__ = ("_filters", "identified")

    def __init__(
        self,
        filters: Sequence[ReservationFilter],
        identified: Callable[[int], frozenset[int]] = lambda _row: frozenset(),
    ) -> None:
        self._filters = tuple(filters)
        self.identified = identified

    def verdicts(self, slots: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return for each reservation the highest code of all plugins; 0: all allow it."""
        verdicts = np.zeros(len(slots), np.int8)
        for plan in self._filters:
            np.maximum(verdicts, plan.filter_reservations(slots, change), out=verdicts)
        return verdicts

    def verdicts_without(self, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return for each row the highest code of all plugins, if no reservation is used."""
        verdicts = np.zeros(len(rows), np.int8)
        for plan in self._filters:
            np.maximum(verdicts, plan.filter_without_reservation(rows, change), out=verdicts)
        return verdicts

    def allow_pre_allocation(
        self, row: int, pods: Sequence[PodInfo], change: PodChange = NO_CHANGE
    ) -> bool:
        """Return whether a reservation may take over what pods on a row have; () for none."""
        if not pods:
            return not self.verdicts_without(np.array([row], np.intp), change)[0]
        return not any(plan.filter_pre_allocation(row, pods, change) for plan in self._filters)

    def reasons(self, slots: Rows, change: PodChange = NO_CHANGE) -> list[tuple[str, ...]]:
        """Return for each reservation the messages of the plugins that exclude it."""
        reasons: list[tuple[str, ...]] = [()] * len(slots)
        for plan in self._filters:
            excluded = plan.filter_reservations(slots, change).nonzero()[0]
            for at, slot in zip(excluded.tolist(), slots[excluded].tolist(), strict=True):
                reasons[at] += plan.reservation_reasons(slot, change)
        return reasons

    def reasons_without(self, rows: Rows, change: PodChange = NO_CHANGE) -> list[tuple[str, ...]]:
        """Return for each row the messages of the plugins that exclude it without reservation."""
        reasons: list[tuple[str, ...]] = [()] * len(rows)
        for plan in self._filters:
            excluded = plan.filter_without_reservation(rows, change).nonzero()[0]
            for at, row in zip(excluded.tolist(), rows[excluded].tolist(), strict=True):
                reasons[at] += tuple(plan.reasons(row, change))
        return reasons
