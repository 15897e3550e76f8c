"""Measure cases in turn, a hundred pods of each in random order, so that other load affects all.

The rate of a case is the median of its rounds. The ratio is the median of the ratios to the first
case in the same round, because the load of other processes changes more slowly than a round.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

import numpy as np

from decisions import NOW
from holdfast.cli import garbage_collection
from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.columns.pod_info import PodInfo

ROUND = 100
PROFILE = default_profiles()["default-scheduler"]
Scene = tuple[World, Sequence[PodInfo]]
"""A cluster, and pods to schedule there."""


@dataclass(frozen=True)
class Result:
    per_second: float
    of_first: float
    first_seconds: float
    """The time of the first pod with its preparation, which is not part of the rate."""
    longest_step_seconds: float
    """The longest time without a pause, for the first pod."""


def measure_scenes(
    scenes: Mapping[str, Scene], rejected: Collection[str] = ()
) -> dict[str, Result]:
    """Return the rate of each case in attempts per second; no pod of ``rejected`` fits a node."""
    names = list(scenes)
    times: dict[str, list[float]] = {name: [] for name in names}
    random, pods = Random(1), max(len(pod_infos) for _, pod_infos in scenes.values())
    garbage_collection.freeze_existing_objects()
    firsts = {
        name: _steps_of_first(world, pod_infos[0], rejected=name in rejected)
        for name, (world, pod_infos) in scenes.items()
    }
    for start in range(1, pods, ROUND):
        # A case starts with the processor's cache as the previous case left it.
        for name in random.sample(names, len(names)):
            world, pod_infos = scenes[name]
            if some := pod_infos[start : start + ROUND]:
                spent = _seconds(world, some, rejected=name in rejected)
                times[name].append(spent / len(some))
    gc.unfreeze()
    first = times[names[0]]
    return {
        name: Result(
            1 / median(spent), median(_ratios(first, spent)), sum(firsts[name]), max(firsts[name])
        )
        for name, spent in times.items()
    }


def step_times(steps: Iterator[None]) -> Iterator[float]:
    """Yield the seconds of CPU time from each pause to the next."""
    going = True
    while going:
        start = time.process_time()
        going = next(steps, steps) is None
        yield time.process_time() - start


def _ratios(before: Iterable[float], after: Iterable[float]) -> list[float]:
    return [b / a for b, a in zip(before, after, strict=False)]


def _steps_of_first(world: World, pod_info: PodInfo, *, rejected: bool) -> list[float]:
    """Return the seconds of each step; the cycle follows the last step without a pause."""
    steps = [*step_times(prepare_in_steps(PROFILE, pod_info, world, NOW))]
    steps[-1] += _seconds(world, [pod_info], rejected=rejected)
    return steps


def _seconds(world: World, pod_infos: Sequence[PodInfo], *, rejected: bool) -> float:
    rng = np.random.default_rng(1)
    began = time.process_time()
    for pod_info in pod_infos:
        outcome = schedule_pod(PROFILE, PROFILE.view(pod_info, world, NOW), rng)
        assert isinstance(outcome, Placement) is not rejected, getattr(outcome, "message", "placed")
    return time.process_time() - began
