"""What is written to the API server for a pod's claims, and how it is taken back.

Every write carries the version it was decided on, so that somebody else's change in between is a
conflict: then the claim is read again, judged again and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from holdfast.api.decode import convert_object, json_values
from holdfast.api.devices import CLAIM_FINALIZER, Allocation, ResourceClaim
from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.api.timestamps import rfc3339
from holdfast.devices.claims import reserved_for
from holdfast.devices.extended import Breakdown
from holdfast.devices.failures import AllocationError
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.framework.plugin import ApiCall, ApiCalls
from holdfast.plugins.dynamic_resources.demand import ClaimDemand, Variant

MERGE = "application/merge-patch+json"
_MOST_TRIES = 5

Writes = Generator[ApiCall, Any, ResourceClaim]
Body = dict[str, Any]


def bind_claims(demand: ClaimDemand, variant: Variant) -> ApiCalls:
    """Write the allocations and reserve every claim for the pod; the special claim comes last."""
    promised = {claim.uid: claim for claim in demand.written.promises}
    for claim in demand.claims:
        if not reserved_for(claim, demand.pod.uid):
            yield from _bind_claim(demand, claim, _allocation(promised.get(claim.uid)))
            demand.inventory.claims.withdraw(claim.uid)
    if variant.special is not None:
        special = promised[variant.special.uid]
        yield from _bind_special(demand, special, variant.breakdown)


def undo(demand: ClaimDemand) -> ApiCalls:
    """Take back what was written; one failure does not keep the rest from being tried."""
    failures: list[HoldfastError] = []
    steps = [_look_again(demand, claim) for claim in _doubtful(demand)]
    steps += [_unreserve(demand, claim) for claim in demand.claims]
    if demand.written.pod_status:
        steps.append(_clear_pod_status(demand))
    if demand.written.special is not None:
        steps.append(_delete_special(demand, demand.written.special))
    for step in steps:
        try:
            yield from step
        except NotFound:
            continue
        except HoldfastError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def _doubtful(demand: ClaimDemand) -> list[ResourceClaim]:
    """Claims that may have been written although no answer said so."""
    promised = {claim.uid for claim in demand.written.promises}
    found = [claim for claim in demand.claims if claim.uid in promised]
    return found if demand.written.special is None else [*found, demand.written.special]


def _look_again(demand: ClaimDemand, claim: ResourceClaim) -> ApiCalls:
    """Know what a claim really holds before the promise that stands for it is withdrawn."""
    raw = yield ApiCall("get", _path(claim))
    demand.inventory.upsert(convert_object(raw, ResourceClaim))


def deallocation(claim: ResourceClaim) -> ApiCall:
    """Take a claim's devices away from it."""
    body = _guarded(claim, {"status": {"allocation": None, "reservedFor": None, "devices": None}})
    return ApiCall("patch", _path(claim, "status"), body, MERGE)


def deletion(claim: ResourceClaim) -> tuple[ApiCall, ...]:
    """Let a special claim go: no finalizer, then no claim."""
    without = [f for f in claim.metadata.finalizers if f != CLAIM_FINALIZER]
    calls = [ApiCall("delete", _path(claim))]
    if len(without) != len(claim.metadata.finalizers):
        body = _guarded(claim, {"metadata": {"finalizers": without}})
        calls.insert(0, ApiCall("patch", _path(claim), body, MERGE))
    return tuple(calls)


def _allocation(claim: ResourceClaim | None) -> Allocation | None:
    return None if claim is None else claim.status.allocation


def _bind_claim(demand: ClaimDemand, claim: ResourceClaim, allocation: Allocation | None) -> Writes:
    """Give the claim its allocation, if it has none yet, and reserve it for the pod."""
    known = demand.inventory.claims.get(claim.namespace, claim.name)
    current = known if known is not None and known.uid == claim.uid else claim

    def write(current: ResourceClaim) -> Writes:
        _check(current, claim.uid, allocation)
        if allocation is not None and CLAIM_FINALIZER not in current.metadata.finalizers:
            finalizers = [*current.metadata.finalizers, CLAIM_FINALIZER]
            current = yield from _patch(
                current, {"metadata": {"finalizers": finalizers}}, "", "add finalizer to claim"
            )
        what = "add reservation to claim"
        if allocation is not None:
            what = "add allocation and reservation to claim"
        status = _status(demand, current, allocation)
        return (yield from _patch(current, {"status": status}, "status", what))

    stored = yield from _until_no_conflict(current, write)
    demand.inventory.upsert(stored)
    return stored


def _check(current: ResourceClaim, uid: str, allocation: Allocation | None) -> None:
    """Refuse to write over what somebody else did meanwhile."""
    if current.metadata.deletion_timestamp is not None or current.uid != uid:
        raise AllocationError(f"claim {current.key} got deleted in the meantime")
    if allocation is not None and current.status.allocation is not None:
        raise AllocationError(f"claim {current.key} got allocated elsewhere in the meantime")
    if allocation is None and current.status.allocation is None:
        raise AllocationError(f"claim {current.key} got deallocated elsewhere in the meantime")


def _status(demand: ClaimDemand, current: ResourceClaim, allocation: Allocation | None) -> Body:
    pod = demand.pod
    consumers = [json_values(c) for c in current.status.reserved_for if c.uid != pod.uid]
    status: Body = {
        "reservedFor": [*consumers, {"resource": "pods", "name": pod.name, "uid": pod.uid}]
    }
    if allocation is not None:
        status["allocation"] = json_values(allocation) | {
            "allocationTimestamp": rfc3339(demand.now)
        }
    return status


