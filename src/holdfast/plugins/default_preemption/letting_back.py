"""Let back whom there is room for, in order; the others have to go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def let_back(
    count: int, first: Collection[int], asked: Sequence[Sequence[int]], left: list[int], slots: int
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
    sums = []
    for amounts, rest in zip(asked, left, strict=True):
        total = list(accumulate(amounts))
        sums.append(total)
        fitting = min(fitting, bisect_right(total, rest))
    left = list(left)
    if fitting:
        slots -= fitting
        left = [rest - total[fitting - 1] for rest, total in zip(left, sums, strict=True)]
    gone = []
    for at in range(fitting, count):
        if slots >= 1 and _take(asked, at, left):
            slots -= 1
        else:
            gone.append(order[at])
    gone.sort()
    return gone


def _take(asked: Sequence[Sequence[int]], at: int, left: list[int]) -> bool:
    """Take what one asks for, if there is enough of everything."""
    for amounts, rest in zip(asked, left, strict=True):
        if amounts[at] > rest:
            return False
    for i, amounts in enumerate(asked):
        left[i] -= amounts[at]
    return True


class Rest(NamedTuple):
    """What is left of one sort of room on each row, and what each pod takes of it: [place, row].

    ``taken`` is 0 wherever nobody is leaving.
    """

    left: Ints
    taken: Ints


def let_back_columns(leaving: Bools, first: Bools | None, rests: Sequence[Rest]) -> Bools:
    """The same over columns of pods, [place, row]; what is left is used up."""
    gone = leaving.copy()
    if first is None:
        begin = _let_all_back(gone, rests)
        _let_some_back(gone, leaving, rests, begin)
    else:
        _let_some_back(gone, leaving & first, rests)
        _let_some_back(gone, leaving & ~first, rests)
    return gone


def _let_all_back(gone: Bools, rests: Sequence[Rest]) -> int:
    """Let whole places back, as long as there is room on every row; answers where that ends."""
    for place in range(len(gone)):
        for i, (left, taken) in enumerate(rests):
            np.subtract(left, taken[place], out=left)
            if left.min(initial=0) < 0:
                for used, given in rests[: i + 1]:
                    np.add(used, given[place], out=used)
                return place
        gone[place] = False
    return len(gone)


def _let_some_back(gone: Bools, asking: Bools, rests: Sequence[Rest], begin: int = 0) -> None:
    """Let back, place by place, those who ask and for whom there is room on their row."""
    for place in range(begin, len(gone)):
        fits = asking[place].copy()
        for left, taken in rests:
            fits &= left >= taken[place]
        for left, taken in rests:
            np.subtract(left, taken[place] * fits, out=left)
        gone[place] &= ~fits
