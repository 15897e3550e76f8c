"""Writes to the API server: the PodScheduling, reservations of claims, releases; and their undo.

What the server returns is stored in the ledger, so that the next attempt reads it before the watch
reports it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.api.classic_dra.names import MAX_CONSUMERS
from holdfast.api.classic_dra.types import (
    ClassicClaim,
    ClassicResources,
    PodScheduling,
    PodSchedulingSpec,
)
from holdfast.api.decode import JsonObject
from holdfast.api.meta import owner_reference, version_guard
from holdfast.api.pod import NodeSelector, Pod
from holdfast.runtime.errors import Conflict, HoldfastError, NotFound
from holdfast.scheduling.framework.plugin import END_TURN, MERGE_PATCH, ApiCall, ApiCalls
from holdfast.state.classic_dra.claim_state import is_shared, is_usable
from holdfast.state.classic_dra.ledger import ClassicLedger, is_owned
from holdfast.state.classic_dra.pod_claims import ClassicPodClaim

_MAX_ATTEMPTS = 5
_PAUSE_SECONDS = 0.01
"""The first pause after a conflict: the other write may not be readable yet."""


class ClaimUnusable(HoldfastError):
    """A claim cannot be reserved any more; the pod is tried again after backoff."""


@dataclass(frozen=True, slots=True)
class ClassicWrites:
    """The writes for one pod."""

    pod: Pod
    ledger: ClassicLedger

    @property
    def _resources(self) -> ClassicResources:
        assert self.ledger.resources is not None, "PreFilter checks that classic DRA is served"
        return self.ledger.resources

    # --- the negotiation ----------------------------------------------------------------------

    def negotiate(self, spec: PodSchedulingSpec) -> ApiCalls:
        """Create the PodScheduling, or update it if its spec differs."""
        negotiation = self.ledger.negotiation_of(self.pod)
        if negotiation is not None and not is_owned(negotiation, self.pod):
            yield from self._delete(negotiation)
            negotiation = None
        if negotiation is None:
            stored = yield self._creation(spec)
        elif negotiation.spec != spec:
            stored = yield self._spec_patch(negotiation, spec)
        else:
            return
        self.ledger.upsert(stored)

    def end_negotiation(self) -> ApiCalls:
        """Delete the PodScheduling of a bound pod, if there is one; after an error, try again.

        Otherwise drivers would handle it until the pod is gone.
        """
        for attempt in range(_MAX_ATTEMPTS):
            negotiation = self.ledger.negotiation_of(self.pod)
            if negotiation is None:
                return
            try:
                yield from self._delete(negotiation)
                return
            except HoldfastError:
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
            yield self._pause(attempt)

    def clear_selected_node(self) -> Iterator[ApiCall]:
        """Return the call that stops asking drivers to allocate, if they are being asked."""
        negotiation = self.ledger.negotiation_of(self.pod)
        if (
            negotiation is not None
            and is_owned(negotiation, self.pod)
            and negotiation.spec.selected_node
        ):
            spec = PodSchedulingSpec("", negotiation.spec.potential_nodes)
            yield self._spec_patch(negotiation, spec)

    def _creation(self, spec: PodSchedulingSpec) -> ApiCall:
        pod, resource = self.pod, self._resources.pod_scheduling
        owner = owner_reference("v1", "Pod", pod)
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": pod.name, "namespace": pod.namespace, "ownerReferences": [owner]},
            "spec": {key: value for key, value in _spec(spec).items() if value is not None},
        }
        return ApiCall("create", resource.path(pod.namespace), body, returns=PodScheduling)

    def _spec_patch(self, negotiation: PodScheduling, spec: PodSchedulingSpec) -> ApiCall:
        # Drivers write the status at any time: no resourceVersion, only the scheduler has the spec.
        body = {"metadata": {"uid": negotiation.uid}, "spec": _spec(spec)}
        path = self._resources.pod_scheduling.path(negotiation.namespace, negotiation.name)
        return ApiCall("patch", path, body, MERGE_PATCH, PodScheduling)

    def _delete(self, negotiation: PodScheduling) -> ApiCalls:
        path = self._resources.pod_scheduling.path(negotiation.namespace, negotiation.name)
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": negotiation.uid},
        }
        with suppress(NotFound):
            yield ApiCall("delete", path, body, returns=None)
        self.ledger.delete(negotiation)

    # --- claims -------------------------------------------------------------------------------

    def reserve(self, claims: Iterable[ClassicClaim]) -> ApiCalls:
        """Reserve claims for the pod, each in one write that fails if the claim has changed."""
        for claim in claims:
            self.ledger.consumers_in_flight.join(claim.uid, self.pod, _available(claim))
            yield from self._write(claim, self._reservation)
            self.ledger.remove_in_flight(claim, self.pod.uid)

    def _reservation(self, claim: ClassicClaim, planned: ClassicClaim) -> ApiCall | None:
        self._check(claim, planned)
        if claim.is_reserved_for(self.pod.uid):
            return None
        return self._status_patch(claim, self._with_pod(claim))

    def unreserve(self, claims: Iterable[ClassicClaim]) -> ApiCalls:
        """Remove the pod from consumers of claims; after an error the other claims still follow."""
        failures: list[HoldfastError] = []
        for claim in claims:
            self.ledger.consumers_in_flight.remove(claim.uid, self.pod.uid)
            try:
                yield from self._write(claim, self._removal)
            except NotFound:
                continue
            except HoldfastError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def _removal(self, claim: ClassicClaim, planned: ClassicClaim) -> ApiCall | None:
        if claim.uid != planned.uid or not claim.is_reserved_for(self.pod.uid):
            return None
        return self.unreservation(claim)

    def _write(
        self,
        planned: ClassicClaim,
        call_for: Callable[[ClassicClaim, ClassicClaim], ApiCall | None],
    ) -> ApiCalls:
        """Write a claim; after a conflict, read it and try again.

        ``call_for`` returns the call for the newest version of the planned claim, None for no call.
        """
        yield self._turn(planned)
        current = self.ledger.newest(planned)
        for attempt in range(_MAX_ATTEMPTS):
            call = call_for(current, planned)
            if call is None:
                break
            try:
                self.ledger.upsert((yield call))
                break
            except Conflict:
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
            yield self._pause(attempt)
            current = yield self._read(current)
            self.ledger.upsert(current)
        yield END_TURN

    def _turn(self, claim: ClassicClaim) -> ApiCall:
        """Wait until no other pod writes the claim."""
        return ApiCall("turn", self._resources.claims.path(claim.namespace, claim.name))

    def unreservation(self, claim: ClassicClaim) -> ApiCall:
        """Return the call that removes the pod from the consumers of a claim."""
        return self._status_patch(claim, {"reservedFor": self._without_pod(claim)})

    def release(self, claim: ClassicClaim) -> ApiCall:
        """Return the call that asks the driver to deallocate a claim."""
        status = {"deallocationRequested": True, "reservedFor": self._without_pod(claim)}
        return self._status_patch(claim, status)

    def _check(self, claim: ClassicClaim, planned: ClassicClaim) -> None:
        if claim.uid != planned.uid or claim.is_deleted:
            raise ClaimUnusable(f"resourceclaim {claim.key} was deleted in the meantime")
        if not is_usable(claim):
            raise ClaimUnusable(f"resourceclaim {claim.key} was deallocated in the meantime")
        if _available(claim) != _available(planned):  # the node was chosen for the allocation then
            raise ClaimUnusable(f"resourceclaim {claim.key} was allocated anew in the meantime")
        if not self.ledger.is_free_for(claim, self.pod.uid):
            raise ClaimUnusable(f"resourceclaim {claim.key} is in use by now")

    def _pause(self, attempt: int) -> ApiCall:
        """Return a pause after a conflict; pods of the same claim continue at different times."""
        jitter = zlib.crc32(self.pod.uid.encode()) % 100 / 100
        return ApiCall("sleep", "", _PAUSE_SECONDS * 2**attempt * (1 + jitter))

    def _read(self, claim: ClassicClaim) -> ApiCall:
        path = self._resources.claims.path(claim.namespace, claim.name)
        return ApiCall("get", path, returns=ClassicClaim)

    def _status_patch(self, claim: ClassicClaim, status: JsonObject) -> ApiCall:
        guard = version_guard(claim)
        path = self._resources.claims.path(claim.namespace, claim.name, "status")
        body = {"metadata": guard, "status": status}
        return ApiCall("patch", path, body, MERGE_PATCH, ClassicClaim)

    def _with_pod(self, claim: ClassicClaim) -> JsonObject:
        """Reserve the claim for the pod, and for pods that wait for their turn to do so."""
        consumers, most = claim.status.reserved_for, MAX_CONSUMERS if is_shared(claim) else 1
        in_flight = self.ledger.consumers_in_flight
        reserved_for = in_flight.to_write(claim.uid, consumers, self.pod, _available(claim), most)
        return {"reservedFor": reserved_for}

    def _without_pod(self, claim: ClassicClaim) -> list[Any]:
        return [consumer for consumer in claim.status.reserved_for if consumer.uid != self.pod.uid]


def held_for_others(claims: Iterable[ClassicPodClaim], uid: str) -> list[ClassicClaim]:
    """Return the claims that a pod has reserved and that other pods may need, too.

    A pod that does not run gives them back: two pods that wait for each other's claim would wait
    for ever. A claim that was created for the pod is of no use to others, but one that is being
    deleted stays until it is not used.
    """
    by_uid = {
        of_pod.claim.uid: of_pod.claim
        for of_pod in claims
        if of_pod.claim.is_reserved_for(uid) and (of_pod.claim.is_deleted or not of_pod.entry.owned)
    }
    return [by_uid[key] for key in sorted(by_uid)]


def _available(claim: ClassicClaim) -> NodeSelector | None:
    allocation = claim.status.allocation
    return None if allocation is None else allocation.available_on_nodes


def _spec(spec: PodSchedulingSpec) -> JsonObject:
    # In a patch, null removes the field.
    return {
        "selectedNode": spec.selected_node or None,
        "potentialNodes": list(spec.potential_nodes),
    }
