"""Devices, claims and pods that use them, for the benchmark on a real control plane.

The cases are those of ``devices.py``. ``writes`` are the requests that Holdfast sends for such a
pod before it binds the pod; the binder sends the same requests without a decision.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

import devices
from devices import CASES, RESOURCE, a_pod_of, a_result, an_allocation, cards_in_use
from holdfast.api.devices import CLAIM_FINALIZER, EXTENDED_CLAIM
from holdfast.api.pod import Pod
from holdfast.api.scheme import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.api.timestamps import rfc3339
from holdfast.client.client import Client
from holdfast.scheduling.framework.plugin import MERGE_PATCH
from holdfast.testing import a_claim, a_device_class

_PODS_A_CARD = {"counts": 1, "constraints": 0.5, "counters": 2, "capacity": 5, "resources": 1}
"""How many pods of a case get devices from one card."""
DEVICE_CASES = tuple(_PODS_A_CARD)
OLD_CLAIMS = 10_000
"""Claims that exist in addition to those of the pods; some of them are allocated."""
Write = tuple[str, str, bytes, str]
"""Method, path, body and content type of a request."""


def most_pods(case: str, nodes: int) -> int:
    """Return how many pods of a case get devices."""
    free = nodes * devices.CARDS - cards_in_use(OLD_CLAIMS, nodes)
    return int(free * _PODS_A_CARD[case])


async def create_classes(client: Client) -> None:
    await client.create(DEVICE_CLASSES, a_device_class("gpu", extendedResourceName=RESOURCE))


async def create_slices(client: Client, case: str, node: str) -> None:
    for raw in CASES[case].slices(node):
        await client.create(RESOURCE_SLICES, raw)


async def create_old_claim(client: Client, number: int, nodes: int) -> None:
    """Create a claim; if it is one of the first, allocate a card of a node for it."""
    name = f"old{number}"
    await client.create(RESOURCE_CLAIMS, a_claim(name), "default")
    if number < cards_in_use(OLD_CLAIMS, nodes):
        node = f"node-{(4 * number // devices.CARDS) % nodes:05}"
        status = {"allocation": an_allocation(node, a_result(node, number))}
        await client.patch(
            RESOURCE_CLAIMS, name, {"status": status}, "default", subresource="status"
        )


async def create_claim(client: Client, case: str, number: int) -> None:
    """Create the claim of a pod."""
    await client.create(RESOURCE_CLAIMS, a_claim(f"c{number}", **CASES[case].claim), "default")


def pods(case: str, count: int) -> Iterable[dict[str, Any]]:
    """Return pods that use a claim each, or an extended resource."""
    return (a_pod_of(CASES[case], number) for number in range(count))


def writes(case: str, pod: Pod, node: str, number: int) -> list[Write]:
    """Return the requests that Holdfast sends before the bind: claims, the status of the pod."""
    status, claims = PODS.path("default", pod.name, "status"), RESOURCE_CLAIMS.path("default")
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    results = [a_result(node, number + i) for i in range(CASES[case].claim.get("count", 1))]
    allocation = an_allocation(node, *results) | {"allocationTimestamp": rfc3339(time.time())}
    change = {"status": {"allocation": allocation, "reservedFor": [consumer]}}
    nominated: dict[str, Any] = {"nominatedNodeName": node}
    if CASES[case].resource:
        claim = f"{pod.name}-extended-resources"
        created = a_claim(claim, metadata=_of(pod) | {"finalizers": [CLAIM_FINALIZER]})
        container = pod.spec.containers[0].name
        mapping = {"containerName": container, "resourceName": RESOURCE, "requestName": "req-0"}
        named = {"resourceClaimName": claim, "requestMappings": [mapping]}
        return [
            ("POST", claims, msgspec.json.encode(created), "application/json"),
            _patch(f"{claims}/{claim}/status", change),
            _patch(status, {"status": {"extendedResourceClaimStatus": named} | nominated}),
        ]
    claim = f"c{pod.name[1:]}"
    return [
        _patch(status, {"status": nominated}),
        _patch(f"{claims}/{claim}", {"metadata": {"finalizers": [CLAIM_FINALIZER]}}),
        _patch(f"{claims}/{claim}/status", change),
    ]


def _of(pod: Pod) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    return {
        "annotations": {EXTENDED_CLAIM: "true"},
        "ownerReferences": [owner | {"controller": True}],
    }


def _patch(path: str, change: dict[str, Any]) -> Write:
    return "PATCH", path, msgspec.json.encode(change), MERGE_PATCH
