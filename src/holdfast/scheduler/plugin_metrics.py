"""How often plugins are asked, and in one cycle of ten how long they take to answer.

Deciding knows nothing of it: a scheduler's profiles have a stand-in for each plugin, whose measured
extension points count themselves. Between the sampled cycles that costs an addition and a
comparison.
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
"""One cycle of so many is timed."""


class Measured(NamedTuple):
    """How a method shows: upstream's name for when it is asked, and whether it is counted.

    ``by_row``: it is asked about many rows at once, and each counts.
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
"""Methods of plugins that answer at once. What takes its time is measured where it is driven."""
FORWARDED = (
    "reads",
    "key_outside_spec",
    "normalize_score",
    "normalize_by_range",
    "score_table",
    "tier",
    "filter_row",
)
"""Not measured, but asked so often that looking them up on the plugin would be felt."""
SUCCESS, UNSCHEDULABLE = "Success", "Unschedulable"
Timer = Callable[[], float]
Method = Callable[..., Any]


class MeteredPlugin:
    """Stands in for a plugin: ``calls`` are its measured methods, the rest is the plugin's own."""

    def __init__(self, plugin: Plugin, calls: dict[str, Method]) -> None:
        self._plugin = plugin
        self.name, self.traits = plugin.name, plugin.traits
        vars(self).update(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)


@cache
def _metered_type(plugin: type[Plugin]) -> type[MeteredPlugin]:
    """A type for the stand-ins of one sort of plugin: what a plugin can do is known by its type."""
    return type(f"Metered{plugin.__name__}", (MeteredPlugin,), {})


class Meter:
    """Times one cycle of ten; ``on`` while it does."""

    def __init__(self, metrics: Metrics, timer: Timer) -> None:
        self._metrics = metrics
        self._timer = timer
        self._cycles = 0
        self._spent: dict[str, float] = {}
        self._status: dict[str, str] = {}
        self.on = False

    def begin(self) -> None:
        """A cycle begins."""
        self._cycles += 1
        if self._cycles % SAMPLE_EVERY == 0:
            self.on = True
            self._spent, self._status = {}, {}

    def end(self, profile: str, *, placed: bool) -> None:
        """The cycle is over."""
        if not self.on:
            return
        self.on = False
        if not placed and self._status.get("Filter"):
            self._status["Filter"] = UNSCHEDULABLE
        for point, seconds in self._spent.items():
            self._metrics.point_seconds.observe(seconds, point, self._status[point], profile)

    def ask(self, plugin: str, point: str, call: Method, *given: Any) -> Any:
        """Have a plugin answer, and note how long it took and what came of it."""
        began = self._timer()
        answer = call(*given)
        seconds = self._timer() - began
        status = _status(answer)
        self._metrics.plugin_seconds.observe(seconds, plugin, point, status)
        self._spent[point] = self._spent.get(point, 0.0) + seconds
        if self._status.setdefault(point, SUCCESS) == SUCCESS and status != Code.SKIP.upstream_name:
            self._status[point] = status
        return answer

    def profile(self, profile: Profile) -> Profile:
        """The same profile, of plugins that are counted and timed."""
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
        def asked(*given: Any) -> Any:
            count[0] += 1
            return self.ask(plugin, point, call, *given) if self.on else call(*given)

        return asked

    def _many(self, plugin: str, point: str, call: Method, count: list[float]) -> Method:
        def asked(state: Any, rows: Any, *more: Any) -> Any:
            count[0] += rows.stop if isinstance(rows, slice) else len(rows)
            if self.on:
                return self.ask(plugin, point, call, state, rows, *more)
            return call(state, rows, *more)

        return asked


def _status(answer: Any) -> str:
    if isinstance(answer, Reject | PostFilterResult):
        return answer.code.upstream_name
    if isinstance(answer, Skip):
        return Code.SKIP.upstream_name
    return Code.WAIT.upstream_name if isinstance(answer, Wait) else SUCCESS
