"""Claims of a node's pods, read from the API server before a driver is called."""

from __future__ import annotations

from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.client.discovery import find_classic_resources
from holdfast.node.agent.claim_checkpoint import ClaimInfoState, DriverState
from holdfast.node.agent.claims import (
    AnyClaim,
    ClassicClaimResource,
    NeededClaim,
    claim_problem,
    not_created,
)
from holdfast.node.agent.pod_devices import NotPrepared, failed_prepare
from holdfast.runtime.errors import HoldfastError, NotFound


class NotUsable(HoldfastError):
    """A claim cannot be prepared now; the message says why."""


class NeverUsable(HoldfastError):
    """A pod may not use a classic claim: it was not reserved for the pod before its binding."""


def not_prepared(error: Exception) -> NotPrepared:
    """Return the error for a pod whose claims cannot be prepared."""
    never = isinstance(error, NeverUsable | InvalidEntries)
    return NotPrepared(failed_prepare(error), permanent=never)


class LiveClaims:
    """Reads claims of both generations; finds the group of classic ones if none is given."""

    def __init__(self, client: Client, classic: ClassicClaimResource | None = None) -> None:
        self._client = client
        self._classic = classic

    async def usable(self, pod: Pod, needed: NeededClaim) -> AnyClaim:
        """Return a claim that a pod may use; raise NotUsable, or NeverUsable for a classic one."""
        if not needed.name:
            raise NotUsable(not_created(needed))
        try:
            claim = await self._get(needed.name, pod.namespace, classic=needed.classic)
        except HoldfastError as error:
            never = needed.classic and isinstance(error, NotFound)
            text = f"fetch ResourceClaim {needed.name}: {error}"
            raise (NeverUsable if never else NotUsable)(text) from error
        if problem := claim_problem(pod, claim, owned=needed.owned):
            raise (NeverUsable if needed.classic else NotUsable)(problem)
        return claim

    async def usable_or_none(self, pod: Pod, needed: NeededClaim) -> AnyClaim | None:
        """Return a claim, None if it is gone or the pod may not use it; raises HoldfastError."""
        try:
            return await self.usable(pod, needed)
        except (NotUsable, NeverUsable) as error:
            if error.__cause__ is None or isinstance(error.__cause__, NotFound):
                return None
            raise

    async def lost_reason(self, claim: ClaimInfoState, pod_uid: str) -> str:
        """Return why a pod may no longer use a claim, or ""; raises HoldfastError."""
        try:
            live_claim = await self._get(claim.name, claim.namespace, classic=claim.classic)
        except NotFound:
            return f"ResourceClaim {claim.name} is gone"
        if live_claim.uid != claim.uid:
            return f"ResourceClaim {claim.name} was replaced by another one of its name"
        if all(consumer.uid != pod_uid for consumer in live_claim.status.reserved_for):
            return f"ResourceClaim {claim.name} is not reserved for the pod any more"
        return ""

    async def current_handle(self, claim: ClaimInfoState) -> str | None:
        """Return the handle of a classic claim; None if it is gone or not allocated."""
        try:
            live_claim = await self._get(claim.name, claim.namespace, classic=True)
        except NotFound:
            return None
        if isinstance(live_claim, ResourceClaim) or live_claim.uid != claim.uid:
            return None
        allocation = live_claim.status.allocation
        return None if allocation is None else allocation.resource_handle

    async def _get(self, name: str, namespace: str, *, classic: bool) -> AnyClaim:
        if not classic:
            return await self._client.get(RESOURCE_CLAIMS, name, namespace)
        if self._classic is None:
            resources = await find_classic_resources(self._client)
            if resources is None:
                raise NotUsable("the API server does not serve the kinds of classic DRA")
            self._classic = resources.claims
        return await self._client.get(self._classic, name, namespace)


def claim_info_of(claim: AnyClaim) -> ClaimInfoState:
    """Return the entry of the checkpoint for an allocated claim that is to be prepared."""
    if isinstance(claim, ResourceClaim):
        devices = tuple(
            f"{each.driver}/{each.pool}/{each.device}/{each.share_id or ''}"
            for each in claim.results
        )
        drivers = {result.driver: DriverState() for result in claim.results}
        return ClaimInfoState(
            claim.uid, claim.name, claim.namespace, drivers=drivers, allocation=devices
        )
    driver, allocation = claim.status.driver_name, claim.status.allocation
    handle = allocation.resource_handle if allocation is not None else ""
    return ClaimInfoState(
        claim.uid,
        claim.name,
        claim.namespace,
        drivers={driver: DriverState(classic=True, handle=handle)},
        allocation=(driver,),
        class_name=claim.spec.resource_class_name,
    )
