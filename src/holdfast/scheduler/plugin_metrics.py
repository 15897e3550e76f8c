"""Count the evaluations of plugins, and measure their durations in one cycle of ten.

This happens outside of the engine: in the scheduler's profiles every plugin is wrapped, and the
methods of the wrapper count and measure. In a cycle that is not sampled a call costs an addition
and a comparison more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from holdfast.engine.profile import Profile
from holdfast.framework.plugin import Code, Plugin, PostFilterResult, Reject, Skip, Wait
from holdfast.scheduler.metrics import Metrics

SAMPLE_EVERY = 10
"""One cycle in this many is measured."""


class Measured(NamedTuple):
    """Upstream's name of a method's extension point, and whether its calls are counted.

    ``by_row``: the method takes many rows at once, and each row counts.
    """

    point: str
    counted: bool = False
    by_row: bool = False


MEASURED = {
    "pre_enqueue": Measured("PreEnqueue"),
    "pre_filter": Measured("PreFilter", counted=True),
    "filter": Measured("Filter", counted=True, by_row=True),
    "filter_and_score_row": Measured("Filter", counted=True),
    "post_filter": Measured("PostFilter"),
    "pre_score": Measured("PreScore", counted=True),
    "score": Measured("Score", counted=True, by_row=True),
    "reserve": Measured("Reserve"),
    "permit": Measured("Permit"),
}
"""Measured methods of plugins; PreBind and Bind are measured by the binding cycle."""
FORWARDED = (
    "reads",
    "key_outside_spec",
    "normalize_score",
    "normalize_by_range",
    "score_table",
    "tier",
    "filter_row",
    "prepare",
    "filter_needs_preparation",
    "post_filter_needs_preparation",
    "prepare_filter",
    "pre_bind_pre_flight",
    "may_end_pending",
    "writes_nominated_node",
    "pre_bind",
    "bind",
    "post_bind",
)
"""Not measured, but called so often that a lookup through ``__getattr__`` would be too slow."""
SUCCESS, UNSCHEDULABLE = "Success", "Unschedulable"
Timer = Callable[[], float]
Method = Callable[..., Any]


class MeteredPlugin:
    """Wraps a plugin: ``calls`` replace its methods, other attributes are the plugin's own."""

    def __init__(self, plugin: Plugin, calls: dict[str, Method]) -> None:
        self._plugin = plugin
        self.name, self.traits = plugin.name, plugin.traits
        vars(self).update(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)


@cache
def _metered_type(plugin: type[Plugin]) -> type[MeteredPlugin]:
    """Return the wrapper type of a plugin type: what a plugin implements is known by its type."""
    return type(f"Metered{plugin.__name__}", (MeteredPlugin,), {})


class Meter:
    """Measures one cycle of ten; ``on`` is true during such a cycle."""

    def __init__(self, metrics: Metrics, timer: Timer) -> None:
        self._metrics = metrics
        self._timer = timer
        self._cycles = 0
        self._spent: dict[str, float] = {}
        self._status: dict[str, str] = {}
        self.on = False

    def begin(self) -> None:
        """Begin a cycle."""
        self._cycles += 1
        if self._cycles % SAMPLE_EVERY == 0:
            self.on = True
            self._spent, self._status = {}, {}

    def end(self, profile: str, *, placed: bool) -> None:
        """End the cycle and record the durations of its extension points."""
        if not self.on:
            return
        self.on = False
        if not placed and self._status.get("Filter"):
            self._status["Filter"] = UNSCHEDULABLE
        for point, seconds in self._spent.items():
            self._metrics.point_seconds.observe(seconds, point, self._status[point], profile)

    def measure(self, plugin: str, point: str, call: Method, *arguments: Any) -> Any:
        """Call a plugin's method and record its duration and status."""
        began = self._timer()
        result = call(*arguments)
        seconds = self._timer() - began
        status = _status(result)
        self._metrics.plugin_seconds.observe(seconds, plugin, point, status)
        self._spent[point] = self._spent.get(point, 0.0) + seconds
        if self._status.setdefault(point, SUCCESS) == SUCCESS and status != Code.SKIP.upstream_name:
            self._status[point] = status
        return result

    def profile(self, profile: Profile) -> Profile:
        """Return the profile with every plugin wrapped."""
        metered = {id(p): self._metered(p, profile.name) for p in profile.plugins}
        lists = {
            point: tuple(metered.get(id(p), p) for p in plugins)
            for point, plugins in profile.plugins_by_point.items()
        }
        return replace(profile, plugins=tuple(metered.values()), plugins_by_point=lists)

    def _metered(self, plugin: Plugin, profile: str) -> Plugin:
        calls = {}
        for name in (*MEASURED, *FORWARDED):
            call = getattr(plugin, name, None)
            if callable(call):
                how = MEASURED.get(name)
                calls[name] = call if how is None else self._measured(plugin, how, call, profile)
        return _metered_type(type(plugin))(plugin, calls)

    def _measured(self, plugin: Plugin, how: Measured, call: Method, profile: str) -> Method:
        count = [0.0]
        if how.counted:
            count = self._metrics.evaluations.cell(plugin.name, how.point, profile)
        wrap = self._many if how.by_row else self._one
        return wrap(plugin.name, how.point, call, count)

    def _one(self, plugin: str, point: str, call: Method, count: list[float]) -> Method:
        def measured(*arguments: Any) -> Any:
            count[0] += 1
            return self.measure(plugin, point, call, *arguments) if self.on else call(*arguments)

        return measured

    def _many(self, plugin: str, point: str, call: Method, count: list[float]) -> Method:
        def measured(state: Any, rows: Any, *more: Any) -> Any:
            count[0] += rows.stop if isinstance(rows, slice) else len(rows)
            if self.on:
                return self.measure(plugin, point, call, state, rows, *more)
            return call(state, rows, *more)

        return measured


def _status(result: Any) -> str:
    if isinstance(result, Reject | PostFilterResult):
        return result.code.upstream_name
    if isinstance(result, Skip):
        return Code.SKIP.upstream_name
    return Code.WAIT.upstream_name if isinstance(result, Wait) else SUCCESS
