"""NodeResourcesFitArgs: which strategy scores, what is left unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.framework.arguments import Arguments

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
_STRATEGIES = (LEAST, MOST, RATIO)
_DEFAULT_RESOURCES = ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})


@dataclass(frozen=True, slots=True)
class FitArgs:
    """The arguments, read and checked.

    ``resources`` are (name, weight) in order; ``shape`` are (utilization, score) points of
    RequestedToCapacityRatio, scores already brought to 0..100.
    """

    strategy: str = LEAST
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    shape: tuple[tuple[int, int], ...] = ()
    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()


def read_args(given: Mapping[str, Any]) -> FitArgs:
    """Read the arguments; BadConfiguration names every wrong field."""
    known = ("scoringStrategy", "ignoredResources", "ignoredResourceGroups")
    args = Arguments("NodeResourcesFit", given, known)
    for i, name in enumerate(args.get("ignoredResourceGroups", ())):
        if "/" in name:
            args.wrong(f"ignoredResourceGroups[{i}]", "resource group name can't contain '/'")
    strategy = args.get("scoringStrategy", {"type": LEAST, "resources": _DEFAULT_RESOURCES})
    kind = strategy.get("type") or LEAST
    if kind not in _STRATEGIES:
        args.wrong("scoringStrategy.type", f"unsupported value {kind!r}", "FieldValueNotSupported")
    resources = _resources(args, strategy.get("resources"))
    shape = _shape(args, kind, strategy.get("requestedToCapacityRatio"))
    args.refuse_if_wrong()
    return FitArgs(
        kind,
        resources,
        shape,
        frozenset(args.get("ignoredResources", ())),
        frozenset(args.get("ignoredResourceGroups", ())),
    )


def _resources(args: Arguments, given: Any) -> tuple[tuple[str, int], ...]:
    found = []
    for i, entry in enumerate(_DEFAULT_RESOURCES if given is None else given):
        weight = entry.get("weight", 1)
        if not 0 < weight <= 100:
            path = f"scoringStrategy.resources[{i}].weight"
            args.wrong(path, f"resource weight of {entry.get('name')} not in valid range (0, 100]")
        found.append((str(entry.get("name", "")), weight))
    return tuple(found)


def _shape(args: Arguments, kind: str, given: Any) -> tuple[tuple[int, int], ...]:
    path = "scoringStrategy.requestedToCapacityRatio"
    if kind != RATIO:
        if given is not None:
            args.wrong(path, "must be nil when type is not RequestedToCapacityRatio")
        return ()
    points = (given or {}).get("shape") or ()
    if not points:
        args.wrong(f"{path}.shape", "at least one point must be specified", "FieldValueRequired")
    last = -1
    for i, point in enumerate(points):
        used, score = point.get("utilization", 0), point.get("score", 0)
        if not 0 <= used <= 100:
            args.wrong(f"{path}.shape[{i}].utilization", "not in valid range [0, 100]")
        elif used <= last:
            args.wrong(f"{path}.shape[{i}].utilization", "must be sorted in increasing order")
        if not 0 <= score <= 10:
            args.wrong(f"{path}.shape[{i}].score", "not in valid range [0, 10]")
        last = used
    return tuple((p.get("utilization", 0), p.get("score", 0) * 10) for p in points)
