"""Requests for subresources."""

from __future__ import annotations

from typing import Any

from fuzz.bodies import as_json, write_body
from fuzz.mutation import mutate
from fuzz.odd_values import NAMES, REPLICAS
from fuzz.patches import write_patch
from fuzz.values import Values

Raw = dict[str, Any]


def _scale(values: Values, name: str) -> Raw:
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name},
            "spec": {"replicas": values.pick(REPLICAS)}}  # fmt: skip


def _binding(values: Values, name: str) -> Raw:
    target = {"apiVersion": "v1", "kind": "Node", "name": values.pick(("n1", "n2", *NAMES))}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def _eviction(values: Values, name: str) -> Raw:
    made: Raw = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if values.chance(0.4):
        made["deleteOptions"] = values.pick(({}, {"gracePeriodSeconds": 0}, {"dryRun": ["All"]}, 5))
    return made


def _token(values: Values, _name: str) -> Raw:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": values.pick(([], ["a"], 5))}}  # fmt: skip


_OWN = {"scale": _scale, "binding": _binding, "eviction": _eviction, "token": _token}


def write_part(values: Values, part: str, name: str, obj: Raw) -> tuple[str, str, bytes]:
    """Return (method, content type, body) of a request for a subresource."""
    if part in ("log", "exec", "attach", "portforward", "proxy") or values.chance(0.1):
        return values.pick(("GET", "GET", "POST")), "", b""
    if part in ("binding", "eviction", "token"):
        method = "POST" if values.chance(0.95) else "GET"
    else:
        method = values.pick(("PUT", "PUT", "PATCH", "PATCH", "GET", "POST"))
    body = _OWN[part](values, name) if part in _OWN else obj
    for _ in range(values.pick((0, 0, 0, 1, 2))):
        mutate(values, body)
    if method == "PATCH":
        return method, *write_patch(values, {}, body, custom=values.chance(0.5))
    if method == "GET":
        return method, "", b""
    media, raw = write_body(values, body)
    return method, media, raw or as_json(body)
