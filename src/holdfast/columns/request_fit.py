"""Whether a request fits in what rows have free, and what is short: the one rule, in three forms.

A row is short of a resource if less than the wanted amount is free. A ``backed`` resource (one that
devices may serve) is not counted on rows that have none of it. A pod slot is a need like any other,
and the first one.

- ``fits``, ``may_fit`` and ``spare`` answer with arrays over rows;
- ``fits_at`` and ``spare_at`` answer for one row, in plain integers;
- ``shortages`` explains one row: which needs are short, of what, and whether pods leaving can help.

``short_of`` is the same rule for amounts by resource, such as those that reservations hold.

Spare is what stays free beside the request: negative where the row is short, ENOUGH where the
resource is not counted. Lists of spare amounts are in the order of ``needs``, so that a caller adds
what pods to come would take, what pods to leave would free, or what is held for the pod, and counts
below zero again.

CPU sets and devices use the same seams: a ``Need`` is a wanted amount with a column of what is free
and a column of what the row has, whatever it counts (cpus, whole cores, devices of a class, units
of a counter). Needs over such columns go behind those of the request and all three forms cover
them. Row amounts that are completed from other objects change the columns, not the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.amounts import Amounts, RequestedAmounts
from holdfast.columns.cells import Cells
from holdfast.columns.interner import PODS
from holdfast.columns.pod_info import PodInfo

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SomeRows = NDArray[np.intp] | slice
ENOUGH = 2**60
"""The spare amount of what is not counted: no sum of requests on one row reaches it."""
LAST_BIT = 62


class Need(NamedTuple):
    """A wanted amount, with the columns of what is free and of what rows have in all."""

    resource: int
    wanted: int
    free: Ints
    has: Ints
    free_at: Cells[int]
    has_at: Cells[int]
    backed: bool = False


class InsufficientResource(NamedTuple):
    """One need a row is short of; unresolvable if the row would be short without any pod."""

    resource: int
    requested: int
    used: int
    capacity: int
    unresolvable: bool


class RequestFit:
    """One request, compared with what rows have; it holds on to columns (epoch ``layout``)."""

    __slots__ = ("_backed", "_cells", "needs")

    def __init__(self, needs: Sequence[Need]) -> None:
        """Compare these needs, the first of which is the pod slot."""
        self.needs = needs
        self._cells = [(need.free_at, need.wanted) for need in needs]
        self._backed = any([need.backed for need in needs])

    @classmethod
    def of(cls, amounts: Amounts, request: RequestedAmounts, backed: frozenset[int]) -> RequestFit:
        """The fit of a pod slot and a request, each resource of which has its columns."""
        free, free_at = amounts.free, amounts.free_at
        has, has_at = amounts.allocatable, amounts.allocatable_at
        needs = [
            Need(r, wanted, free[r], has[r], free_at[r], has_at[r], r in backed)
            for r, wanted in ((PODS, 1), *request)
        ]
        return cls(needs)

    # --- many rows, as arrays -----------------------------------------------------------------

    def fits(self, rows: SomeRows) -> Bools:
        """Tell which rows are short of nothing.

        Compares where ``spare`` subtracts: 12 µs against 20 for two resources on 5,000 rows, of the
        220 that a decision about a request never seen before takes
        (benchmarks/decisions.py --kind distinct).
        """
        slot, *others = self.needs
        enough = slot.free[rows] >= slot.wanted
        return _narrowed(enough, [(need, need.free) for need in others], rows)

    def may_fit(self, rows: SomeRows) -> Bools:
        """Tell which rows would be short of nothing but slots without any pod."""
        slot, *others = self.needs
        every = np.ones_like(slot.has[rows], np.bool_)
        return _narrowed(every, [(need, need.has) for need in others], rows)

    def spare(self, rows: SomeRows) -> list[Ints]:
        """What each row would have left of each need, an array a need; the caller may change it."""
        found: list[Ints] = []
        for need in self.needs:
            left = need.free[rows] - need.wanted
            if need.backed:
                left[need.has[rows] == 0] = ENOUGH
            found.append(left)
        return found

    # --- one row, in plain integers -----------------------------------------------------------

    def fits_at(self, row: int) -> bool:
        """Tell whether one row is short of nothing."""
        for free_at, wanted in self._cells:
            if free_at[row] < wanted:
                return self._backed and min(self.spare_at(row)) >= 0
        return True

    def spare_at(self, row: int) -> list[int]:
        """What one row would have left of each need."""
        if not self._backed:
            return [free_at[row] - wanted for free_at, wanted in self._cells]
        return [
            spare_of(need.free_at[row], need.wanted, need.has_at[row], backed=need.backed)
            for need in self.needs
        ]

    def taken_by(self, pods: Sequence[PodInfo]) -> list[int]:
        """What pods take of each need, were they on one row: a slot each, and what they request."""
        requests = [dict(pod.request) for pod in pods]
        wanted = [sum([r.get(need.resource, 0) for r in requests]) for need in self.needs[1:]]
        return [len(pods), *wanted]

    # --- explanation --------------------------------------------------------------------------

    def shortages(self, row: int, gained: Sequence[int] = ()) -> list[InsufficientResource]:
        """Everything one row is short of, in the order of needs.

        ``gained`` is what becomes free of each need (negative: is taken). A pod slot is never
        unresolvable, as upstream.
        """
        found = []
        for need, more in zip(self.needs, gained or repeat(0), strict=False):
            free, has, wanted = need.free_at[row] + more, need.has_at[row], need.wanted
            if spare_of(free, wanted, has, backed=need.backed) < 0:
                never = wanted > has and need is not self.needs[0]
                found.append(InsufficientResource(need.resource, wanted, has - free, has, never))
        return found


def short_of(request: Mapping[int, int], *free: Mapping[int, int]) -> list[int]:
    """The resources of a request of which less is free than wanted; ``free`` is added up.

    >>> short_of({0: 4, 1: 1}, {0: 3}, {0: 1})
    [1]
    """
    return [r for r, wanted in request.items() if sum([f.get(r, 0) for f in free]) < wanted]


def spare_of(free: int, wanted: int, has: int, *, backed: bool) -> int:
    """What stays free of one resource beside a wanted amount; ENOUGH if it is not counted.

    >>> spare_of(3, 4, 10, backed=False), spare_of(0, 4, 0, backed=True) == ENOUGH
    (-1, True)
    """
    return ENOUGH if backed and not has else free - wanted


def short_bits(spare: Iterable[Ints], last: int = LAST_BIT) -> Ints:
    """Tell what rows are short of, a bit for each need in order; those beyond ``last`` share it."""
    bits: Ints = np.zeros((), np.int64)
    for bit, left in enumerate(spare):
        bits = bits | (left < 0).astype(np.int64) << min(bit, last)
    return bits


def short_bits_at(spare: Iterable[int], last: int = LAST_BIT) -> int:
    """The same of one row."""
    bits = 0
    for bit, left in enumerate(spare):
        if left < 0:
            bits |= 1 << min(bit, last)
    return bits


def _narrowed(found: Bools, columns: Iterable[tuple[Need, Ints]], rows: SomeRows) -> Bools:
    """Leave of the rows those that have enough of each need in its column."""
    for need, column in columns:
        enough = column[rows] >= need.wanted
        if need.backed:
            enough |= need.has[rows] == 0
        found &= enough
    return found
