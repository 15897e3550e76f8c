"""Extension points: what the file calls them, and which plugins are part of them."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    implements,
)


class Point(NamedTuple):
    """An extension point: its set's name in our structs and in the file, its type's name upstream.

    ``protocol`` is None where nothing of ours is asked at that point.
    """

    field: str
    name: str
    type_name: str
    protocol: type[Plugin] | None


QUEUE_SORT = Point("queue_sort", "queueSort", "QueueSortPlugin", None)
PRE_FILTER = Point("pre_filter", "preFilter", "PreFilterPlugin", PreFilterPlugin)
FILTER = Point("filter", "filter", "FilterPlugin", FilterPlugin)
POST_FILTER = Point("post_filter", "postFilter", "PostFilterPlugin", PostFilterPlugin)
PRE_SCORE = Point("pre_score", "preScore", "PreScorePlugin", PreScorePlugin)
SCORE = Point("score", "score", "ScorePlugin", ScorePlugin)
RESERVE = Point("reserve", "reserve", "ReservePlugin", ReservePlugin)
BIND = Point("bind", "bind", "BindPlugin", BindPlugin)
POINTS = (
    Point("pre_enqueue", "preEnqueue", "PreEnqueuePlugin", PreEnqueuePlugin),
    QUEUE_SORT,
    PRE_FILTER,
    FILTER,
    POST_FILTER,
    PRE_SCORE,
    SCORE,
    RESERVE,
    Point("permit", "permit", "PermitPlugin", PermitPlugin),
    Point("pre_bind", "preBind", "PreBindPlugin", PreBindPlugin),
    BIND,
    Point("post_bind", "postBind", "PostBindPlugin", PostBindPlugin),
)
"""In the order of upstream's framework."""

_UPSTREAM = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "NodeUnschedulable": "filter",
    "NodeName": "filter",
    "TaintToleration": "filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodePorts": "preFilter filter",
    "NodeResourcesFit": "preFilter filter preScore score",
    "VolumeRestrictions": "preFilter filter",
    "NodeVolumeLimits": "preFilter filter",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "VolumeZone": "preFilter filter",
    "PodTopologySpread": "preFilter filter preScore score",
    "InterPodAffinity": "preFilter filter preScore score",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "DefaultPreemption": "preEnqueue postFilter",
    "NodeResourcesBalancedAllocation": "preScore score",
    "ImageLocality": "score",
    "DefaultBinder": "bind",
    "NodeDeclaredFeatures": "preFilter filter",
    "Reservation": "preFilter filter postFilter preScore score reserve preBind bind",
}
"""Where upstream's plugins are part of. Ours need not be everywhere to do the same."""


def extends(name: str, plugin: Plugin, point: Point) -> bool:
    """Tell whether a plugin may be named at a point: it is part of it here, or upstream.

    Many of ours prepare where upstream's have no preFilter that could be switched off.
    """
    upstream = _UPSTREAM.get(name)
    if upstream is not None and (point is PRE_FILTER or point.name in upstream.split()):
        return point.name in upstream.split()
    return point.protocol is not None and implements(plugin, point.protocol)
