"""How often plugins are asked, and in one cycle of ten how long they take to answer.

The runner knows nothing of it: a scheduler runs stand-ins of the plugins, whose extension points
count themselves. Between the sampled cycles that costs an addition and a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.engine.profile import Profile
from holdfast.framework.plugin import Code, Effect, Plugin, Reject, Skip, Wait
from holdfast.scheduler.metrics import Metrics

EVERY = 10
"""One cycle of so many is timed."""
POINTS = {
    "pre_enqueue": "PreEnqueue", "prepare": "PreFilter", "filter": "Filter", "row": "Filter",
    "after_reject": "PostFilter", "pre_score": "PreScore", "score": "Score",
    "reserve": "Reserve", "permit": "Permit",
}  # fmt: skip
"""Methods of plugins that answer at once, and upstream's names for when they are asked."""
COUNTED = frozenset({"PreFilter", "Filter", "PreScore", "Score"})
MANY = frozenset({"filter", "score"})
"""Asked about many rows at once; each counts."""
HOT = frozenset({"reads", "beyond", "filter", "row", "score", "scale", "tier", "verdict"})
"""Asked so often that looking them up would be felt."""
SUCCESS, UNSCHEDULABLE = "Success", "Unschedulable"
Timer = Callable[[], float]
_STAND_INS: dict[type, type] = {}


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
        if self._cycles % EVERY == 0:
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

    def ask(self, plugin: str, point: str, call: Callable[..., Any], *given: Any) -> Any:
        """Have a plugin answer, and note how long it took and what came of it."""
        began = self._timer()
        answer = call(*given)
        seconds = self._timer() - began
        status = _status(answer)
        self._metrics.plugin_seconds.observe(seconds, plugin, point, status)
        self._spent[point] = self._spent.get(point, 0.0) + seconds
        if self._status.setdefault(point, SUCCESS) == SUCCESS and status != Code.SKIP.word:
            self._status[point] = status
        return answer

    def profile(self, profile: Profile) -> Profile:
        """The same profile, of plugins that are counted and timed."""
        metered = {id(p): self._metered(p, profile.name) for p in profile.plugins}
        lists = {
            point: tuple(metered.get(id(p), p) for p in plugins)
            for point, plugins in profile.lists.items()
        }
        return replace(profile, plugins=tuple(metered.values()), lists=lists)

    def _metered(self, plugin: Plugin, profile: str) -> Plugin:
        """A stand-in that does what the plugin does.

        Often used methods are taken over as they are, the others are looked up on the plugin
        every time.
        """
        made: Plugin = _stand_in_type(type(plugin))()
        for name in dir(plugin):
            if not name.startswith("_"):
                vars(made)[name] = self._stand_in(plugin, name, profile)
        return made

    def _stand_in(self, plugin: Plugin, name: str, profile: str) -> Any:
        found = getattr(plugin, name)
        if not callable(found):
            return found
        call = found if name in HOT else _forward(plugin, name)
        point = POINTS.get(name)
        if point is None:
            return call
        count = self._count(plugin.name, point, profile)
        how = self._many if name in MANY else self._one
        return how(plugin.name, point, call, count)

    def _count(self, plugin: str, point: str, profile: str) -> list[float]:
        if point not in COUNTED:
            return [0.0]
        return self._metrics.evaluations.cell(plugin, point, profile)

    def _one(
        self, plugin: str, point: str, call: Callable[..., Any], count: list[float]
    ) -> Callable[..., Any]:
        def asked(*given: Any) -> Any:
            count[0] += 1
            return self.ask(plugin, point, call, *given) if self.on else call(*given)

        return asked

    def _many(
        self, plugin: str, point: str, call: Callable[..., Any], count: list[float]
    ) -> Callable[..., Any]:
        def asked(state: Any, rows: Any, *more: Any) -> Any:
            count[0] += rows.stop if isinstance(rows, slice) else len(rows)
            if self.on:
                return self.ask(plugin, point, call, state, rows, *more)
            return call(state, rows, *more)

        return asked


def _stand_in_type(plugin: type) -> type:
    """A type for the stand-ins of one sort of plugin: what a plugin can do is asked of its type."""
    found = _STAND_INS.get(plugin)
    if found is None:
        found = _STAND_INS[plugin] = type(f"Metered{plugin.__name__}", (), {})
    return found


def _forward(plugin: Plugin, name: str) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        return getattr(plugin, name)(*given, **named)

    return call


def _status(answer: Any) -> str:
    if isinstance(answer, Reject | Effect):
        return answer.code.word
    if isinstance(answer, Skip):
        return Code.SKIP.word
    return Code.WAIT.word if isinstance(answer, Wait) else SUCCESS
