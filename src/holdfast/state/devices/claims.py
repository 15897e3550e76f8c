"""Resource claims in their newest known version, and the devices allocated to them.

The allocation of a claim is *in flight* from the decision until it is stored or the attempt fails;
its devices count as allocated before anything is written. ``claims_of_pod`` returns the claims of
a pod, or raises why the pod has to wait.

Stored claims and allocations in flight are kept apart, because the two end at different times. A
write may be stored although its response is lost, and the watch may show it before the response
arrives. Each device counts once whatever comes first.

Most changes of a claim concern no devices, and a change of devices evaluates nodes again. So
versions are compared first (``_allocates_the_same``): without that a binding caused four
evaluations of its node. ``in_pool`` is an index for preemption: with 16,000 allocated claims it
takes 15 ms, not 400.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator

from holdfast.api.devices import EXTENDED_CLAIM, MAX_CONSUMERS, ResourceClaim
from holdfast.api.meta import controller_of, is_controlled_by, is_newer
from holdfast.api.pod import Pod, PodResourceClaim, claim_name
from holdfast.runtime.errors import HoldfastError
from holdfast.state.columns.consumers_in_flight import ConsumersInFlight
from holdfast.state.devices.allocated_devices import AllocatedDevices, allocated_results
from holdfast.state.devices.slices import DeviceId, PoolId

_REMEMBERED_DELETIONS = 4096


class Claims:
    """The ledger of claims; ``on_change`` is called for every device allocated or deallocated."""

    def __init__(self, on_change: Callable[[DeviceId], None]) -> None:
        self._on_change = on_change
        self._by_key: dict[str, ResourceClaim] = {}
        self._in_flight: dict[str, ResourceClaim] = {}
        self._extended: dict[tuple[str, str], set[str]] = {}
        """Keys of the claims for extended resources, by namespace and uid of the pod.

        Users write owner references: those to pods of other namespaces have no effect. Without the
        namespace a pod waited until the claim of another user was deleted.
        """
        self._in_pool: dict[PoolId, dict[str, ResourceClaim]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self.allocated_devices = AllocatedDevices()
        self.consumers_in_flight = ConsumersInFlight()

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return the newest known version of a claim, or None."""
        return self._by_key.get(f"{namespace}/{name}")

    def all(self) -> tuple[ResourceClaim, ...]:
        """Return every claim as stored, without allocations in flight."""
        return tuple(self._by_key.values())

    def in_pool(self, pool: PoolId) -> Collection[ResourceClaim]:
        """Return the claims that are stored with devices of a pool."""
        return self._in_pool.get(pool, {}).values()

    @property
    def has_in_flight(self) -> bool:
        """Whether an allocation is being written."""
        return bool(self._in_flight)

    def including_in_flight(self) -> list[ResourceClaim]:
        """Return every claim; those in flight with the allocation that is being written."""
        stored = [self._in_flight.get(claim.uid, claim) for claim in self._by_key.values()]
        uids = {claim.uid for claim in self._by_key.values()}
        return [*stored, *(c for uid, c in self._in_flight.items() if uid not in uids)]

    def extended_claim_of(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim for the pod's extended resources of an earlier attempt, or None."""
        keys = self._extended.get((pod.namespace, pod.uid), ())
        return min((self._by_key[key] for key in keys), key=lambda c: c.key, default=None)

    def has_extended_claim(self, pod: Pod) -> bool:
        """Return whether a claim for the pod's extended resources is stored or in flight."""
        return (pod.namespace, pod.uid) in self._extended or in_flight_uid(
            pod.uid
        ) in self._in_flight

    def is_free_for(self, claim: ResourceClaim, pod_uid: str) -> bool:
        """Return whether a claim has room for a pod, with its consumers stored and in flight."""
        stored, in_flight = claim.status.reserved_for, self.consumers_in_flight
        if len(stored) + in_flight.size(claim.uid) < MAX_CONSUMERS:
            return True  # the common case, without a set
        if is_reserved_for(claim, pod_uid):
            return True
        return in_flight.count(claim.uid, stored, besides=pod_uid) < MAX_CONSUMERS

    def upsert(self, claim: ResourceClaim) -> bool:
        """Store a claim unless a newer version is known; return whether it was stored."""
        key = claim.key
        known = self._by_key.get(key)
        if claim.uid in self._deleted or (known is not None and not is_newer(claim, known)):
            return False
        if known is not None and _allocates_the_same(known, claim):
            # Most updates concern no devices, so no results of nodes are invalidated.
            self._store(claim)
            return True
        if known is not None:
            self._drop(known)
        self._store(claim)
        if owner := _extended_claim_owner(claim):
            self._extended.setdefault((claim.namespace, owner), set()).add(key)
            if claim.status.allocation is not None and self._replace_in_flight(claim, owner):
                return True
        if claim.uid not in self._in_flight:
            self._hold(claim)
        return True

    def _replace_in_flight(self, claim: ResourceClaim, owner: str) -> bool:
        """End the allocation in flight of a pod's extended resource claim that is stored now.

        Return whether both hold the same devices: then nothing changes for them.
        """
        substitute_uid = in_flight_uid(owner)
        in_flight = self._in_flight.get(substitute_uid)
        if in_flight is None:
            return False
        if claim.uid not in self._in_flight and _held(in_flight) == _held(claim):
            del self._in_flight[substitute_uid]
            return True
        self.remove_in_flight(substitute_uid)
        return False

    def delete(self, claim: ResourceClaim) -> None:
        """Remove a claim; a late response to one of our own writes does not restore it."""
        known = self._by_key.get(claim.key)
        if claim.uid:
            self._deleted[claim.uid] = None
            if len(self._deleted) > _REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
        if known is not None and known.uid == claim.uid:
            self._drop(known)

    def add_in_flight(self, claim: ResourceClaim) -> None:
        """Allocate the devices of this allocation, instead of those of the stored claim."""
        self.remove_in_flight(claim.uid)
        if (stored := self._stored(claim)) is not None:
            self._release(stored)
        self._in_flight[claim.uid] = claim
        self._hold(claim)

    def in_flight(self, uid: str) -> ResourceClaim | None:
        """Return the claim with the allocation that is being written, or None."""
        return self._in_flight.get(uid)

    def remove_in_flight(self, uid: str) -> bool:
        """End an allocation in flight: the stored claim counts; return whether one existed."""
        claim = self._in_flight.pop(uid, None)
        if claim is None:
            return False
        stored = self._stored(claim)
        if stored is not None and _allocates_the_same(claim, stored):
            return True
        self._release(claim)
        if stored is not None:
            self._hold(stored)
        return True

    def fork(self, on_change: Callable[[DeviceId], None]) -> Claims:
        """Return an independent copy."""
        copy = Claims(on_change)
        copy._by_key, copy._in_flight = dict(self._by_key), dict(self._in_flight)
        copy._extended = {uid: set(keys) for uid, keys in self._extended.items()}
        copy._in_pool = {pool: dict(claims) for pool, claims in self._in_pool.items()}
        copy._deleted = self._deleted.copy()
        copy.consumers_in_flight = self.consumers_in_flight.fork()
        copy.allocated_devices = self.allocated_devices.copy()
        return copy

    def _store(self, claim: ResourceClaim) -> None:
        self._by_key[claim.key] = claim
        for pool in _pools(claim):
            self._in_pool.setdefault(pool, {})[claim.key] = claim

    def _stored(self, claim: ResourceClaim) -> ResourceClaim | None:
        stored = self._by_key.get(claim.key)
        return stored if stored is not None and stored.uid == claim.uid else None

    def _drop(self, known: ResourceClaim) -> None:
        del self._by_key[known.key]
        for pool in _pools(known):
            del self._in_pool[pool][known.key]
            if not self._in_pool[pool]:
                del self._in_pool[pool]
        if owner := _extended_claim_owner(known):
            of_pod = self._extended[known.namespace, owner]
            of_pod.discard(known.key)
            if not of_pod:
                del self._extended[known.namespace, owner]
        if known.uid not in self._in_flight:
            self._release(known)

    def _hold(self, claim: ResourceClaim) -> None:
        for result in allocated_results(claim):
            self.allocated_devices.allocate(result)
            self._on_change((result.driver, result.pool, result.device))

    def _release(self, claim: ResourceClaim) -> None:
        for result in allocated_results(claim):
            self.allocated_devices.deallocate(result)
            self._on_change((result.driver, result.pool, result.device))


def _pools(claim: ResourceClaim) -> set[PoolId]:
    """Return the pools of the devices that are allocated to a claim."""
    if claim.status.allocation is None:
        return set()
    return {(result.driver, result.pool) for result in allocated_results(claim)}


def in_flight_uid(pod_uid: str) -> str:
    """Return the substitute uid of a pod's extended resource claim until it is created."""
    return f"extended-resources-of/{pod_uid}"


def _extended_claim_owner(claim: ResourceClaim) -> str:
    if claim.metadata.annotations.get(EXTENDED_CLAIM) != "true":
        return ""
    owner = controller_of(claim)
    return owner.uid if owner is not None else ""


def _allocates_the_same(known: ResourceClaim, claim: ResourceClaim) -> bool:
    """Return whether two versions of a claim have the same devices, and the same owner."""
    if known.uid != claim.uid or _extended_claim_owner(known) != _extended_claim_owner(claim):
        return False
    before, now = known.status.allocation, claim.status.allocation
    if before is None or now is None:
        return not _held(known) and not _held(claim)
    return before.devices == now.devices or _held(known) == _held(claim)


def _held(claim: ResourceClaim) -> list[tuple[object, ...]]:
    return [
        (r.driver, r.pool, r.device, r.share_id, r.consumed_capacity)
        for r in allocated_results(claim)
    ]


class ClaimNotReady(HoldfastError):
    """A claim of the pod is missing or cannot be used; the pod has to wait."""


def expect_claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the name of an entry's claim, and whether the pod must own the claim.

    The name is None if no claim is needed: the entry is ignored. Raises ClaimNotReady for a claim
    that does not exist yet.
    """
    from_template = entry.resource_claim_name is None
    if from_template and entry.resource_claim_template_name is None:
        where = f'pod "{pod.key}", spec.resourceClaim "{entry.name}"'
        raise ClaimNotReady(f"{where}: none of the supported fields are set")
    name = claim_name(pod, entry)
    if name == "":
        raise ClaimNotReady(f'pod "{pod.key}": ResourceClaim not created yet')
    return name, from_template


def check_owner(claim: ResourceClaim, pod: Pod) -> None:
    """Raise ClaimNotReady for a claim that was created for another pod."""
    if claim.namespace != pod.namespace:
        raise ClaimNotReady(
            f"ResourceClaim {claim.key} is not in the same namespace as Pod {pod.key}"
        )
    if not is_controlled_by(claim, pod):
        raise ClaimNotReady(
            f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
        )


def is_reserved_for(claim: ResourceClaim, pod_uid: str) -> bool:
    """Return whether the claim is reserved for the pod."""
    return any([consumer.uid == pod_uid for consumer in claim.status.reserved_for])


def is_bound_with(pod: Pod, claim: ResourceClaim) -> bool:
    """Return whether a pod is bound, or is being bound, with a claim for extended resources.

    Undoing an attempt removes the name of the claim from the pod first.
    """
    status = pod.status.extended_resource_claim_status
    named = status is not None and status.resource_claim_name == claim.name
    return named and claim.status.allocation is not None and is_reserved_for(claim, pod.uid)


def has_room_for(claim: ResourceClaim, pod_uid: str) -> bool:
    """Return whether a pod may be added to the stored consumers of a claim, or is one of them."""
    return len(claim.status.reserved_for) < MAX_CONSUMERS or is_reserved_for(claim, pod_uid)


def claims_of_pod(pod: Pod, claims: Claims) -> tuple[ResourceClaim, ...]:
    """Return the claims of a pod in the order of its spec; raise ClaimNotReady if one is not."""
    return tuple(_found(pod, claims))


def _found(pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
    for entry in pod.structured_claims:
        name, must_own = expect_claim_name(pod, entry)
        if name is None:
            continue
        claim = claims.get(pod.namespace, name)
        if claim is None:
            raise ClaimNotReady(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimNotReady(f'resourceclaim "{claim.name}" is being deleted')
        if must_own:
            check_owner(claim, pod)
        yield claim
