"""Units of a policy as text and as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.labels import Selector
from holdfast.capacity.policies import Group
from holdfast.capacity.policy_usage import UnitUsage
from holdfast.cli.table import in_one_unit


def selector_text(selector: Selector) -> str:
    """Write a selector as kubectl does; an empty one selects all."""
    return str(selector) or "all"


def group_text(group: Group) -> str:
    """Write the label values that distinguish a group."""
    return ",".join(f"{key}={value}" for key, value in group) or "all"


def resources_text(resources: Mapping[str, int], caps: Mapping[str, int]) -> list[str]:
    """Write what pods request beside each cap of maxResources.

    >>> resources_text({"cpu": 2500, "memory": 0}, {"memory": 2**30, "cpu": 3000})
    ['cpu 2.5/3', 'memory 0/1Gi']
    """
    texts = []
    for resource, cap in sorted(caps.items()):
        used, most = in_one_unit(resource, [resources[resource], cap])
        texts.append(f"{resource} {used}/{most}")
    return texts


def unit_data(usage: UnitUsage) -> dict[str, Any]:
    """Return a unit as JSON data; cpu is in millicores, other resources in whole units."""
    unit = usage.unit
    return {
        "name": unit.name,
        "priority": unit.priority,
        "nodes": list(usage.nodes),
        "pods": len(usage.pods),
        "maxCount": unit.max_count,
        "headroom": usage.headroom,
        "resources": dict(usage.group(()).resources),
        "maxResources": dict(unit.max_resources),
        "groups": [
            {
                "labels": dict(group.group),
                "pods": len(group.pods),
                "resources": dict(group.resources),
                "headroom": unit.places_left(len(group.pods)),
            }
            for group in usage.groups
        ],
        "overCap": usage.over_cap,
    }


def labels_text(labels: Mapping[str, str]) -> str:
    """Write labels as a selector would name them."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "no labels"
