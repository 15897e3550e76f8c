"""Writes to the API server for a pod's claims, and how they are undone.

Every write carries the resource version that was read, so that a concurrent change is a conflict:
then the claim is read, checked and written again.

Pods may share a claim. When they wrote ``status.reservedFor`` at the same time, each with the
version that it had read, 120 pods took 20 s with 18 failed attempts and 250 pods 64 s. So writes to
one claim take turns (the call ``turn``), and the pod whose turn it is writes the reservations of
all pods that wait: 250 pods take 5 s.

A write may be stored although its response is an error. Undoing therefore reads the claims first: a
claim whose response was lost kept its devices at the server while the ledger gave them to others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.api.decode import JsonObject, convert_object
from holdfast.api.devices import CLAIM_FINALIZER, MAX_CONSUMERS, Allocation, ResourceClaim
from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.api.timestamps import rfc3339
from holdfast.runtime.errors import Conflict, Forbidden, HoldfastError, NotFound
from holdfast.scheduling.framework.plugin import END_TURN, MERGE_PATCH, ApiCall, ApiCalls
from holdfast.scheduling.plugins.dynamic_resources.device_search import UnallocatedClaims
from holdfast.state.columns.consumers_in_flight import too_many_consumers
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.allocated_devices import device_id
from holdfast.state.devices.claims import has_room_for, is_reserved_for
from holdfast.state.devices.errors import AllocationError, NotBindable
from holdfast.state.devices.inventory import Inventory

_MAX_ATTEMPTS = 5
CREATIONS = "scheduler_resourceclaim_creates_total"

Writes = Generator[ApiCall, Any, ResourceClaim]


@dataclass(slots=True, eq=False)
class ClaimWrites:
    """The writes of one attempt to bind a pod, and its allocations in flight.

    ``claims`` are those of the pod's spec; ``unallocated`` are to be allocated on the chosen node,
    whatever the node has later.
    """

    pod: PodInfo
    inventory: Inventory
    claims: tuple[ResourceClaim, ...]
    unallocated: UnallocatedClaims
    now: float
    in_flight: list[ResourceClaim] = field(default_factory=list)
    extended_claim: ResourceClaim | None = None
    """The one that was created."""
    pod_status_before: JsonObject | None = None
    """The patch that restores the pod's status."""

    def bind_claims(self, node: str) -> ApiCalls:
        """Write the allocations and reserve every claim for the pod, the extended one last."""
        allocated = {claim.uid: claim for claim in self.in_flight}
        for claim in self.claims:
            if not is_reserved_for(claim, self.pod.uid):
                mine = allocated.get(claim.uid)
                allocation = None if mine is None else mine.status.allocation
                yield from self._bind_claim(claim, allocation)
                self.inventory.claims.remove_in_flight(claim.uid)
        extended = self.unallocated.extended_claim
        if extended is not None:
            yield from self._create_extended_claim(allocated[extended.uid], node)

    def reserved_claims(self) -> list[ResourceClaim]:
        """Return the claims in their newest versions, with the extended claim of this attempt."""
        known = [self.inventory.claims.get(c.namespace, c.name) or c for c in self.claims]
        return known if self.extended_claim is None else [*known, self.extended_claim]

    def undo(self, *, pod_is_deleted: bool = False) -> ApiCalls:
        """Undo the completed writes; after an error the others are still undone.

        Claims stay reserved for a deleted pod: the controller that removes such a reservation also
        deallocates the claim, which would otherwise keep its devices without a user.
        """
        for claim in self.claims:
            # No other pod writes the reservations for this one again.
            self.inventory.claims.consumers_in_flight.remove(claim.uid, self.pod.uid)
        failures: list[HoldfastError] = []
        steps = [self._read_stored(claim) for claim in self._possibly_written()]
        if not pod_is_deleted:
            steps += [self._unreserve(claim) for claim in self.claims]
        if self.pod_status_before is not None:
            steps.append(self._restore_pod_status(self.pod_status_before))
        if self.extended_claim is not None:
            steps.append(self._delete_extended_claim(self.extended_claim))
        for step in steps:
            try:
                yield from step
            except NotFound:
                continue
            except HoldfastError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def _possibly_written(self) -> list[ResourceClaim]:
        """Return claims whose write may be stored although it returned an error."""
        allocated = {claim.uid for claim in self.in_flight}
        claims = [claim for claim in self.claims if claim.uid in allocated]
        return claims if self.extended_claim is None else [*claims, self.extended_claim]

    def _read_stored(self, claim: ResourceClaim) -> ApiCalls:
        """Read the stored claim: its devices must be known when its allocation in flight ends."""
        stored: ResourceClaim = yield _read(claim)
        self.inventory.upsert(stored)

    def _bind_claim(self, claim: ResourceClaim, allocation: Allocation | None) -> Writes:
        """Write the claim's allocation, if it has none yet, and reserve it for the pod."""
        pod, claims = self.pod.pod, self.inventory.claims
        claims.consumers_in_flight.join(claim.uid, pod, _devices(claim))
        yield ApiCall("turn", _path(claim))
        stored = yield from self._write_binding(claim, allocation)
        claims.consumers_in_flight.remove(claim.uid, pod.uid)
        yield END_TURN
        return stored

    def _write_binding(self, claim: ResourceClaim, allocation: Allocation | None) -> Writes:
        """Write it in this pod's turn, unless another pod has reserved the claim for it already."""

        def write(current: ResourceClaim) -> Writes:
            _check(current, claim, allocation)
            if allocation is None and is_reserved_for(current, self.pod.uid):
                return current
            if not has_room_for(current, self.pod.uid):
                raise NotBindable(too_many_consumers(current.key, MAX_CONSUMERS))
            self._check_devices(current, allocation)
            if allocation is not None and CLAIM_FINALIZER not in current.metadata.finalizers:
                finalizers = [*current.metadata.finalizers, CLAIM_FINALIZER]
                current = yield from _patch(
                    current, {"metadata": {"finalizers": finalizers}}, "", "add finalizer to claim"
                )
            what = "add reservation to claim"
            if allocation is not None:
                what = "add allocation and reservation to claim"
            status = self._status(current, allocation)
            return (yield from _patch(current, {"status": status}, "status", what))

        stored = yield from _until_no_conflict(self._newest(claim), write)
        self.inventory.upsert(stored)
        return stored

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the newest known version of a claim, not of another claim of the same name."""
        known = self.inventory.claims.get(claim.namespace, claim.name)
        return known if known is not None and known.uid == claim.uid else claim

    def _check_devices(self, claim: ResourceClaim, allocation: Allocation | None) -> None:
        """Raise AllocationError if another scheduler allocated a device since the decision."""
        holders = self.inventory.allocated_devices.unshared
        for result in allocation.devices.results if allocation is not None else ():
            unshared = result.share_id is None and not result.admin_access
            if unshared and holders[device_id(result)] > 1:
                name = f"{result.driver}/{result.pool}/{result.device}"
                raise AllocationError(
                    f"claim {claim.key}: device {name} got allocated elsewhere in the meantime"
                )

    def _status(self, current: ResourceClaim, allocation: Allocation | None) -> JsonObject:
        consumers = self.inventory.claims.consumers_in_flight.to_write(
            current.uid, current.status.reserved_for, self.pod.pod, _devices(current), MAX_CONSUMERS
        )
        status: JsonObject = {"reservedFor": consumers}
        if allocation is not None:
            status["allocation"] = msgspec.structs.replace(
                allocation, allocation_timestamp=rfc3339(self.now)
            )
        return status

    def _create_extended_claim(self, extended_claim: ResourceClaim, node: str) -> ApiCalls:
        """Create and allocate the extended resource claim; write its name and mappings to the pod.

        The last patch also has the pod's expected node, which saves a request.
        """
        pod = self.pod
        path, body = RESOURCE_CLAIMS.path(pod.namespace), _creation(extended_claim)
        try:
            created: ResourceClaim = yield ApiCall("create", path, body, returns=ResourceClaim)
        except HoldfastError as failure:
            yield ApiCall("observe", CREATIONS, (1.0, "failure"))
            what = f"create claim for extended resources {pod.namespace}/"
            # The part before that is a generated name.
            _, _, why = failure.message.partition(" is forbidden: ")
            if isinstance(failure, Forbidden) and "quota" in why:
                raise NotBindable(f"{what}: {why}") from failure
            raise AllocationError(f"{what}: {failure.message}") from failure
        self.extended_claim = created
        self.inventory.upsert(created)
        yield ApiCall("observe", CREATIONS, (1.0, "success"))
        self.extended_claim = yield from self._bind_claim(created, extended_claim.status.allocation)
        self.inventory.claims.remove_in_flight(extended_claim.uid)
        status: JsonObject = {
            "extendedResourceClaimStatus": {
                "resourceClaimName": created.name,
                "requestMappings": self.unallocated.requests.mappings,
            }
        }
        before: JsonObject = {"extendedResourceClaimStatus": None}
        if (nominated := pod.pod.status.nominated_node_name) != node:
            status["nominatedNodeName"], before["nominatedNodeName"] = node, nominated or None
        # Before the patch: it may be stored although its response is an error.
        self.pod_status_before = before
        yield from _patch_pod_status(pod, status)

    def _restore_pod_status(self, before: JsonObject) -> ApiCalls:
        yield from _patch_pod_status(self.pod, before)
        self.pod_status_before = None

    def _unreserve(self, claim: ResourceClaim) -> ApiCalls:
        """Remove the pod from the claim's consumers; the allocation stays."""
        yield ApiCall("turn", _path(claim))
        known = self.inventory.claims.get(claim.namespace, claim.name)
        if known is None or not is_reserved_for(known, self.pod.uid):
            return

        def write(current: ResourceClaim) -> Writes:
            others = [c for c in current.status.reserved_for if c.uid != self.pod.uid]
            status: JsonObject = {"status": {"reservedFor": others or None}}
            return (yield from _patch(current, status, "status", "remove reservation from claim"))

        self.inventory.upsert((yield from _until_no_conflict(known, write)))

    def _delete_extended_claim(self, extended_claim: ResourceClaim) -> ApiCalls:
        def write(current: ResourceClaim) -> Writes:
            without = [f for f in current.metadata.finalizers if f != CLAIM_FINALIZER]
            if len(without) == len(current.metadata.finalizers):
                return current
            change: JsonObject = {"metadata": {"finalizers": without}}
            return (yield from _patch(current, change, "", "remove finalizer from claim"))

        current = yield from _until_no_conflict(self._newest(extended_claim), write)
        raw = yield ApiCall("delete", _path(current))
        if (raw.get("metadata") or {}).get("deletionTimestamp"):
            # A finalizer of another client keeps the claim, and with it its devices.
            self.inventory.upsert(convert_object(raw, ResourceClaim))
        else:
            self.inventory.delete(current)
        self.extended_claim = None


