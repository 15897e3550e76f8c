"""The extension points of the Kubernetes scheduling framework, and which of them a plugin has."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any

from holdfast.scheduling.framework.plan import NodeFilter, NodeScorer, PodPlan, Reserver, Tiers
from holdfast.scheduling.framework.plugin import Plugin


class Point(StrEnum):
    """An extension point, by its name in KubeSchedulerConfiguration, in the order of the calls."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    """The scheduling queue has one order: no plugin has this point."""
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"

    @property
    def upstream_name(self) -> str:
        """The name in kube-scheduler's code, messages and metrics."""
        return self[0].upper() + self[1:]


_METHODS: dict[Point, Callable[..., Any]] = {
    Point.PRE_ENQUEUE: Plugin.pre_enqueue,
    Point.PRE_FILTER: Plugin.pre_filter,
    Point.POST_FILTER: Plugin.post_filter,
    Point.PERMIT: Plugin.permit,
    Point.BIND: Plugin.bind,
}
_PLAN_METHODS: dict[Point, tuple[Callable[..., Any], ...]] = {
    Point.FILTER: (NodeFilter.filter,),
    Point.PRE_SCORE: (NodeScorer.pre_score,),
    Point.SCORE: (NodeScorer.score, Tiers.tier),
    Point.RESERVE: (Reserver.reserve, Reserver.unreserve),
    Point.PRE_BIND: (Reserver.pre_bind,),
    Point.POST_BIND: (Reserver.post_bind,),
}


def overrides(author: Plugin | PodPlan | type, method: Callable[..., Any]) -> bool:
    """Return whether the class of a plugin or a plan has a method other than the default one.

    >>> class Fewest(NodeScorer):
    ...     def score(self, rows): ...
    >>> overrides(Fewest, NodeScorer.score), overrides(Fewest, NodeScorer.pre_score)
    (True, False)
    """
    return _overrides(author if isinstance(author, type) else type(author), method)


@cache
def _overrides(author: type, method: Callable[..., Any]) -> bool:
    return getattr(author, method.__name__, method) is not method


def has_point(plugin: Plugin, point: Point) -> bool:
    """Return whether a plugin, or the plan that its ``pre_filter`` returns, has a point."""
    if point in _METHODS:
        return overrides(plugin, _METHODS[point])
    return any(plan_has_point(plan, point) for plan in plugin.plan_classes)


def plan_has_point(plan: PodPlan | type[PodPlan], point: Point) -> bool:
    """Return whether a plan, or a class of plans, has a point."""
    return any(overrides(plan, method) for method in _PLAN_METHODS.get(point, ()))
