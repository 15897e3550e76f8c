"""Let back whom there is room for, in order; the others have to go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def let_back(
    count: int, first: Collection[int], asked: Sequence[list[int]], left: list[int], slots: int
) -> list[int]:
    """Of so many pods, of which some come first, find those for whom no room is left.

    ``asked`` has a list of amounts a resource, ``left`` what is left of it.

    >>> let_back(3, (), [[2, 1, 1]], [3], 9)
    [2]
    """
    order: Sequence[int] = range(count)
    if first:
        order = [*sorted(first), *(place for place in order if place not in first)]
        asked = [[amounts[place] for place in order] for amounts in asked]
    # Most of them fit one after the other; only from where room runs out on each must be asked.
    fitting = min(count, max(0, slots))
    sums = [list(accumulate(amounts)) for amounts in asked]
    for total, rest in zip(sums, left, strict=True):
        fitting = min(fitting, bisect_right(total, rest))
    if fitting:
        slots -= fitting
        left = [rest - total[fitting - 1] for rest, total in zip(left, sums, strict=True)]
    gone = []
    for at in range(fitting, count):
        if slots < 1 or any(amounts[at] > rest for amounts, rest in zip(asked, left, strict=True)):
            gone.append(order[at])
        else:
            slots -= 1
            left = [rest - amounts[at] for amounts, rest in zip(asked, left, strict=True)]
    return sorted(gone)


def let_back_columns(
    leaving: Bools, first: Bools | None, asked: list[Ints], left: list[Ints], slots: Ints
) -> Bools:
    """The same over columns of pods, [place, row]; ``left`` and ``slots`` are used up."""
    gone = leaving.copy()
    for asking in (leaving,) if first is None else (leaving & first, leaving & ~first):
        for place in range(len(gone)):
            fits = asking[place] & (slots >= 1)
            for amounts, rest in zip(asked, left, strict=True):
                fits &= rest >= amounts[place]
            for i, amounts in enumerate(asked):
                left[i] -= amounts[place] * fits
            slots -= fits
            gone[place] &= ~fits
    return gone
