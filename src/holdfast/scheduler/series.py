"""Counters, histograms and gauges that cost next to nothing to move.

A pod moves a dozen of them. prometheus_client writes the page; the cells are plain Python, because
everything happens on one loop and needs no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]
Reading = Callable[[], Mapping[Any, float]]
"""Label values (a tuple, or just the one) to a number."""


class Stopwatch(NamedTuple):
    """A clock, and who is told how many seconds something took, with its label values."""

    read: Callable[[], float] = lambda: 0.0
    tell: Callable[..., None] = lambda *_: None


UNWATCHED = Stopwatch()


def growing(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds of buckets, each so many times the one before.

    >>> growing(1, 2, 4)
    (1, 2, 4, 8)
    """
    return tuple(start * factor**i for i in range(count))


class Count:
    """A counter, by label values; ``name`` ends in ``_total``."""

    __slots__ = ("_cells", "_help", "_labels", "_name")

    def __init__(self, name: str, words: str, labels: Sequence[str] = ()) -> None:
        self._name, self._help, self._labels = name, words, labels
        self._cells: dict[Labels, list[float]] = {} if labels else {(): [0.0]}

    def cell(self, *labels: str) -> list[float]:
        """One number in a list, for whoever counts often."""
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = [0.0]
        return cell

    def add(self, *labels: str) -> None:
        """Count one."""
        self.cell(*labels)[0] += 1

    def collect(self) -> Metric:
        """Tell the metrics page."""
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, cell in self._cells.items():
            if cell[0] or not labels:
                family.add_metric(labels, cell[0])
        return family


class Spread:
    """A histogram, by label values."""

    __slots__ = ("_bounds", "_cells", "_help", "_labels", "_name")

    def __init__(
        self, name: str, words: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self._name, self._help, self._labels = name, words, labels
        self._bounds = bounds
        self._cells: dict[Labels, list[float]] = {}
        """How many fell into each bucket, then into none of them, then the sum."""
        if not labels:
            self._cells[()] = self._empty()

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = self._empty()
        cell[bisect_left(self._bounds, value)] += 1
        cell[-1] += value

    def collect(self) -> Metric:
        """Tell the metrics page."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, (*cells, total) in self._cells.items():
            sums, so_far = [], 0.0
            for bound, number in zip(bounds, cells, strict=True):
                so_far += number
                sums.append((bound, so_far))
            family.add_metric(labels, sums, total)
        return family

    def _empty(self) -> list[float]:
        return [0.0] * (len(self._bounds) + 2)


class Level:
    """A number that is read when somebody asks: a counter if its name says so, else a gauge."""

    __slots__ = ("_help", "_labels", "_name", "read")

    def __init__(self, name: str, words: str, labels: Sequence[str], read: Reading) -> None:
        self._name, self._help, self._labels = name, words, labels
        self.read = read

    def collect(self) -> Metric:
        """Tell the metrics page."""
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = kind(self._name, self._help, labels=self._labels)
        for labels, value in self.read().items():
            family.add_metric((labels,) if isinstance(labels, str) else labels, value)
        return family


def collected(series: Iterable[Count | Spread | Level]) -> Iterable[Metric]:
    """Tell the metrics page of all of them."""
    return [each.collect() for each in series]
