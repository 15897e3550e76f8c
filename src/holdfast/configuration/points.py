"""Which plugins may be enabled at which extension point of the file."""

from __future__ import annotations

from holdfast.framework.plugin import Plugin
from holdfast.framework.points import Point, has_point

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
    """Return whether a plugin may be enabled at a point: it has the point here, or upstream.

    Some of our plugins have a preFilter that upstream's lack; those cannot be named there.
    """
    upstream = _UPSTREAM.get(name)
    if upstream is not None and (point is Point.PRE_FILTER or point in upstream.split()):
        return point in upstream.split()
    return has_point(plugin, point)


def field_of(point: Point) -> str:
    """Return the field of ``PluginSets`` for a point.

    >>> field_of(Point.PRE_BIND)
    'pre_bind'
    """
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in point)


def type_name(point: Point) -> str:
    """Return upstream's name of the type of a point's plugins.

    >>> type_name(Point.PRE_BIND)
    'PreBindPlugin'
    """
    return f"{point.upstream_name}Plugin"
