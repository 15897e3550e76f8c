"""The writes of a driver to a claim: finalizer, allocation, release; each is conflict-checked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.api.classic_dra.names import MAX_HANDLE_BYTES, deletion_protection
from holdfast.api.classic_dra.types import ClassicAllocation, ClassicClaim
from holdfast.api.devices import pod_consumer
from holdfast.api.meta import version_guard
from holdfast.api.pod import Pod
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.node.driverkit.classic_dra.negotiation import is_foreign
from holdfast.node.driverkit.classic_dra.pending_claims import ClaimError
from holdfast.node.driverkit.classic_dra.written_objects import WrittenObjects
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.state.classic_dra.claim_state import is_protected


class ClaimWriter:
    """Patches claims with uid and resource version: 409 means that another client changed them."""

    def __init__(
        self,
        driver: str,
        client: Client,
        resource: Resource[ClassicClaim],
        known: WrittenObjects[ClassicClaim],
    ) -> None:
        self._driver = driver
        self._client = client
        self._resource = resource
        self._known = known

    async def protect(self, claim: ClassicClaim) -> ClassicClaim:
        """Add the driver's finalizer: before anything is allocated for the claim."""
        if is_protected(claim, self._driver):
            return claim
        finalizers = (*claim.metadata.finalizers, deletion_protection(self._driver))
        return await self._set_finalizers(claim, finalizers)

    async def set_allocation(
        self, claim: ClassicClaim, allocation: ClassicAllocation, pod: Pod | None
    ) -> ClassicClaim:
        """Store an allocation; the pod for which it was made may use the claim at once."""
        size = len(allocation.resource_handle.encode())
        if size > MAX_HANDLE_BYTES:
            large = f"its handle has {size} bytes, more than {MAX_HANDLE_BYTES}"
            raise ClaimError(claim, HoldfastError(large))
        status: dict[str, Any] = {"driverName": self._driver, "allocation": allocation}
        if pod is not None:
            status["reservedFor"] = [*claim.status.reserved_for, pod_consumer(pod)]
        return await self._set_status(claim, status)

    async def release(self, claim: ClassicClaim) -> None:
        """Store that nothing is allocated, then remove the finalizer.

        Allocations by another driver stay.
        """
        status = claim.status
        set_ = claim.is_allocated or status.deallocation_requested or bool(status.driver_name)
        if set_ and not is_foreign(claim, self._driver):
            removed = {"allocation": None, "driverName": None, "deallocationRequested": None}
            claim = await self._set_status(claim, removed)
        own = deletion_protection(self._driver)
        if own in claim.metadata.finalizers:
            left = tuple(name for name in claim.metadata.finalizers if name != own)
            with suppress(NotFound):  # removed before, by a write whose answer was lost
                await self._set_finalizers(claim, left)

    async def _set_finalizers(self, claim: ClassicClaim, names: Sequence[str]) -> ClassicClaim:
        guard = {**version_guard(claim), "finalizers": list(names) or None}
        return await self._patch(claim, {"metadata": guard})

    async def _set_status(self, claim: ClassicClaim, status: dict[str, Any]) -> ClassicClaim:
        body = {"metadata": version_guard(claim), "status": msgspec.to_builtins(status)}
        return await self._patch(claim, body, "status")

    async def _patch(
        self, claim: ClassicClaim, body: dict[str, Any], subresource: str = ""
    ) -> ClassicClaim:
        written = await self._client.patch(
            self._resource, claim.name, body, claim.namespace, subresource=subresource
        )
        return self._known.put(written)
