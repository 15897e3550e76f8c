"""How many decisions a second, in process: feasible, rank and assume, every node evaluated.

    python benchmarks/decisions.py [--nodes 100 5000] [--pods 5000] [--case equal ...] [--json FILE]

Nothing is written anywhere; each case fills a fresh cluster of three node shapes in three zones
with a random preload. Two rates are shown: by the wall clock, and by the CPU time of this process,
which is the one to compare on a machine that does other things too. Making the pods' facts (once
per pod, when it is first seen) is not part of a decision and is shown apart.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from holdfast.api.pod import Pod
from holdfast.framework.plugin import Placement
from holdfast.framework.runner import decide
from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.testing import a_node, a_pod, a_replica_set, a_reservation, typed

ZONE = "topology.kubernetes.io/zone"
SHAPES = (("16", "64Gi"), ("32", "128Gi"), ("64", "256Gi"))
CONSTRAINT = {
    "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}  # fmt: skip
WISH = {
    "weight": 10,
    "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]},
}
AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [WISH]}}


def a_cluster(count: int, seed: int) -> World:
    rng = np.random.default_rng(seed)
    world = World()
    for i in range(count):
        cpu, memory = SHAPES[i % 3]
        labels = {ZONE: f"z{i % 3}"}
        world.upsert(typed(a_node(f"n{i}", cpu=cpu, memory=memory, labels=labels)))
    for i in range(count):
        amount = int(rng.integers(1, 40))
        pod = a_pod(f"old{i}", cpu=f"{amount * 100}m", memory=f"{amount * 200}Mi", node=f"n{i}")
        world.upsert(typed(pod))
    return world


def equal(world: World, count: int) -> Iterator[Pod]:
    del world
    for i in range(count):
        yield typed(a_pod(f"p{i}", cpu="100m", memory="128Mi", labels={"app": "web"}))


def classes(world: World, count: int) -> Iterator[Pod]:
    del world
    for i in range(count):
        size = i % 50 + 1
        yield typed(a_pod(f"p{i}", cpu=f"{size * 10}m", memory=f"{size * 16}Mi"))


def distinct_labels(world: World, count: int) -> Iterator[Pod]:
    del world
    for i in range(count):
        labels = {"app": "web", "statefulset.kubernetes.io/pod-name": f"web-{i}"}
        yield typed(a_pod(f"web-{i}", cpu="100m", memory="128Mi", labels=labels))


def distinct_requests(world: World, count: int) -> Iterator[Pod]:
    del world
    for i in range(count):
        yield typed(a_pod(f"p{i}", cpu=f"{100 + i}m", memory=f"{(i % 977) + 64}Mi"))


def spread(world: World, count: int) -> Iterator[Pod]:
    del world
    more = {"topology_spread_constraints": [CONSTRAINT], "labels": {"app": "web"}}
    for i in range(count):
        yield typed(a_pod(f"p{i}", cpu="100m", memory="128Mi", **more))


def preferred(world: World, count: int) -> Iterator[Pod]:
    del world
    for i in range(count):
        yield typed(a_pod(f"p{i}", cpu="100m", memory="128Mi", affinity=AFFINITY))


HOST = "kubernetes.io/hostname"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
FAR = {"requiredDuringSchedulingIgnoredDuringExecution": [{**WEB, "topologyKey": HOST}]}
NEAR = {"requiredDuringSchedulingIgnoredDuringExecution": [{**WEB, "topologyKey": ZONE}]}
NEIGHBOURS = {
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "podAffinityTerm": {**WEB, "topologyKey": ZONE}}
        ]
    },
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": {**WEB, "topologyKey": HOST}}
        ]
    },
}


def _web_pods(count: int, **more: object) -> Iterator[Pod]:
    for i in range(count):
        yield typed(a_pod(f"p{i}", cpu="100m", memory="128Mi", labels={"app": "web"}, **more))


def far(world: World, count: int) -> Iterator[Pod]:
    yield from _web_pods(min(count, world.nodes.node_count), affinity={"podAntiAffinity": FAR})


def near(world: World, count: int) -> Iterator[Pod]:
    del world
    yield from _web_pods(count, affinity={"podAffinity": NEAR})


def neighbours(world: World, count: int) -> Iterator[Pod]:
    del world
    yield from _web_pods(count, affinity=NEIGHBOURS)


def deployment(world: World, count: int) -> Iterator[Pod]:
    """What a Deployment's pods cost: the system spreads them by host and zone."""
    world.upsert(typed(a_replica_set("web", labels={"app": "web"})))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
             "controller": True}  # fmt: skip
    yield from _web_pods(count, metadata={"ownerReferences": [owner]})