def deallocation(claim: ResourceClaim) -> ApiCall:
    """Return the call that deallocates a claim."""
    body = _guarded(claim, {"status": {"allocation": None, "reservedFor": None, "devices": None}})
    return ApiCall("patch", _path(claim, "status"), body, MERGE_PATCH)


def pod_status_removal(pod: PodInfo) -> tuple[ApiCall, ...]:
    """Return the call that removes the extended resource claim from a pod's status, if needed."""
    if pod.pod.status.extended_resource_claim_status is None:
        return ()
    return (_pod_status_patch(pod, {"extendedResourceClaimStatus": None}),)


def deletion(claim: ResourceClaim, pod: PodInfo) -> tuple[ApiCall, ...]:
    """Return the calls that delete a pod's extended resource claim of an earlier attempt.

    The pod's status no longer names the claim, and its finalizer is removed first.
    """
    calls = [*pod_status_removal(pod)]
    without = [f for f in claim.metadata.finalizers if f != CLAIM_FINALIZER]
    if len(without) != len(claim.metadata.finalizers):
        body = _guarded(claim, {"metadata": {"finalizers": without}})
        calls.append(ApiCall("patch", _path(claim), body, MERGE_PATCH))
    return (*calls, ApiCall("delete", _path(claim)))


def _devices(claim: ResourceClaim) -> object:
    """Return the devices and nodes of an allocation, by which nodes for consumers are chosen."""
    allocation = claim.status.allocation
    return None if allocation is None else (allocation.devices.results, allocation.node_selector)


