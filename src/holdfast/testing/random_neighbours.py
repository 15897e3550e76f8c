"""Random affinity terms, namespaces, workloads and images."""

from __future__ import annotations

from random import Random
from typing import Any

from holdfast.api.workloads import Namespace, ReplicaSet, Service
from holdfast.testing.builders import a_namespace, a_replica_set, typed

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMESPACES = ("default", "default", "default", "other")
IMAGES = (("registry.k8s.io/pause:3.10", 300 << 20), ("example.com/big:1", 900 << 20))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def some_pod_affinity(random: Random) -> dict[str, Any]:
    """Return random pod affinity and anti-affinity, required and preferred."""
    made: dict[str, Any] = {}
    for side in ("podAffinity", "podAntiAffinity"):
        one: dict[str, Any] = {}
        if random.random() < 0.35:
            one[_REQUIRED] = [_term(random) for _ in range(random.choice([1, 1, 2]))]
        if random.random() < 0.5:
            one[_PREFERRED] = [
                {"weight": random.choice([1, 20, 57]), "podAffinityTerm": _term(random)}
                for _ in range(random.choice([1, 2]))
            ]
        if one:
            made[side] = one
    return made


def _term(random: Random) -> dict[str, Any]:
    selector = random.choice(
        [
            {"matchLabels": {"app": random.choice("abc")}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
            {},
            None,
        ]
    )
    term: dict[str, Any] = {"topologyKey": random.choice([ZONE, HOST, "size"])}
    if selector is not None:
        term["labelSelector"] = selector
    chance = random.random()
    if chance < 0.15:
        term["namespaces"] = ["other"]
    elif chance < 0.3:
        term["namespaceSelector"] = {"matchLabels": {"team": random.choice("xy")}}
    elif chance < 0.4:
        term["namespaceSelector"] = {}
    return term


def some_namespace(random: Random) -> Namespace:
    """Return a namespace with a random team label."""
    name, team = random.choice(NAMESPACES), random.choice("xy")
    made: Namespace = typed(a_namespace(name, labels={"team": team}))
    return made


def some_workload(random: Random) -> Service | ReplicaSet:
    """Return a Service or a ReplicaSet that selects some pods."""
    app, namespace = random.choice("abc"), random.choice(NAMESPACES)
    if random.random() < 0.5:
        made: ReplicaSet = typed(a_replica_set(app, namespace=namespace))
        return made
    spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
    meta = {"name": f"svc-{app}", "namespace": namespace, "uid": f"svc-{namespace}-{app}"}
    service: Service = typed(
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    )
    return service


def some_owner(random: Random) -> list[dict[str, Any]]:
    """Return an owner reference to a ReplicaSet, which may not exist."""
    name = random.choice("abc")
    return [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"rs-{name}",
         "controller": True}
    ]  # fmt: skip


def some_images(random: Random) -> list[dict[str, Any]]:
    """Return images of a node; the size depends on the name only."""
    return [{"names": [name], "sizeBytes": size} for name, size in IMAGES if random.random() < 0.4]
