"""Measure scheduling with resource policies: ungoverned, governed and rejected pods.

    python benchmarks/policies.py [--nodes 5000] [--placed 10000] [--case capped ...]
    python benchmarks/policies.py --profile capped     the time of one case, by function

The nodes are in three zones. A policy has a unit for each of two zones; most policies prefer them
to the third zone. ``--placed`` pods that the first policy governs are already on the nodes of its
first unit.

The cases are measured in turn, in CPU time (``in_turn.py``).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters import ZONE, a_cluster, assigned
from decisions import PODS, decide_all
from holdfast.api.pod import Pod
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_pod, a_resource_policy, typed
from in_turn import Result, measure_scenes
from kinds import web

PLACED, REJECTED = 10_000, 1000
"""Governed pods on the nodes, and pods that fit no node."""
MANY = 50
LARGE = {"cpu": "1000000", "memory": "1000000Gi"}
TIMEOUT = {"policy": "TimeoutOrExceedMax", "timeout": "60s"}
HASH = "pod-template-hash"
_made: dict[tuple[int, int], World] = {}


@dataclass(frozen=True)
class Case:
    """Pods of the first ``apps`` of the policies in turn; 0: pods that no policy governs."""

    words: str
    policies: int = 1
    apps: int = 1
    hashes: int = 1
    caps: tuple[int | None, ...] = (1_000_000, 1_000_000)
    """The caps of the units; -1: the pods that are already placed fill the unit."""
    elsewhere: bool = False
    """Whether each policy is in a separate namespace, without pods."""
    rejected: bool = False
    target: int | None = 8000
    """Attempts per second on 5,000 nodes, of governed pods."""
    spec: dict[str, Any] = field(default_factory=dict)


CASES = {
    "none": Case("beside no policies", 0, 0),
    "two": Case("beside 2 policies", 2, 0),
    "many": Case(f"beside {MANY} policies", MANY, 0),
    "elsewhere": Case(f"{MANY} policies in other namespaces", MANY, 0, elsewhere=True),
    "uncapped": Case("governed, units without caps", caps=(None, None)),
    "capped": Case("governed, units with caps"),
    "full": Case("governed, first unit full", caps=(-1, 1_000_000)),
    "keys": Case("governed, two revisions in turn", hashes=2, spec={"match_label_keys": [HASH]}),
    "policies": Case(f"governed, {MANY} policies in turn", MANY, MANY),
    "resources": Case("governed, caps on requests", spec={"units": {"maxResources": LARGE}}),
    "timeout": Case("governed, time-outs", spec={"when_try_next_units": TIMEOUT}),
    "preempt": Case(
        "governed, preemption before next unit",
        caps=(-1, 1_000_000),
        target=None,
        spec={"preempt_policy": "BeforeNextUnit"},
    ),
    "rejected": Case(
        "rejected, all units full", caps=(-1, 0), rejected=True, spec={"strategy": "required"}
    ),
}


def governed(count: int, *, apps: int = 1, hashes: int = 1) -> Iterator[Pod]:
    """Pods of some policies, and of some revisions, in turn."""
    for i in range(count):
        labels = {"app": f"governed{i % apps}", HASH: f"h{i % hashes}"}
        yield typed(a_pod(f"g{i}", cpu="100m", memory="128Mi", labels=labels))


def policy(i: int, case: Case, placed: int) -> Any:
    """A policy for pods labelled ``app: governedI``, with a unit for each of the first zones."""
    spec = {"strategy": "prefer", **case.spec}
    more = spec.pop("units", {})
    units = [
        {
            "name": f"z{zone}",
            "priority": 9 - zone,
            "maxCount": placed if cap == -1 else cap,
            "nodeSelector": {"matchLabels": {ZONE: f"z{zone}"}},
            **more,
        }
        for zone, cap in enumerate(case.caps)
    ]
    namespace, pods = f"other{i}" if case.elsewhere else "default", {"app": f"governed{i}"}
    return typed(
        a_resource_policy(f"policy{i}", namespace=namespace, pods=pods, units=units, **spec)
    )


def a_governed_cluster(nodes: int, placed: int) -> World:
    """Return a cluster with ``placed`` pods of the first policy on the nodes of its first unit."""
    key = (nodes, placed)
    if key not in _made:
        _made.clear()
        world = a_cluster(nodes)
        names = world.nodes.names[::3]
        for i, pod in enumerate(governed(placed)):
            world.upsert(assigned(pod, f"placed{i}", names[i % len(names)]))
        _made[key] = world
    return _made[key].fork()


def waiting(
    name: str, nodes: int, placed: int = PLACED, pods: int = PODS
) -> tuple[World, list[PodInfo]]:
    """Return a cluster with the policies of a case, and pods to schedule."""
    case, world = CASES[name], a_governed_cluster(nodes, placed)
    for i in range(case.policies):
        world.upsert(policy(i, case, placed))
    count = min(pods, REJECTED) if case.rejected else pods
    made = governed(count, apps=case.apps, hashes=case.hashes) if case.apps else web(count)
    return world, [world.pod_info(pod) for pod in made]


def measure(name: str, nodes: int, placed: int = PLACED, pods: int = PODS) -> float:
    """Return attempts per second of one case, measured by itself."""
    world, pod_infos = waiting(name, nodes, placed, pods)
    return (len(pod_infos) - 1) / decide_all(world, pod_infos)[0]


def measure_in_turn(
    names: Sequence[str], nodes: int, placed: int = PLACED, pods: int = PODS
) -> dict[str, Result]:
    """Measure cases in turn, one round of each."""
    scenes = {name: waiting(name, nodes, placed, pods) for name in names}
    return measure_scenes(scenes, [name for name in names if CASES[name].rejected])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--placed", type=int, default=PLACED)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--profile", choices=list(CASES), help="profile one case instead")
    args = parser.parse_args()
    if args.profile:
        profiler = cProfile.Profile()
        profiler.runcall(decide_all, *waiting(args.profile, args.nodes, args.placed, args.pods))
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(30)
        return
    print(f"{'pods':36}{'per s':>10}{'of the first':>14}")
    results = measure_in_turn(args.case, args.nodes, args.placed, args.pods)
    for name, found in results.items():
        print(f"{CASES[name].words:36}{found.per_second:>10,.0f}{found.of_first:>14.2f}")


if __name__ == "__main__":
    main()
