"""Count the evaluations of plugins, and measure their durations in one cycle of ten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.engine.metering import PluginMeter
from holdfast.framework.plugin import Code, PostFilterResult, Reject, Skip, Wait
from holdfast.framework.points import Point
from holdfast.scheduler.metrics import Metrics

SAMPLE_EVERY = 10
"""One cycle in this many is measured."""
SUCCESS, UNSCHEDULABLE = "Success", "Unschedulable"
R = TypeVar("R")


class Meter(PluginMeter):
    """Measures one cycle of ten, in which it is ``on``; ``binding`` measures PreBind and Bind."""

    def __init__(self, metrics: Metrics, timer: Callable[[], float]) -> None:
        self._metrics = metrics
        self._timer = timer
        self._cycles = 0
        self._spent: dict[Point, float] = {}
        self._status: dict[Point, str] = {}

    def begin(self) -> None:
        """Begin a cycle."""
        self._cycles += 1
        self.on = self._cycles % SAMPLE_EVERY == 0
        if self.on:
            self._spent, self._status = {}, {}

    def end(self, profile: str, *, placed: bool) -> None:
        """End the cycle and record the durations of its extension points."""
        if not self.on:
            return
        self.on = False
        if not placed and self._status.get(Point.FILTER):
            self._status[Point.FILTER] = UNSCHEDULABLE
        for point, seconds in self._spent.items():
            self._metrics.point_seconds.observe(
                seconds, point.upstream_name, self._status[point], profile
            )

    def counter(self, plugin: str, point: Point, profile: str) -> list[float]:
        """Return the cell of ``plugin_evaluation_total``."""
        return self._metrics.evaluations.cell(plugin, point.upstream_name, profile)

    def measure(self, plugin: str, point: Point, method: Callable[..., R], *arguments: Any) -> R:
        """Call a method of a plugin or its plan; record its duration and status."""
        began = self._timer()
        result = method(*arguments)
        seconds = self._timer() - began
        status = _status(result)
        self._metrics.plugin_seconds.observe(seconds, plugin, point.upstream_name, status)
        self._spent[point] = self._spent.get(point, 0.0) + seconds
        if self._status.setdefault(point, SUCCESS) == SUCCESS and status != Code.SKIP.upstream_name:
            self._status[point] = status
        return result


def _status(result: object) -> str:
    if isinstance(result, Reject | PostFilterResult):
        return result.code.upstream_name
    if isinstance(result, Skip):
        return Code.SKIP.upstream_name
    return Code.WAIT.upstream_name if isinstance(result, Wait) else SUCCESS
