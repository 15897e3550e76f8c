"""Clusters to measure on: three node shapes in three zones, filled at random.

Building a cluster is slower than measuring on it, so each is built once and then forked.
"""

from __future__ import annotations

import msgspec
import numpy as np

from holdfast.api.pod import Pod
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, typed

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SHAPES = (("16", "64Gi"), ("32", "128Gi"), ("64", "256Gi"))
WORKLOADS = 100
MAX_PODS = 250
_made: dict[tuple[int, int, int], World] = {}


def a_cluster(nodes: int, placed: int = 0, seed: int = 1) -> World:
    """Return a fork of a cluster with one pod of random size per node and ``placed`` more pods."""
    key = (nodes, placed, seed)
    if key not in _made:
        _made.clear()
        _made[key] = _build(nodes, placed, seed)
    return _made[key].fork()


def _build(nodes: int, placed: int, seed: int) -> World:
    rng, world = np.random.default_rng(seed), World()
    for i in range(nodes):
        cpu, memory = SHAPES[i % 3]
        node = a_node(f"n{i}", cpu=cpu, memory=memory, pods=MAX_PODS, labels={ZONE: f"z{i % 3}"})
        world.upsert(typed(node))
    sizes = [
        typed(a_pod(cpu=f"{size * 100}m", memory=f"{size * 200}Mi", labels={"app": "old"}))
        for size in range(1, 40)
    ]
    for i, size in enumerate(rng.integers(0, len(sizes), nodes).tolist()):
        world.upsert(assigned(sizes[size], f"old{i}", f"n{i}"))
    if placed:
        workloads = [
            typed(a_pod(cpu="50m", memory="64Mi", labels={"app": f"placed{i}"}))
            for i in range(WORKLOADS)
        ]
        for i, row in enumerate(rng.integers(0, nodes, placed).tolist()):
            world.upsert(assigned(workloads[i % WORKLOADS], f"placed{i}", f"n{row}"))
    return world


def assigned(like: Pod, name: str, node: str) -> Pod:
    """Return a copy of a pod with another name, assigned to a node."""
    return msgspec.structs.replace(
        like,
        metadata=msgspec.structs.replace(like.metadata, name=name, uid=f"uid-{name}"),
        spec=msgspec.structs.replace(like.spec, node_name=node),
    )
