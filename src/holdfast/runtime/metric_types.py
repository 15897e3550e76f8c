"""Counters, histograms and callbacks for a page of Prometheus metrics.

One pod changes a dozen metrics, so they are plain Python lists without locks: a process has one
event loop. prometheus_client renders the page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

LabelValues = tuple[str, ...]
Reading = Callable[[], Mapping[Any, float]]
"""Returns numbers by label values: a tuple, or a string for a single label."""


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds of buckets, each ``factor`` times the one before.

    >>> exponential_buckets(1, 2, 4)
    (1, 2, 4, 8)
    """
    return tuple(start * factor**i for i in range(count))


class CounterMetric:
    """A counter, by label values; ``name`` ends in ``_total``."""

    __slots__ = ("_cells", "_help", "_labels", "name")

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name, self._help, self._labels = name, text, labels
        self._cells: dict[LabelValues, list[float]] = {} if labels else {(): [0.0]}

    def cell(self, *labels: str) -> list[float]:
        """Return the list of one number that callers in a hot path increment themselves."""
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = [0.0]
        return cell

    def add(self, *labels: str) -> None:
        """Count one."""
        self.cell(*labels)[0] += 1

    def collect(self) -> Metric:
        """Return the metric family for the page."""
        family = CounterMetricFamily(self.name, self._help, labels=self._labels)
        for labels, cell in self._cells.items():
            if cell[0] or not labels:
                family.add_metric(labels, cell[0])
        return family


class Histogram:
    """A histogram, by label values."""

    __slots__ = ("_bounds", "_cells", "_help", "_labels", "name")

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self.name, self._help, self._labels = name, text, labels
        self._bounds = bounds
        self._cells: dict[LabelValues, list[float]] = {}
        """By label values: counts of each bucket, then of larger values, then the sum."""
        if not labels:
            self._cells[()] = self._empty()

    def observe(self, value: float, *labels: str) -> None:
        """Observe one value."""
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = self._empty()
        cell[bisect_left(self._bounds, value)] += 1
        cell[-1] += value

    def collect(self) -> Metric:
        """Return the metric family for the page."""
        family = HistogramMetricFamily(self.name, self._help, labels=self._labels)
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


class CallbackMetric:
    """A metric that is read when the page is rendered; a counter if its name ends in _total."""

    __slots__ = ("_help", "_labels", "_name", "read")

    def __init__(self, name: str, text: str, labels: Sequence[str], read: Reading) -> None:
        self._name, self._help, self._labels = name, text, labels
        self.read = read

    def collect(self) -> Metric:
        """Return the metric family for the page."""
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = kind(self._name, self._help, labels=self._labels)
        for labels, value in self.read().items():
            family.add_metric((labels,) if isinstance(labels, str) else labels, value)
        return family


def collect_all(series: Iterable[CounterMetric | Histogram | CallbackMetric]) -> Iterable[Metric]:
    """Return the metric families of several metrics."""
    return [each.collect() for each in series]


class MetricCollector(Collector):
    """Some metrics, to be registered together."""

    def __init__(self, *metrics: CounterMetric | Histogram | CallbackMetric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return the metric families of the metrics."""
        return collect_all(self._metrics)
