"""Measure decisions per second, in process, with every node evaluated.

    python benchmarks/decisions.py [--nodes 100 5000] [--placed 50000] [--kind basic ...]
    python benchmarks/decisions.py --profile basic     the time of one kind, by function

Nothing is written to an API server: ``scheduler.cycle.schedule_pod`` selects a node, assumes the
pod and runs the Reserve plugins. The rate is per second of CPU time of this process, so it can be
compared on a machine that does other work too; ``wall`` is per second of elapsed time. Making the
pod infos (once for each version of a pod) is shown separately.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from clusters import a_cluster
from holdfast.cli import garbage_collection
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.columns.pod_info import PodInfo
from kinds import KINDS

NOW = 1.8e9
PODS = 3000


@dataclass(frozen=True)
class Result:
    kind: str
    nodes: int
    placed: int
    pods: int
    per_second: float
    per_wall_second: float
    pod_info_microseconds: float
    rejected: int


def decide_all(world: World, pods: Sequence[PodInfo], seed: int = 1) -> tuple[float, float, int]:
    """Schedule the pods one after the other; return CPU and wall seconds, and rejections.

    The first pod is not counted: nothing is cached for it.
    """
    profile = default_profiles()["default-scheduler"]
    rng = np.random.default_rng(seed)
    schedule_pod(profile, profile.view(pods[0], world, NOW), rng)
    garbage_collection.freeze_existing_objects()
    rejected = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for pod_info in pods[1:]:
        if not isinstance(
            schedule_pod(profile, profile.view(pod_info, world, NOW), rng), Placement
        ):
            rejected += 1
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    gc.unfreeze()
    return cpu, wall, rejected


def measure(kind: str, nodes: int, placed: int = 0, pods: int = PODS, seed: int = 1) -> Result:
    """Measure one kind on one cluster."""
    world = a_cluster(nodes, placed)
    # A small cluster would fill up, and the rest of the run would measure rejections.
    waiting = list(KINDS[kind].pods(world, min(pods, nodes * 30)))
    began = time.process_time()
    pod_infos = [world.pod_info(pod) for pod in waiting]
    digesting = 1e6 * (time.process_time() - began) / len(pod_infos)
    cpu, wall, rejected = decide_all(world, pod_infos, seed)
    count = len(pod_infos) - 1
    return Result(kind, nodes, placed, count, count / cpu, count / wall, digesting, rejected)


def best(runs: int, kind: str, nodes: int, placed: int = 0, pods: int = PODS) -> Result:
    """Return the best of some runs: other load can only make a run slower."""
    found = (measure(kind, nodes, placed, pods, seed) for seed in range(1, runs + 1))
    return max(found, key=lambda result: result.per_second)


def show_profile(kind: str, nodes: int, placed: int, pods: int) -> None:
    """Print a profile by function; profiling makes calls seem more expensive than they are."""
    world = a_cluster(nodes, placed)
    pod_infos = [world.pod_info(pod) for pod in KINDS[kind].pods(world, pods)]
    profiler = cProfile.Profile()
    profiler.runcall(decide_all, world, pod_infos)
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 5000])
    parser.add_argument("--placed", type=int, default=0, help="pods on the nodes already")
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--repeat", type=int, default=1, help="keep the best of N runs")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    parser.add_argument("--profile", choices=list(KINDS), help="profile one kind instead")
    args = parser.parse_args()
    if args.profile:
        show_profile(args.profile, args.nodes[-1], args.placed, args.pods)
        return
    results = []
    print(f"{'kind':32}{'nodes':>7}{'placed':>8}{'per s':>9}{'wall':>9}{'info µs':>10}{'no':>6}")
    for nodes in args.nodes:
        for kind in args.kind:
            found = best(args.repeat, kind, nodes, args.placed, args.pods)
            results.append(found)
            print(
                f"{KINDS[kind].words:32}{nodes:>7}{found.placed:>8}{found.per_second:>9,.0f}"
                f"{found.per_wall_second:>9,.0f}{found.pod_info_microseconds:>10.1f}"
                f"{found.rejected:>6}",
                flush=True,
            )
    if args.json:
        with open(args.json, "w") as file:
            json.dump([asdict(result) for result in results], file, indent=2)


if __name__ == "__main__":
    main()
