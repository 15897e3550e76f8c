"""Find out whether an event may free devices for a pod, or make their users evictable."""

from __future__ import annotations

from holdfast.api.devices import EXTENDED_CLAIM, ResourceClaim
from holdfast.api.meta import is_controlled_by
from holdfast.api.pod import Pod
from holdfast.api.resource_quota import ResourceQuota
from holdfast.scheduling.framework.events import ClusterEvent
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.dynamic_resources.device_search import device_backed_names
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.claims import ClaimNotReady, claims_of_pod, is_reserved_for
from holdfast.state.devices.inventory import Inventory
from holdfast.state.quota.amounts import is_standard_key
from holdfast.state.quota.charging import may_have_room


def may_be_freed(old: ResourceClaim | None, new: ResourceClaim, pod: PodInfo, view: View) -> bool:
    """Return whether a claim has other users than before, who may all be evicted for the pod."""
    users = {user.uid for user in new.status.reserved_for}
    if not users or new.status.allocation is None:
        return False
    if old is not None and users == {user.uid for user in old.status.reserved_for}:
        return False
    return all(_is_bound_and_lower(uid, pod, view) for uid in users)


def may_be_evicted(bound: Pod | None, pod: PodInfo, view: View) -> bool:
    """Return whether a pod that was just bound may be evicted for its devices."""
    if bound is None or not (
        bound.structured_claims or bound.status.extended_resource_claim_status
    ):
        return False
    return _is_bound_and_lower(bound.uid, pod, view)


def had_devices_in_flight(deleted: Pod | None, view: View) -> bool:
    """Return whether a deleted pod frees devices whose allocation no stored claim has.

    Otherwise the claim shows when they are free: it is deallocated after the pod is gone.
    """
    inventory: Inventory | None = view.world.devices
    if deleted is None or inventory is None:
        return False
    if deleted.structured_claims:
        try:
            claims = claims_of_pod(deleted, inventory.claims)
        except ClaimNotReady:
            return True
        if not all(is_reserved_for(claim, deleted.uid) for claim in claims):
            return True
    names = {
        name
        for container in (*deleted.spec.init_containers, *deleted.spec.containers)
        for name in container.resources.requests
    }
    if all(inventory.device_class_for(name) is None for name in names):
        return False
    return inventory.claims.extended_claim_of(deleted) is None


def quota_may_have_room(event: ClusterEvent, pod: PodInfo, view: View) -> bool:
    """Return whether a quota may let the claim for the pod's extended resources be created now."""
    old: ResourceQuota | None = event.old
    new: ResourceQuota | None = event.new
    quota = new or old
    if quota is None or quota.namespace != pod.namespace or view.world.devices is None:
        return False
    if not device_backed_names(pod, view.nodes, view.world.devices):
        return False
    return may_have_room(old, new, lambda key: not is_standard_key(key))


def is_extended_claim_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether a claim was created for the pod's extended resources."""
    return claim.metadata.annotations.get(EXTENDED_CLAIM) == "true" and is_controlled_by(claim, pod)


def _is_bound_and_lower(uid: str, pod: PodInfo, view: View) -> bool:
    entry = view.nodes.pod(uid)
    if entry is None or view.nodes.is_assumed(uid):
        return False
    return entry[0].priority < pod.priority
