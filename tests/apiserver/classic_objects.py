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
