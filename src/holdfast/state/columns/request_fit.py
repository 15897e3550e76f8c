"""Whether a request fits on rows, and what is insufficient: one rule in three forms.

A row is short of a resource if less than the wanted amount is free. A ``device_backed`` resource
(one that devices may provide) does not count on rows that have none of it. A pod slot is a need
like any other, and the first one.

- ``fits``, ``fits_if_empty`` and ``remaining`` return arrays over rows;
- ``fits_at`` and ``remaining_at`` answer for one row, in plain integers;
- ``shortages`` explains one row: which needs are short, and whether evictions can help.

``short_of`` is the same rule for amounts by resource, such as those that reservations hold.

The remaining amount is what stays free after the request: negative where the row is short, ENOUGH
where the resource does not count. Lists of remaining amounts are in the order of ``needs``, so a
caller can add what evicted pods free, or subtract what nominated pods need, and test again.

CPU sets and devices can use the same rule: a ``Need`` is a wanted amount with a column of what is
free and a column of what the row has in all, whatever it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.amounts import NodeAmounts, RequestedAmounts
from holdfast.state.columns.cells import Cells
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import PodInfo

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SomeRows = NDArray[np.intp] | slice
ENOUGH = 2**60
"""The remaining amount of what does not count: larger than all requests on one row."""
LAST_BIT = 62


class Need(NamedTuple):
    """A wanted amount, with the columns of free and of total amounts."""

    resource: int
    wanted: int
    free: Ints
    has: Ints
    free_at: Cells[int]
    has_at: Cells[int]
    device_backed: bool = False


class InsufficientResource(NamedTuple):
    """One need a row is short of; unresolvable if it is short even without pods."""

    resource: int
    requested: int
    used: int
    capacity: int
    unresolvable: bool


class RequestFit:
    """One request, compared with rows; keeps columns (epoch ``layout``)."""

    __slots__ = ("_cells", "_device_backed", "needs")

    def __init__(self, needs: Sequence[Need]) -> None:
        """Compare these needs; the first one is the pod slot."""
        self.needs = needs
        self._cells = [(need.free_at, need.wanted) for need in needs]
        self._device_backed = any([need.device_backed for need in needs])

    @classmethod
    def of(
        cls, amounts: NodeAmounts, request: RequestedAmounts, device_backed: frozenset[int]
    ) -> RequestFit:
        """Return the fit of a pod slot and a request whose resources all have columns."""
        free, free_at = amounts.free, amounts.free_at
        has, has_at = amounts.allocatable, amounts.allocatable_at
        needs = [
            Need(r, wanted, free[r], has[r], free_at[r], has_at[r], r in device_backed)
            for r, wanted in ((PODS, 1), *request)
        ]
        return cls(needs)

    # --- many rows, as arrays -----------------------------------------------------------------

    def fits(self, rows: SomeRows) -> Bools:
        """Return which rows have enough of every need.

        Comparing is faster than subtracting as ``remaining`` does: 12 against 20 µs for two
        resources on 5,000 rows, of the 220 µs of a decision about a request never seen before
        (benchmarks/decisions.py --kind distinct).
        """
        pod_slot, *others = self.needs
        enough = pod_slot.free[rows] >= pod_slot.wanted
        return _narrowed(enough, [(need, need.free) for need in others], rows)

    def fits_if_empty(self, rows: SomeRows) -> Bools:
        """Return which rows would have enough without any pod, ignoring slots."""
        pod_slot, *others = self.needs
        every = np.ones_like(pod_slot.has[rows], np.bool_)
        return _narrowed(every, [(need, need.has) for need in others], rows)

    def remaining(self, rows: SomeRows) -> list[Ints]:
        """Return what each row would have left of each need; callers may modify the arrays."""
        remaining: list[Ints] = []
        for need in self.needs:
            left = need.free[rows] - need.wanted
            if need.device_backed:
                left[need.has[rows] == 0] = ENOUGH
            remaining.append(left)
        return remaining

    # --- one row, in plain integers -----------------------------------------------------------

    def fits_at(self, row: int) -> bool:
        """Return whether one row has enough of every need."""
        for free_at, wanted in self._cells:
            if free_at[row] < wanted:
                return self._device_backed and min(self.remaining_at(row)) >= 0
        return True

    def remaining_at(self, row: int) -> list[int]:
        """Return what one row would have left of each need."""
        if not self._device_backed:
            return [free_at[row] - wanted for free_at, wanted in self._cells]
        return [
            remaining_of(
                need.free_at[row], need.wanted, need.has_at[row], device_backed=need.device_backed
            )
            for need in self.needs
        ]

    def requests_of(self, pods: Sequence[PodInfo]) -> list[int]:
        """Return what pods on one row need of each need: slots, then requests."""
        requests = [dict(pod.request) for pod in pods]
        wanted = [sum([r.get(need.resource, 0) for r in requests]) for need in self.needs[1:]]
        return [len(pods), *wanted]

    # --- explanation --------------------------------------------------------------------------

    def shortages(self, row: int, gained: Sequence[int] = ()) -> list[InsufficientResource]:
        """Return everything one row is short of, in the order of needs.

        ``gained`` is what becomes free of each need, negative if it is taken. As in kube-scheduler,
        a missing pod slot is never unresolvable.
        """
        shortages = []
        for need, more in zip(self.needs, gained or repeat(0), strict=False):
            free, has, wanted = need.free_at[row] + more, need.has_at[row], need.wanted
            if remaining_of(free, wanted, has, device_backed=need.device_backed) < 0:
                never = wanted > has and need is not self.needs[0]
                shortages.append(
                    InsufficientResource(need.resource, wanted, has - free, has, never)
                )
        return shortages


def short_of(request: Mapping[int, int], *free: Mapping[int, int]) -> list[int]:
    """Return the resources of a request that are short; the mappings in ``free`` are added up.

    >>> short_of({0: 4, 1: 1}, {0: 3}, {0: 1})
    [1]
    """
    return [r for r, wanted in request.items() if sum([f.get(r, 0) for f in free]) < wanted]


def remaining_of(free: int, wanted: int, has: int, *, device_backed: bool) -> int:
    """Return what stays free of one resource after a wanted amount; ENOUGH if it does not count.

    >>> remaining_of(3, 4, 10, device_backed=False)
    -1
    >>> remaining_of(0, 4, 0, device_backed=True) == ENOUGH
    True
    """
    return ENOUGH if device_backed and not has else free - wanted


def short_bits(spare: Iterable[Ints], last: int = LAST_BIT) -> Ints:
    """Return what rows are short of, one bit per need in order; needs beyond ``last`` share it."""
    bits: Ints = np.zeros((), np.int64)
    for bit, left in enumerate(spare):
        bits = bits | (left < 0).astype(np.int64) << min(bit, last)
    return bits


def short_bits_at(spare: Iterable[int], last: int = LAST_BIT) -> int:
    """Return the same for one row."""
    bits = 0
    for bit, left in enumerate(spare):
        if left < 0:
            bits |= 1 << min(bit, last)
    return bits


def _narrowed(mask: Bools, columns: Iterable[tuple[Need, Ints]], rows: SomeRows) -> Bools:
    """Keep the rows whose columns have enough of each need."""
    for need, column in columns:
        enough = column[rows] >= need.wanted
        if need.device_backed:
            enough |= need.has[rows] == 0
        mask &= enough
    return mask