def _bind_special(demand: ClaimDemand, special: ResourceClaim, breakdown: Breakdown) -> ApiCalls:
    """Make the special claim, give it its devices, and tell the pod which request is whose."""
    pod = demand.pod
    try:
        raw = yield ApiCall("create", RESOURCE_CLAIMS.path(pod.namespace), _creation(special))
    except HoldfastError as failure:
        raise AllocationError(
            f"create claim for extended resources {pod.namespace}/: {failure.message}"
        ) from failure
    created = convert_object(raw, ResourceClaim)
    demand.written.special = created
    demand.inventory.upsert(created)
    demand.written.special = yield from _bind_claim(demand, created, special.status.allocation)
    demand.inventory.claims.withdraw(special.uid)
    told = {
        "resourceClaimName": created.name,
        "requestMappings": [json_values(mapping) for mapping in breakdown.mappings],
    }
    yield from _tell_pod(demand, told)
    demand.written.pod_status = True


def _creation(special: ResourceClaim) -> Body:
    """The special claim as it is sent: the server gives it name and uid."""
    meta = json_values(special.metadata)
    requests = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": request.exactly.device_class_name,
                "allocationMode": request.exactly.allocation_mode,
                "count": request.exactly.count,
            },
        }
        for request in special.spec.devices.requests
        if request.exactly is not None
    ]
    return {
        "apiVersion": special.api_version,
        "kind": special.kind,
        "metadata": {k: v for k, v in meta.items() if k not in ("name", "uid")},
        "spec": {"devices": {"requests": requests}},
    }


def _tell_pod(demand: ClaimDemand, told: Body | None) -> ApiCalls:
    pod = demand.pod
    body = {
        "metadata": {"uid": pod.pod.uid},
        "status": {"extendedResourceClaimStatus": told},
    }
    try:
        yield ApiCall("patch", PODS.path(pod.namespace, pod.name, "status"), body, MERGE)
    except NotFound:
        raise
    except HoldfastError as failure:
        raise AllocationError(
            f"update pod {pod.key} ExtendedResourceClaimStatus: {failure.message}"
        ) from failure


def _clear_pod_status(demand: ClaimDemand) -> ApiCalls:
    yield from _tell_pod(demand, None)
    demand.written.pod_status = False


def _unreserve(demand: ClaimDemand, claim: ResourceClaim) -> ApiCalls:
    """Take the pod out of the claim's consumers; the allocation stays."""
    known = demand.inventory.claims.get(claim.namespace, claim.name)
    if known is None or not reserved_for(known, demand.pod.uid):
        return

    def write(current: ResourceClaim) -> Writes:
        kept = [json_values(c) for c in current.status.reserved_for if c.uid != demand.pod.uid]
        status: Body = {"status": {"reservedFor": kept or None}}
        return (yield from _patch(current, status, "status", "remove reservation from claim"))

    demand.inventory.upsert((yield from _until_no_conflict(known, write)))


def _delete_special(demand: ClaimDemand, special: ResourceClaim) -> ApiCalls:
    def write(current: ResourceClaim) -> Writes:
        without = [f for f in current.metadata.finalizers if f != CLAIM_FINALIZER]
        if len(without) == len(current.metadata.finalizers):
            return current
        change: Body = {"metadata": {"finalizers": without}}
        return (yield from _patch(current, change, "", "remove finalizer from claim"))

    known = demand.inventory.claims.get(special.namespace, special.name)
    newest = known if known is not None and known.uid == special.uid else special
    current = yield from _until_no_conflict(newest, write)
    raw = yield ApiCall("delete", _path(current))
    if (raw.get("metadata") or {}).get("deletionTimestamp"):
        # Somebody's finalizer keeps it, and with it its devices.
        demand.inventory.upsert(convert_object(raw, ResourceClaim))
    else:
        demand.inventory.delete(current)
    demand.written.special = None


def _until_no_conflict(current: ResourceClaim, write: Callable[[ResourceClaim], Writes]) -> Writes:
    for _ in range(_MOST_TRIES - 1):
        try:
            return (yield from write(current))
        except Conflict:
            raw = yield ApiCall("get", _path(current))
            current = convert_object(raw, ResourceClaim)
    return (yield from write(current))


def _patch(claim: ResourceClaim, change: Mapping[str, Any], part: str, what: str) -> Writes:
    """Change part of a claim, if it still is what we think it is."""
    try:
        raw = yield ApiCall("patch", _path(claim, part), _guarded(claim, change), MERGE)
    except (Conflict, NotFound):
        raise
    except HoldfastError as failure:
        raise AllocationError(f"{what} {claim.key}: {failure.message}") from failure
    return convert_object(raw, ResourceClaim)


def _guarded(claim: ResourceClaim, change: Mapping[str, Any]) -> Body:
    """Bind a change to the very version of the claim that was looked at."""
    meta = claim.metadata
    identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    guard = {key: value for key, value in identity.items() if value}
    return {**change, "metadata": {**change.get("metadata", {}), **guard}}


def _path(claim: ResourceClaim, part: str = "") -> str:
    return RESOURCE_CLAIMS.path(claim.namespace, claim.name, part)
