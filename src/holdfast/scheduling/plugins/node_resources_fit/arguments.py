"""NodeResourcesFitArgs: the scoring strategy, and resources that are not checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from holdfast.api.field_errors import forbidden, invalid, not_supported, required
from holdfast.api.names import label_key
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
_STRATEGIES = (LEAST, MOST, RATIO)
_STRATEGY = "scoringStrategy"
_SHAPE = f"{_STRATEGY}.requestedToCapacityRatio"


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    weight: int = 1


class _Point(msgspec.Struct, frozen=True, rename="camel"):
    utilization: int = 0
    score: int = 0


class _Ratio(msgspec.Struct, frozen=True, rename="camel"):
    shape: tuple[_Point, ...] = ()


class _Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    resources: tuple[_Resource, ...] = ()
    requested_to_capacity_ratio: _Ratio | None = None


class _Given(PluginArgs, frozen=True):
    scoring_strategy: _Strategy | None = None
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()


_DEFAULT = (_Resource("cpu"), _Resource("memory"))


@dataclass(frozen=True, slots=True)
class FitArgs:
    """The arguments, read and checked.

    ``resources`` are (name, weight) in order; ``shape`` are (utilization, score) points of
    RequestedToCapacityRatio, with scores from 0 to 100.
    """

    strategy: str = LEAST
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    shape: tuple[tuple[int, int], ...] = ()
    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()


def read_args(args: Mapping[str, Any]) -> FitArgs:
    """Read the arguments; raise BadConfiguration that names every wrong field."""
    wrong = Arguments("NodeResourcesFit")
    given = wrong.read(_Given, args)
    _check_ignored(given, wrong)
    strategy = given.scoring_strategy or _Strategy(LEAST)
    if strategy.type not in _STRATEGIES:
        wrong.append(not_supported(f"{_STRATEGY}.type", strategy.type, _STRATEGIES))
    resources = _resources(strategy, wrong)
    shape = _shape(strategy, wrong)
    wrong.refuse_if_wrong()
    return FitArgs(
        strategy.type,
        resources,
        shape,
        frozenset(given.ignored_resources),
        frozenset(given.ignored_resource_groups),
    )


def _check_ignored(given: _Given, wrong: Arguments) -> None:
    for i, name in enumerate(given.ignored_resources):
        path = f"ignoredResources[{i}]"
        wrong.extend(invalid(path, name, message) for message in label_key(name))
    for i, name in enumerate(given.ignored_resource_groups):
        path = f"ignoredResourceGroups[{i}]"
        if "/" in name:
            wrong.append(invalid(path, name, "resource group name can't contain '/'"))
        wrong.extend(invalid(path, name, message) for message in label_key(name))


def _resources(strategy: _Strategy, wrong: Arguments) -> tuple[tuple[str, int], ...]:
    weights = tuple((r.name, r.weight) for r in strategy.resources or _DEFAULT)
    wrong.check_weights(weights, _STRATEGY)
    return weights


def _shape(strategy: _Strategy, wrong: Arguments) -> tuple[tuple[int, int], ...]:
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type != RATIO:
        if ratio is not None:
            message = "must be nil when type is not RequestedToCapacityRatio"
            wrong.append(forbidden(_SHAPE, message))
        return ()
    if ratio is None:
        wrong.append(required(_SHAPE, "must be specified when type is RequestedToCapacityRatio"))
        return ()
    if not ratio.shape:
        wrong.append(required(f"{_SHAPE}.shape", "at least one point must be specified"))
    _check_points(ratio.shape, wrong)
    return tuple((point.utilization, point.score * 10) for point in ratio.shape)


def _check_points(points: tuple[_Point, ...], wrong: Arguments) -> None:
    for i, (before, point) in enumerate(pairwise(points), 1):
        if before.utilization >= point.utilization:
            path = f"{_SHAPE}.shape[{i}].utilization"
            message = "values must be sorted in increasing order"
            wrong.append(invalid(path, point.utilization, message))
            break
    for i, point in enumerate(points):
        path = f"{_SHAPE}.shape[{i}]"
        if not 0 <= point.utilization <= 100:
            message = "not in valid range [0, 100]"
            wrong.append(invalid(f"{path}.utilization", point.utilization, message))
        if not 0 <= point.score <= 10:
            wrong.append(invalid(f"{path}.score", point.score, "not in valid range [0, 10]"))
