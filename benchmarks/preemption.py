"""Measure planned preemptions per second, in process: the attempt, its message, the victims.

    python benchmarks/preemption.py [--nodes 5000] [--pods-per-node 30] [--case warm ...]

Every node is full of pods of lower priority, so each attempt ends in victims. After each attempt
the preemptor is nominated to its node and its victims are deleted. ``warm`` schedules pods of one
class; ``first`` schedules a pod of a new class (and priority) each time; ``budgets`` is warm with
ten disruption budgets over all pods, one of which is updated after each preemption. ``ports``,
``far`` and ``even`` are preemptors that a host port, required anti-affinity or topology spread
excludes from many nodes. Rates are per second of CPU time and cover the attempt with its message,
not the changes after it and not the preparation in steps before it; ``best`` is the best window of
25 attempts, which can be compared on a machine that does other work too. ``cold`` is the very first
attempt with its preparation; ``step`` is the longest part of it without a pause.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from holdfast.api.scheme import DISRUPTION_BUDGETS
from holdfast.scheduling.engine.preparation import prepare_in_steps
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import PostFilterResult
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import SchedulingFailure, schedule_pod
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.builders import an_object
from in_turn import step_times

NOW = 1.8e9
APPS = 10
WINDOW = 25
HOST = "kubernetes.io/hostname"
FAR = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "app0"}}, "topologyKey": HOST}
        ]
    }
}


def a_full_cluster(nodes: int, per_node: int, seed: int) -> World:
    """Return full nodes with pods of four priorities that started at various times."""
    rng = np.random.default_rng(seed)
    world = World()
    for i in range(nodes):
        capacity = {"cpu": f"{per_node}", "memory": f"{per_node}Gi", "pods": "250"}
        world.upsert(typed(a_node(f"n{i}", labels={HOST: f"n{i}"}, **capacity)))
        left, at = per_node * 1000, 0
        while left > 0:
            cpu = min(left, int(rng.integers(5, 16)) * 100)
            left, at = left - cpu, at + 1
            second, minute = int(rng.integers(0, 60)), int(rng.integers(0, 60))
            started = {"phase": "Running", "startTime": f"2026-01-01T00:{minute:02}:{second:02}Z"}
            raw = a_pod(
                f"n{i}-{at}", cpu=f"{cpu}m", memory=f"{cpu}Mi", node=f"n{i}", status=started,
                priority=int(rng.choice([0, 10, 100, 500])),
                labels={"app": f"app{int(rng.integers(0, APPS))}"},
            )  # fmt: skip
            if at == 1:
                raw["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "containerPort": 80}]
            world.upsert(typed(raw))
    return world


def same(count: int, **more: Any) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield a_pod(f"p{i}", cpu="2", memory="2Gi", priority=1000, labels={"app": "p"}, **more)


def distinct(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield a_pod(f"p{i}", cpu=f"{1500 + i}m", memory="2Gi", priority=100_000 - i)


def with_port(count: int) -> Iterator[dict[str, Any]]:
    for raw in same(count):
        raw["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "containerPort": 80}]
        yield raw


def far(count: int) -> Iterator[dict[str, Any]]:
    yield from same(count, affinity=FAR)


def even(count: int) -> Iterator[dict[str, Any]]:
    constraint = {
        "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "app0"}},
    }  # fmt: skip
    yield from same(count, topology_spread_constraints=[constraint])


def a_budget(app: int, allowed: int) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": f"app{app}"}}}
    made = an_object(DISRUPTION_BUDGETS, f"pdb{app}", spec, namespace="default")
    return made | {"status": {"disruptionsAllowed": allowed}}


CASES: dict[str, tuple[str, Callable[[int], Iterator[dict[str, Any]]]]] = {
    "warm": ("same class again", same),
    "first": ("first of a class", distinct),
    "budgets": ("same class, 10 budgets", same),
    "ports": ("same class, host port", with_port),
    "far": ("same class, anti-affinity", far),
    "even": ("same class, hard spread", even),
}


@dataclass(frozen=True)
class Result:
    case: str
    nodes: int
    pods: int
    decisions: int
    per_second: float
    best_per_second: float
    slowest_milliseconds: float
    cold_milliseconds: float
    longest_step_milliseconds: float
    victims: int


def plan(
    profile: Profile, world: World, pod_info: PodInfo, rng: np.random.Generator
) -> PostFilterResult:
    """Plan one preemption."""
    outcome = schedule_pod(profile, profile.view(pod_info, world, NOW), rng)
    assert isinstance(outcome, SchedulingFailure), f"{pod_info.key} fits on {outcome.node}"
    result = outcome.post_filter_result
    assert result is not None and result.nominated_node, outcome.message
    return result


def execute(world: World, pod_info: PodInfo, result: PostFilterResult) -> None:
    """Nominate the preemptor and delete its victims."""
    world.nominations.set(pod_info, result.nominated_node)
    for victim in result.victims:
        world.delete(victim.pod)


def measure(case: str, nodes: int, per_node: int, count: int, seed: int) -> Result:
    world = a_full_cluster(nodes, per_node, seed)
    pods = len(world.nodes.pods())
    profile = default_profiles()["default-scheduler"]
    rng = np.random.default_rng(seed)
    if case == "budgets":
        for app in range(APPS):
            world.upsert(typed(a_budget(app, count)))
    waiting = [world.pod_info(typed(raw)) for raw in CASES[case][1](count + 1)]
    gc.collect()
    gc.freeze()
    spent, victims = [], 0
    steps = [*step_times(prepare_in_steps(profile, waiting[0], world, NOW))]
    for i, pod_info in enumerate(waiting):
        start = time.process_time()
        result = plan(profile, world, pod_info, rng)
        spent.append(time.process_time() - start)
        victims += len(result.victims)
        execute(world, pod_info, result)
        if case == "budgets":
            world.upsert(typed(a_budget(i % APPS, max(0, count - i))))
    gc.unfreeze()
    # The cycle follows the last step without a pause.
    steps[-1] += spent[0]
    times = np.array(spent[1:])
    windows = [times[i : i + WINDOW].mean() for i in range(0, len(times), WINDOW)]
    return Result(
        case, nodes, pods, count, 1 / times.mean(), 1 / min(windows), times.max() * 1e3,
        sum(steps) * 1e3, max(steps) * 1e3, victims,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000])
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--preemptions", type=int, default=500)
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    args = parser.parse_args()
    results = []
    print(
        f"{'case':28}{'nodes':>7}{'pods':>9}{'per s':>9}{'best':>9}{'worst ms':>10}{'cold ms':>9}"
        f"{'step ms':>9}{'victims':>9}"
    )
    for nodes in args.nodes:
        for case in args.case:
            found = measure(case, nodes, args.pods_per_node, args.preemptions, args.seed)
            results.append(found)
            print(
                f"{CASES[case][0]:28}{nodes:>7}{found.pods:>9}{found.per_second:>9,.0f}"
                f"{found.best_per_second:>9,.0f}{found.slowest_milliseconds:>10.1f}"
                f"{found.cold_milliseconds:>9.0f}{found.longest_step_milliseconds:>9.1f}"
                f"{found.victims:>9}",
                flush=True,
            )
    if args.json:
        with open(args.json, "w") as file:
            json.dump([asdict(r) for r in results], file, indent=2)


if __name__ == "__main__":
    main()
