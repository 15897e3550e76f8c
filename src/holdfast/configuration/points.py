"""Extension points: their names in the file, and which plugins implement them."""

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
    """An extension point: its field in ``PluginSets``, its name in the file, upstream's type name.

    ``protocol`` is None if Holdfast calls no plugins at this point.
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
"""The extension points that upstream's plugins implement. Ours may need fewer of them."""


def extends(name: str, plugin: Plugin, point: Point) -> bool:
    """Return whether a plugin may be enabled at a point: it implements the point here, or upstream.

    Some of our plugins have a preFilter that upstream's lack; those cannot be named there.
    """
    upstream = _UPSTREAM.get(name)
    if upstream is not None and (point is PRE_FILTER or point.name in upstream.split()):
        return point.name in upstream.split()
    return point.protocol is not None and implements(plugin, point.protocol)
