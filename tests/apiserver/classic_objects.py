"""Objects of classic DRA as JSON, for tests of the API server."""

from __future__ import annotations

from typing import Any

GROUP = "/apis/core.k8s.io/v1alpha1"
CLASSES = f"{GROUP}/resourceclasses"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
SCHEDULINGS = f"{GROUP}/namespaces/default/podschedulings"
PODS = "/api/v1/namespaces/default/pods"
STORY = {
    "resourceClassName": "acme-gpu",
    "parametersRef": {"apiGroup": "gpu.example.com", "kind": "GPURequirements", "name": "wanted"},
}
"""The template in the KEP's story: a spec without ``spec``."""
TYPED = {"name": "gpu", "claim": {"template": {"spec": STORY}}}


def claim(name: str = "c", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"resourceClassName": "gpu", **spec}}


def user(name: str = "p") -> dict[str, str]:
    return {"resource": "pods", "name": name, "uid": f"uid-of-{name}"}


def status(*users: str, shared: bool = False, **more: Any) -> dict[str, Any]:
    """Return the status of an allocated claim; ``more`` replaces parts of it."""
    found: dict[str, Any] = {
        "driverName": "gpu.example.com",
        "allocation": {"resourceHandle": "h", **({"sharedResource": True} if shared else {})},
    }
    if users:
        found["reservedFor"] = [user(name) for name in users]
    return found | more


def selector(*nodes: str) -> dict[str, Any]:
    """Return a selector with one term for each node."""
    return {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            for node in nodes
        ]
    }


def scheduling(name: str = "p", **spec: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": True}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}


def pod(*entries: dict[str, Any], uses: Any = (), name: str = "p") -> dict[str, Any]:
    """Return a pod with these entries of ``spec.resourceClaims``; ``uses`` are a container's."""
    container = {"name": "c", "image": "i", "resources": {"claims": list(uses)}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": list(entries)},
    }


def _wide(*nodes: str, **more: Any) -> dict[str, Any]:
    allocation = {"sharedResource": True, "availableOnNodes": selector(*nodes), **more}
    return status("p", "q", allocation=allocation)


_RELEASING = status(deallocationRequested=True)
_MANY = [f"p{i}" for i in range(33)]
_TOO_LONG = "ä" * 8192 + "h"
STATUS_CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "C004 32 users": ({}, status(*_MANY[:32], shared=True), set()),
    "C004 33 users": ({}, status(*_MANY, shared=True), {"status.reservedFor"}),
    "C005 two users": ({}, status("p", "q"), {"status.reservedFor"}),
    "C006 not allocated": ({}, {"reservedFor": [user()]}, {"status.reservedFor"}),
    "same user": ({}, status("p", "p", shared=True), {"status.reservedFor[1]"}),
    "no driver": ({}, status(driverName=""), {"status.driverName"}),
    "C007 16384 bytes": ({}, status(allocation={"resourceHandle": _TOO_LONG[:-1]}), set()),
    "C007 16385 bytes": (
        {},
        status(allocation={"resourceHandle": _TOO_LONG}),
        {"status.allocation.resourceHandle"},
    ),
    "C015 a user while releasing": (
        _RELEASING,
        status("p", deallocationRequested=True),
        {"status.reservedFor"},
    ),
    "C016 flag cleared": (_RELEASING, status(), {"status.deallocationRequested"}),
    "release while in use": (
        status("p"),
        status("p", deallocationRequested=True),
        {"status.reservedFor"},
    ),
    "release of nothing": (
        {},
        {"deallocationRequested": True},
        {"status.deallocationRequested"},
    ),
    "allocation lost, flag kept": (
        _RELEASING,
        {"deallocationRequested": True},
        {"status.deallocationRequested"},
    ),
    "released": (_RELEASING, {}, set()),
    "last user leaves and release": (status("p"), _RELEASING, set()),
    "C083 handle": (status("p"), status("p", allocation={"resourceHandle": "new"}), set()),
    "C083 more users": (status("p"), status("p", "q", shared=True), set()),
    "C083 more nodes": (_wide("n1"), _wide("n2", "n1"), set()),
    "C083 all nodes": (_wide("n1"), status("p", "q", shared=True), set()),
    "C083 fewer nodes": (
        _wide("n1", "n2"),
        _wide("n1"),
        {"status.allocation.availableOnNodes"},
    ),
    "C083 no longer all nodes": (
        status("p", "q", shared=True),
        _wide("n1"),
        {"status.allocation.availableOnNodes"},
    ),
    "C083 fewer nodes, but no user left": (
        _wide("n1", "n2"),
        {**_wide("n1"), "reservedFor": []},
        set(),
    ),
    "C083 no longer shared": (
        status("p", shared=True),
        status("p"),
        {"status.allocation.sharedResource"},
    ),
    "C083 other driver": (status("p"), status("p", driverName="d"), {"status.driverName"}),
    "C083 deallocated": (status("p"), {}, {"status.allocation"}),
    "C083 deallocated with its user": (
        status("p"),
        {"driverName": "gpu.example.com"},
        {"status.allocation"},
    ),
}
"""A stored status, one that is written after it, and the fields that are refused."""
