"""Codes and scores by case, the number of a node's state: looked up for all rows at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.plugins.device_share.searches import Found

Ints = NDArray[np.int64]
_MOST_CASES = 100_000


class CaseResults:
    """Results by case; dropped when ``version`` changes, because cases got other numbers."""

    _complete: tuple[tuple[int, ...], int]
    """The version and the number of states for which all rows have results."""

    def __init__(self) -> None:
        self._start_over(())

    def is_complete(self, version: tuple[int, ...], count: int) -> bool:
        """Return whether all rows had results when there were so many states, or more."""
        return self._complete[0] == version and self._complete[1] >= count

    def set_complete(self, version: tuple[int, ...], count: int) -> None:
        """Note that all rows have results, and how many states there are."""
        self._complete = (version, count)

    def _start_over(self, version: tuple[int, ...]) -> None:
        self._version = version
        self._complete = ((), 0)
        self._cases: Ints = np.zeros(0, np.int64)
        """Ascending; the same positions of the others belong to them."""
        self._codes: NDArray[np.int8] = np.zeros(0, np.int8)
        self._scores: NDArray[np.float64] = np.zeros(0)

    def missing(self, cases: Ints, version: tuple[int, ...]) -> NDArray[np.intp]:
        """Return one position of each case that has no result."""
        if version != self._version or len(self._cases) > max(_MOST_CASES, 2 * len(cases)):
            self._start_over(version)
        unknown: NDArray[np.intp] = (~self._are_known(cases)).nonzero()[0]
        return unknown[np.unique(cases[unknown], return_index=True)[1]]

    def _are_known(self, cases: Ints) -> NDArray[np.bool_]:
        if not len(self._cases):
            return np.zeros(len(cases), np.bool_)
        at = np.searchsorted(self._cases, cases)
        found: NDArray[np.bool_] = self._cases[np.minimum(at, len(self._cases) - 1)] == cases
        return found

    def add(self, cases: Ints, results: Sequence[Found]) -> None:
        """Store the results of cases that had none."""
        self._cases = np.append(self._cases, cases)
        self._codes = np.append(self._codes, np.array([found.code for found in results], np.int8))
        self._scores = np.append(self._scores, [float(found.score) for found in results])
        order = np.argsort(self._cases)
        self._cases, self._codes = self._cases[order], self._codes[order]
        self._scores = self._scores[order]

    def codes(self, cases: Ints) -> NDArray[np.int8]:
        """Return the code of each; all must have results."""
        return self._codes[np.searchsorted(self._cases, cases)]

    def scores(self, cases: Ints) -> NDArray[np.float64]:
        """Return the score of each; all must have results."""
        return self._scores[np.searchsorted(self._cases, cases)]
