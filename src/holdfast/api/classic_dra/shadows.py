"""Shadows: structured claims that represent a pod's classic claims on a real cluster.

A kubelet calls drivers only for claims of ``resource.k8s.io``. The pod names such a claim for each
of its classic ones; the scheduler creates it and writes an allocation that refers to the classic
claim, so that the driver finds the handle there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.api.classic_dra.claims import ClassicEntry
from holdfast.api.classic_dra.names import OWN_GROUP, POD_CLAIMS, VERSION
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.devices import ResourceClaim
from holdfast.api.json_fields import map_at, text_at
from holdfast.api.meta import owner_reference
from holdfast.api.pod import Pod

CLASSIC_CLAIM = f"{OWN_GROUP}/classic-claim"
"""Annotation of a shadow with the name of the classic claim; it is only for display."""
SHADOW_CLASS = f"classic.{OWN_GROUP}"
"""Device class in the one request of a shadow; it need not exist: nothing searches devices."""
SHADOW_REQUEST = "classic"
SHADOW_POOL = f"{OWN_GROUP}/classic"
"""Pool of the device in a shadow's allocation; no driver publishes a pool of this name."""
_REFERENCE = {"apiVersion": f"{OWN_GROUP}/{VERSION}", "kind": "ClassicClaimReference"}


@dataclass(frozen=True, slots=True)
class ClassicReference:
    """The classic claim of a shadow, in the shadow's namespace."""

    name: str
    uid: str


def shadow_names(pod: Pod) -> dict[str, str]:
    """Return the names of a pod's shadows, by name of the classic entry.

    Only the annotation has shadows; the KEP's own fields need none.
    """
    if POD_CLAIMS not in pod.metadata.annotations:
        return {}
    structured = {entry.name for entry in pod.structured_claims}
    return {
        entry.name: entry.resource_claim_name
        for entry in pod.spec.resource_claims
        if entry.name not in structured and entry.resource_claim_name is not None
    }


def missing_shadow(pod: Pod, entries: Iterable[ClassicEntry]) -> str:
    """Return why a kubelet would start a pod without its classic claims, or ""."""
    names = shadow_names(pod)
    missing = [entry.name for entry in entries if entry.name not in names]
    if not missing:
        return ""
    return (
        f"spec.resourceClaims has no entry for the classic claim {missing[0]!r}: use the webhook "
        "of Holdfast, or `holdfast convert`"
    )


def shadow_of(pod: Pod, entry: ClassicEntry, name: str) -> dict[str, Any]:
    """Return the body of a new shadow, which is deleted with its pod."""
    request = {"name": SHADOW_REQUEST, "exactly": {"deviceClassName": SHADOW_CLASS}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "annotations": {CLASSIC_CLAIM: entry.claim_name},
            "ownerReferences": [owner_reference("v1", "Pod", pod)],
        },
        "spec": {"devices": {"requests": [request]}},
    }


def shadow_allocation(shadow_uid: str, claim: ClassicClaim) -> dict[str, Any]:
    """Return the allocation of a shadow: one device of the driver, and the classic claim.

    It has no node selector, so that it stays valid if the pod is bound to another node. The
    reference is in the status, which users cannot write. It is written as configuration of a class,
    because configuration of a claim is copied from its spec.
    """
    driver = claim.status.driver_name
    parameters = {**_REFERENCE, "name": claim.name, "uid": claim.uid}
    device = {"request": SHADOW_REQUEST, "driver": driver, "pool": SHADOW_POOL}
    opaque = {"driver": driver, "parameters": parameters}
    return {
        "devices": {
            "results": [{**device, "device": f"claim-{shadow_uid}"}],
            "config": [{"source": "FromClass", "opaque": opaque}],
        }
    }


def classic_reference(claim: ResourceClaim, driver: str) -> ClassicReference | None:
    """Return the classic claim of a structured claim; None if that is not a shadow."""
    allocation = claim.status.allocation
    if allocation is None or {each.pool for each in claim.results} != {SHADOW_POOL}:
        return None
    for config in allocation.devices.config:
        opaque = map_at(config, "opaque")
        parameters = map_at(opaque, "parameters")
        known = all(parameters.get(key) == value for key, value in _REFERENCE.items())
        if known and opaque.get("driver") == driver and config.get("source") == "FromClass":
            return ClassicReference(text_at(parameters, "name"), text_at(parameters, "uid"))
    return None
