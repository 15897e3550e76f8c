"""Measure scheduling with resource policies: pods that none governs, governed and rejected pods.

    python benchmarks/policies.py [--nodes 5000] [--placed 10000] [--repeat 5]
    python benchmarks/policies.py --profile capped     where the time of one case goes

The nodes are in three zones. A policy has a unit for each of two zones and prefers them to the
third. ``--placed`` pods that the first policy governs are on the nodes of its first unit already.
Rates are per second of CPU time of this process, the best of ``--repeat`` runs; the cases are
measured in turn, so that the ratio to the first one is of runs next to each other.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clusters import ZONE, a_cluster, assigned
from decisions import PODS, decide_all
from holdfast.api.pod import Pod
from holdfast.framework.world import World
from holdfast.testing import a_pod, a_resource_policy, typed
from kinds import web

PLACED, WAITING = 10_000, 1000
"""Governed pods on the nodes, and governed pods that fit no node."""
MANY = 50
HASH = "pod-template-hash"
_made: dict[tuple[int, int], World] = {}


def governed(count: int, *, apps: int = 1, hashes: int = 1) -> Iterator[Pod]:
    """Pods of the first policies, and of several revisions, in turn."""
    for i in range(count):
        labels = {"app": f"governed{i % apps}", HASH: f"h{i % hashes}"}
        yield typed(a_pod(f"g{i}", cpu="100m", memory="128Mi", labels=labels))


def policy(i: int, caps: tuple[int | None, ...], namespace: str = "default", **spec: Any) -> Any:
    """A policy for pods labelled ``app: governedI``, with a unit for each of the first zones."""
    units = [
        {"name": f"z{zone}", "priority": 9 - zone, "maxCount": cap,
         "nodeSelector": {"matchLabels": {ZONE: f"z{zone}"}}}
        for zone, cap in enumerate(caps)
    ]  # fmt: skip
    spec = {"strategy": "prefer", **spec}
    pods = {"app": f"governed{i}"}
    return typed(
        a_resource_policy(f"policy{i}", namespace=namespace, pods=pods, units=units, **spec)
    )


@dataclass(frozen=True)
class Case:
    """Governed pods of ``apps`` policies whose units have these caps."""

    words: str
    caps: tuple[int | None, ...] = (1_000_000, 1_000_000)
    apps: int = 1
    hashes: int = 1
    full: bool = False
    """Whether the pods that are placed already fill the first unit."""
    spec: dict[str, Any] = field(default_factory=dict)


CASES = {
    "uncapped": Case("governed, units without caps", (None, None)),
    "capped": Case("governed, units with caps"),
    "keys": Case("governed, two revisions in turn", hashes=2, spec={"match_label_keys": [HASH]}),
    "full": Case("governed, first unit full", full=True),
    "policies": Case("governed, 50 policies in turn", apps=MANY),
    "rejected": Case("rejected, all units full", (1, 0), full=True, spec={"strategy": "required"}),
}
OTHERS = (
    ("beside no policies", 0, "default"),
    ("beside 2 policies", 2, "default"),
    ("beside 50 policies", MANY, "default"),
    ("50 policies in other namespaces", MANY, ""),
)
"""Pods that no policy governs: the number of policies, and their namespace ("": one each)."""


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


def of_others(
    nodes: int,
    policies: int = 0,
    namespace: str = "default",
    placed: int = PLACED,
    pods: int = PODS,
) -> float:
    """Return decisions a second for pods that no policy governs, in the namespace ``default``."""
    world = a_governed_cluster(nodes, placed)
    for i in range(policies):
        world.upsert(policy(i, (1_000_000, 1_000_000), namespace or f"other{i}"))
    pod_infos = [world.pod_info(pod) for pod in web(pods)]
    return (pods - 1) / decide_all(world, pod_infos)[0]


def waiting(name: str, nodes: int, placed: int, pods: int) -> tuple[World, list[Any]]:
    """Return a cluster with the policies of a case, and pods to schedule."""
    case, world = CASES[name], a_governed_cluster(nodes, placed)
    pods = min(pods, WAITING) if name == "rejected" else pods
    caps = (placed, *case.caps[1:]) if case.full else case.caps
    for i in range(case.apps):
        world.upsert(policy(i, caps, **case.spec))
    made = governed(pods, apps=case.apps, hashes=case.hashes)
    return world, [world.pod_info(pod) for pod in made]


def of_governed(name: str, nodes: int, placed: int = PLACED, pods: int = PODS) -> float:
    """Return attempts a second for governed pods."""
    world, pod_infos = waiting(name, nodes, placed, pods)
    cpu, _, rejected = decide_all(world, pod_infos)
    assert rejected == (len(pod_infos) - 1 if name == "rejected" else 0), rejected
    return (len(pod_infos) - 1) / cpu


def measures(nodes: int, placed: int = PLACED, pods: int = PODS) -> dict[str, Callable[[], float]]:
    """Return every case; the first is pods that no policy governs, without policies."""
    found: dict[str, Callable[[], float]] = {
        words: partial(of_others, nodes, count, namespace, placed, pods)
        for words, count, namespace in OTHERS
    }
    for name, case in CASES.items():
        found[case.words] = partial(of_governed, name, nodes, placed, pods)
    return found


def best(cases: dict[str, Callable[[], float]], repeat: int) -> dict[str, float]:
    """Return the best rate of each case, measured in turn: other load only makes a run slower."""
    rates: dict[str, float] = dict.fromkeys(cases, 0.0)
    for _ in range(repeat):
        for words, measure in cases.items():
            rates[words] = max(rates[words], measure())
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--placed", type=int, default=PLACED)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--repeat", type=int, default=5, help="keep the best of N runs")
    parser.add_argument("--profile", choices=list(CASES), help="profile one case instead")
    args = parser.parse_args()
    if args.profile:
        profiler = cProfile.Profile()
        profiler.runcall(decide_all, *waiting(args.profile, args.nodes, args.placed, args.pods))
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(30)
        return
    rates = best(measures(args.nodes, args.placed, args.pods), args.repeat)
    first = next(iter(rates.values()))
    print(f"{'pods':36}{'per s':>10}{'of the first':>14}")
    for words, rate in rates.items():
        print(f"{words:36}{rate:>10,.0f}{rate / first:>14.2f}")


if __name__ == "__main__":
    main()
