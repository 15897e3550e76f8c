"""Builders of the objects of classic DRA; see ``builders``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.api.classic_dra.types import classic_resources
from holdfast.api.decode import JsonObject
from holdfast.testing.builders import an_object, kept

DRIVER = "gpu.example.com"
_KINDS = classic_resources()


def a_classic_class(
    name: str = "gpu", driver: str = DRIVER, *, suitable: Mapping[str, Any] | None = None
) -> JsonObject:
    """A ResourceClass; ``suitable`` is a node selector."""
    raw = an_object(_KINDS.classes, name, {})
    return raw | kept(driverName=driver, suitableNodes=suitable)


def a_classic_claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    of_class: str = "gpu",
    immediate: bool = False,
    owner: JsonObject | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> JsonObject:
    """A delayed claim; ``owner`` is the pod that it was created for."""
    mode = "Immediate" if immediate else "WaitForFirstConsumer"
    spec = {"resourceClassName": of_class, "allocationMode": mode}
    more = dict(metadata or {})
    if owner is not None:
        more["ownerReferences"] = [owner_reference(owner)]
    raw = an_object(_KINDS.claims, name, spec, namespace=namespace, metadata=more)
    return raw | ({"status": dict(status)} if status else {})


def a_pod_scheduling(
    pod: JsonObject,
    *,
    selected: str = "",
    potential: Sequence[str] = (),
    **unsuitable: Sequence[str],
) -> JsonObject:
    """The PodScheduling of a pod, with the unsuitable nodes of its entries."""
    meta = pod["metadata"]
    spec = kept(selectedNode=selected or None, potentialNodes=list(potential))
    raw = an_object(
        _KINDS.pod_scheduling,
        meta["name"],
        spec,
        namespace=meta["namespace"],
        metadata={"ownerReferences": [owner_reference(pod)]},
    )
    claims = [
        {"podResourceClaimName": name, "unsuitableNodes": list(nodes)}
        for name, nodes in unsuitable.items()
    ]
    return raw | ({"status": {"claims": claims}} if claims else {})


def owner_reference(pod: JsonObject) -> JsonObject:
    """Return the reference to the pod that controls an object."""
    meta = pod["metadata"]
    uid = meta.get("uid") or f"uid-pod-{meta['namespace']}-{meta['name']}"
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": uid, "controller": True}


def named(entry: str, claim: str = "") -> JsonObject:
    """An entry of ``spec.resourceClaims`` that names a claim, by default named like the entry."""
    return {"name": entry, "claim": {"resourceClaimName": claim or entry}}


def inline(entry: str, of_class: str = "gpu", *, immediate: bool = False) -> JsonObject:
    """An entry of ``spec.resourceClaims`` with the template of a claim."""
    mode = "Immediate" if immediate else "WaitForFirstConsumer"
    spec = {"resourceClassName": of_class, "allocationMode": mode}
    return {"name": entry, "claim": {"template": {"spec": spec}}}


def an_allocation(
    *nodes: str, shared: bool = False, handle: str = "", consumers: Sequence[JsonObject] = ()
) -> JsonObject:
    """The status of an allocated claim, available on these nodes, or on all if none are named."""
    allocation = kept(
        resourceHandle=handle or None,
        availableOnNodes=on_nodes(*nodes) if nodes else None,
        sharedResource=shared or None,
    )
    status: JsonObject = {"driverName": DRIVER, "allocation": allocation}
    if consumers:
        status["reservedFor"] = [consumer(pod) for pod in consumers]
    return status


def consumer(pod: JsonObject) -> JsonObject:
    """Return the entry of a pod in ``reservedFor``."""
    reference = owner_reference(pod)
    return {"resource": "pods", "name": reference["name"], "uid": reference["uid"]}


def on_nodes(*names: str) -> JsonObject:
    """A node selector for these nodes, by name."""
    return {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in names
        ]
    }
