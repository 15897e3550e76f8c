"""Builders of the objects of classic DRA."""

from __future__ import annotations

from holdfast.api.classic import ClassicClaim, classic_resources
from holdfast.api.decode import convert_object
from holdfast.testing import a_pod

CLASSIC = classic_resources()
GPU_CLASS = {
    "apiVersion": CLASSIC.classes.api_version,
    "kind": "ResourceClass",
    "metadata": {"name": "gpu.example.com"},
    "driverName": "gpu.example.com",
}


def inline(name="gpu", *, metadata=None, **spec):
    """An entry with a template."""
    template = {"spec": {"resourceClassName": "gpu.example.com", **spec}}
    return {"name": name, "claim": {"template": template | ({"metadata": metadata or {}})}}


def named(claim, name="gpu"):
    return {"name": name, "claim": {"resourceClaimName": claim}}


def a_user(name="p", *entries, **pod):
    """A pod with classic entries, by default one with a template."""
    return a_pod(name, claims=entries or (inline(),), **pod)


def a_classic_claim(name="c", *, namespace="default", status=None, mode=None, **metadata):
    spec = {"resourceClassName": "gpu.example.com"} | ({"allocationMode": mode} if mode else {})
    raw = {
        "apiVersion": CLASSIC.claims.api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }
    return raw | ({"status": status} if status else {})


def typed_claim(raw, **metadata):
    stored = {"uid": f"uid-{raw['metadata']['name']}", "resourceVersion": "1"}
    return convert_object(
        {**raw, "metadata": {**stored, **raw["metadata"], **metadata}}, ClassicClaim
    )


def consumer(pod):
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def owner(pod, **more):
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    return reference | {"controller": True} | more


def allocated(*pods, shared=None, others=()):
    """The status that a driver writes."""
    shared = len(pods) + len(others) > 1 if shared is None else shared
    return {
        "driverName": "gpu.example.com",
        "allocation": {"resourceHandle": "h", "sharedResource": shared},
        "reservedFor": [*map(consumer, pods), *others],
    }
