"""Kinds of pods to schedule, each with its target rate on 5,000 nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from clusters import HOST, ZONE
from holdfast.api.pod import Pod
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, a_replica_set, typed

Pods = Iterator[Pod]
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


@dataclass(frozen=True)
class Kind:
    """Kind of pods; ``target``: decisions per second on one core, with all 5,000 nodes
    evaluated."""

    words: str
    pods: Callable[[World, int], Pods]
    target: int = 8000


def web(count: int, **more: Any) -> Pods:
    for i in range(count):
        yield typed(a_pod(f"p{i}", cpu="100m", memory="128Mi", labels={"app": "web"}, **more))


def spread(*keys: str, hard: bool) -> list[dict[str, Any]]:
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, **WEB} for key in keys]


def affinity(**kinds: Any) -> dict[str, Any]:
    return {"affinity": kinds}


def required(key: str) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{**WEB, "topologyKey": key}]}


def preferred(key: str, weight: int) -> dict[str, Any]:
    term = {"weight": weight, "podAffinityTerm": {**WEB, "topologyKey": key}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


IN_TWO_ZONES = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0", "z1"]}]}
MUST_BE_THERE = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_TWO_ZONES]}
}
WOULD_BE_THERE = {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": IN_TWO_ZONES}]
}


def far(world: World, count: int) -> Pods:
    """One pod per node: more pods than nodes would measure rejections."""
    yield from web(min(count, world.nodes.node_count), **affinity(podAntiAffinity=required(HOST)))


def spread_both(world: World, count: int) -> Pods:
    """One pod per node: zones differ in size, so a second round would exceed the skew."""
    constraints = spread(ZONE, HOST, hard=True)
    yield from web(min(count, world.nodes.node_count), topology_spread_constraints=constraints)


def neighbours(_world: World, count: int) -> Pods:
    wishes = affinity(podAffinity=preferred(ZONE, 10), podAntiAffinity=preferred(HOST, 100))
    yield from web(count, **wishes)


def deployment(world: World, count: int) -> Pods:
    """Pods of a Deployment, which the default constraints spread over hosts and zones."""
    yield from _deployments(world, count, 1)


def deployments(world: World, count: int) -> Pods:
    yield from _deployments(world, count, 50)


def _deployments(world: World, count: int, many: int) -> Pods:
    for i in range(many):
        world.upsert(typed(a_replica_set(f"web{i}", labels={"app": f"web{i}"})))
    for i in range(count):
        name = f"web{i % many}"
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name,
                 "controller": True}  # fmt: skip
        metadata = {"ownerReferences": [owner]}
        yield typed(
            a_pod(f"p{i}", cpu="100m", memory="128Mi", labels={"app": name}, metadata=metadata)
        )


def classes(_world: World, count: int) -> Pods:
    for i in range(count):
        size = i % 50 + 1
        yield typed(a_pod(f"p{i}", cpu=f"{size * 10}m", memory=f"{size * 16}Mi"))


def stateful(_world: World, count: int) -> Pods:
    for i in range(count):
        labels = {"app": "web", "statefulset.kubernetes.io/pod-name": f"web-{i}"}
        yield typed(a_pod(f"web-{i}", cpu="100m", memory="128Mi", labels=labels))


def distinct(world: World, count: int) -> Pods:
    for i in range(min(count, 15 * world.nodes.node_count)):
        yield typed(a_pod(f"p{i}", cpu=f"{100 + i}m", memory=f"{(i % 977) + 64}Mi"))


def images(world: World, count: int) -> Pods:
    """Pods with an image that a third of the nodes have."""
    image = {"names": ["registry.k8s.io/pause:3.10"], "sizeBytes": 500 * 1024 * 1024}
    for name in world.nodes.names[::3]:
        node = world.nodes.nodes[world.nodes.row_of[name]]
        assert node is not None
        raw = a_node(name, labels=dict(node.metadata.labels))
        raw["status"] |= {"allocatable": dict(node.status.allocatable), "images": [image]}
        world.upsert(typed(raw))
    yield from web(count)


KINDS: dict[str, Kind] = {
    "basic": Kind("basic", lambda _w, n: web(n), 25_000),
    "node-affinity": Kind(
        "node affinity, required", lambda _w, n: web(n, **affinity(nodeAffinity=MUST_BE_THERE))
    ),
    "node-wish": Kind(
        "node affinity, preferred", lambda _w, n: web(n, **affinity(nodeAffinity=WOULD_BE_THERE))
    ),
    "near": Kind(
        "pod affinity, zone", lambda _w, n: web(n, **affinity(podAffinity=required(ZONE)))
    ),
    "far": Kind("pod anti-affinity, host", far),
    "neighbours": Kind("preferred (anti-)affinity", neighbours),
    "spread": Kind(
        "hard spread, zone",
        lambda _w, n: web(n, topology_spread_constraints=spread(ZONE, hard=True)),
    ),
    "spread-both": Kind("hard spread, zone and host", spread_both),
    "soft-spread": Kind(
        "soft spread, zone and host",
        lambda _w, n: web(n, topology_spread_constraints=spread(ZONE, HOST, hard=False)),
    ),
    "deployment": Kind("default spread, Deployment", deployment),
    "classes": Kind("50 classes in turn", classes),
    "deployments": Kind("50 Deployments in turn", deployments, 0),
    "stateful": Kind("StatefulSet, own labels", stateful, 10_000),
    "distinct": Kind("a request of its own each", distinct, 3000),
    "images": Kind("image on a third of the nodes", images),
}