def images(world: World, count: int) -> Iterator[Pod]:
    image = {"names": ["registry.k8s.io/pause:3.10"], "sizeBytes": 500 * 1024 * 1024}
    for name in world.nodes.names[::3]:
        node = world.nodes.nodes[world.nodes.row_of[name]]
        raw = a_node(name, labels=dict(node.metadata.labels))
        raw["status"] |= {"allocatable": dict(node.status.allocatable), "images": [image]}
        world.upsert(typed(raw))
    yield from _web_pods(count)


def _offers(world: World, how_many: int = 1000) -> None:
    names = world.nodes.names
    for i in range(how_many):
        status = {
            "phase": "Available", "nodeName": names[i % len(names)],
            "allocatable": {"cpu": "500m", "memory": "512Mi"},
        }  # fmt: skip
        raw = a_reservation(
            f"r{i}", cpu="500m", memory="512Mi", owner_labels={"app": "owner"}, status=status,
            allocate_once=False, metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
        )  # fmt: skip
        world.upsert(typed(raw))


def strangers(world: World, count: int) -> Iterator[Pod]:
    _offers(world)
    yield from equal(world, count)


def owners(world: World, count: int) -> Iterator[Pod]:
    _offers(world)
    for i in range(count):
        yield typed(a_pod(f"p{i}", cpu="100m", memory="64Mi", labels={"app": "owner"}))


CASES: dict[str, tuple[str, Callable[[World, int], Iterator[Pod]]]] = {
    "equal": ("equal pods", equal),
    "classes": ("50 classes in turn", classes),
    "labels": ("a label of its own each", distinct_labels),
    "requests": ("a request of its own each", distinct_requests),
    "preferred": ("preferred node affinity", preferred),
    "spread": ("hard spread over zones", spread),
    "far": ("required anti-affinity, host", far),
    "near": ("required affinity, zone", near),
    "neighbours": ("preferred affinity, host + zone", neighbours),
    "deployment": ("soft spread, system default", deployment),
    "images": ("image on a third of the nodes", images),
    "strangers": ("1,000 offers, pods own none", strangers),
    "owners": ("1,000 offers, pods own them", owners),
}


@dataclass(frozen=True)
class Result:
    case: str
    nodes: int
    pods: int
    per_wall_second: float
    per_cpu_second: float
    facts_microseconds: float
    rejected: int


def measure(case: str, nodes: int, pods: int, seed: int) -> Result:
    world = a_cluster(nodes, seed)
    profile = default_profiles()["default-scheduler"]
    rng = np.random.default_rng(seed)
    waiting = list(CASES[case][1](world, pods))
    begun = time.process_time()
    facts = [world.facts(pod) for pod in waiting]
    digesting = (time.process_time() - begun) / max(1, len(facts))
    decide(profile, facts[0], world, 0.0, rng)
    gc.collect()
    gc.freeze()
    rejected = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for pod in facts:
        found = decide(profile, pod, world, 0.0, rng)
        if isinstance(found, Placement):
            world.assume(found.pod, found.row)
            for plugin in profile.plugins:
                if plugin.name in found.states and hasattr(plugin, "reserve"):
                    plugin.reserve(found.states[plugin.name], found)
        else:
            rejected += 1
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    gc.unfreeze()
    return Result(
        case, nodes, len(facts), len(facts) / wall, len(facts) / cpu, digesting * 1e6, rejected
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 5000])
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1, help="keep the best of so many runs")
    parser.add_argument("--json", metavar="FILE", help="also write the results there")
    args = parser.parse_args()
    results = []
    print(f"{'case':32}{'nodes':>7}{'wall/s':>10}{'cpu/s':>10}{'facts µs':>10}{'rejected':>10}")
    for nodes in args.nodes:
        # A small cluster fills up; then the rest of the run would measure rejections.
        pods = min(args.pods, nodes * 100)
        for case in args.case:
            runs = [measure(case, nodes, pods, args.seed + i) for i in range(args.repeat)]
            best = max(runs, key=lambda r: r.per_cpu_second)
            results.append(best)
            print(
                f"{CASES[case][0]:32}{nodes:>7}{best.per_wall_second:>10,.0f}"
                f"{best.per_cpu_second:>10,.0f}{best.facts_microseconds:>10.1f}"
                f"{best.rejected:>10}",
                flush=True,
            )
    if args.json:
        with open(args.json, "w") as file:
            json.dump([asdict(r) for r in results], file, indent=2)


if __name__ == "__main__":
    main()