def _check(current: ResourceClaim, planned: ResourceClaim, allocation: Allocation | None) -> None:
    """Raise AllocationError if the claim was changed by another client in the meantime."""
    if current.metadata.deletion_timestamp is not None or current.uid != planned.uid:
        raise AllocationError(f"claim {current.key} got deleted in the meantime")
    if allocation is not None and current.status.allocation is not None:
        raise AllocationError(f"claim {current.key} got allocated elsewhere in the meantime")
    if allocation is None and current.status.allocation is None:
        raise AllocationError(f"claim {current.key} got deallocated elsewhere in the meantime")
    if allocation is None and _devices(current) != _devices(planned):
        raise AllocationError(f"claim {current.key} got other devices in the meantime")


def _creation(extended_claim: ResourceClaim) -> JsonObject:
    """Return the body of the creation; the API server sets name and uid.

    It has the finalizer of an allocated claim already, which saves a request.
    """
    meta = extended_claim.metadata
    requests = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": request.exactly.device_class_name,
                "allocationMode": request.exactly.allocation_mode,
                "count": request.exactly.count,
            },
        }
        for request in extended_claim.spec.devices.requests
        if request.exactly is not None
    ]
    return {
        "apiVersion": extended_claim.api_version,
        "kind": extended_claim.kind,
        "metadata": {
            "generateName": meta.generate_name,
            "namespace": meta.namespace,
            "annotations": meta.annotations,
            "ownerReferences": meta.owner_references,
            "finalizers": [CLAIM_FINALIZER],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _patch_pod_status(pod: PodInfo, status: JsonObject) -> ApiCalls:
    try:
        yield _pod_status_patch(pod, status)
    except NotFound:
        raise
    except HoldfastError as failure:
        raise AllocationError(
            f"update pod {pod.key} ExtendedResourceClaimStatus: {failure.message}"
        ) from failure


def _pod_status_patch(pod: PodInfo, status: JsonObject) -> ApiCall:
    body = {"metadata": {"uid": pod.pod.uid}, "status": status}
    path = PODS.path(pod.namespace, pod.name, "status")
    return ApiCall("patch", path, body, MERGE_PATCH, returns=None)


def _until_no_conflict(current: ResourceClaim, write: Callable[[ResourceClaim], Writes]) -> Writes:
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return (yield from write(current))
        except Conflict:
            current = yield _read(current)
    return (yield from write(current))


def _patch(claim: ResourceClaim, change: Mapping[str, Any], part: str, what: str) -> Writes:
    """Patch a claim if it still has the version that was read."""
    body = _guarded(claim, change)
    try:
        stored: ResourceClaim = yield ApiCall(
            "patch", _path(claim, part), body, MERGE_PATCH, returns=ResourceClaim
        )
    except (Conflict, NotFound):
        raise
    except HoldfastError as failure:
        raise AllocationError(f"{what} {claim.key}: {failure.message}") from failure
    return stored


def _read(claim: ResourceClaim) -> ApiCall:
    return ApiCall("get", _path(claim), returns=ResourceClaim)


def _guarded(claim: ResourceClaim, change: Mapping[str, Any]) -> JsonObject:
    """Return the patch with uid and resource version of the claim as preconditions."""
    meta = claim.metadata
    identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    guard = {key: value for key, value in identity.items() if value}
    return {**change, "metadata": {**change.get("metadata", {}), **guard}}


def _path(claim: ResourceClaim, part: str = "") -> str:
    return RESOURCE_CLAIMS.path(claim.namespace, claim.name, part)
