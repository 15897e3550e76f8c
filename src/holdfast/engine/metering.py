"""Where calls of plugins are counted and measured; the scheduler's metrics do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from holdfast.framework.points import Point

R = TypeVar("R")


class PluginMeter:
    """Counts the rows that plugins evaluate, and measures their calls while it is ``on``.

    This one does neither.
    """

    on: bool = False

    def counter(self, plugin: str, point: Point, profile: str) -> list[float]:
        """Return a cell to which evaluations are added."""
        return [0.0]

    def call(self, plugin: str, point: Point, method: Callable[..., R], *arguments: object) -> R:
        """Call a method, measured while the meter is on."""
        if self.on:
            return self.measure(plugin, point, method, *arguments)
        return method(*arguments)

    def measure(self, plugin: str, point: Point, method: Callable[..., R], *arguments: object) -> R:
        """Call a method and record how long it takes."""
        return method(*arguments)


NO_METER = PluginMeter()
