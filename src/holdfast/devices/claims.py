"""Claims as last heard or last written by ourselves, and what they hold.

A claim that is being allocated is *promised*: its devices count as held from the decision on,
before anything is written. The promise is withdrawn when the written claim takes its place, or
when the attempt fails. ``claims_of`` finds the claims of a pod, or says why it has to wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Pod, PodResourceClaim
from holdfast.devices.holdings import Holdings, results_of
from holdfast.devices.slices import DeviceId
from holdfast.errors import HoldfastError

EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the claim that the scheduler makes for a pod's extended resources."""
_REMEMBERED_DELETIONS = 4096


class Claims:
    """The claim ledger; ``moved`` is told of every device whose holders changed."""

    def __init__(self, moved: Callable[[DeviceId], None]) -> None:
        self._moved = moved
        self._by_key: dict[str, ResourceClaim] = {}
        self._promised: dict[str, ResourceClaim] = {}
        self._special: dict[str, set[str]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self.holdings = Holdings()

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """The newest version of a claim we know."""
        return self._by_key.get(f"{namespace}/{name}")

    def all(self) -> tuple[ResourceClaim, ...]:
        """Every claim, promised allocations left out."""
        return tuple(self._by_key.values())

    def effective(self) -> list[ResourceClaim]:
        """Every claim as it counts: promised ones as they are about to be written."""
        stored = [self._promised.get(claim.uid, claim) for claim in self._by_key.values()]
        uids = {claim.uid for claim in self._by_key.values()}
        return [*stored, *(c for uid, c in self._promised.items() if uid not in uids)]

    def special_of(self, pod: Pod) -> ResourceClaim | None:
        """The claim made for the pod's extended resources in an earlier attempt, or None."""
        keys = self._special.get(pod.uid, ())
        return min((self._by_key[key] for key in keys), key=lambda c: c.key, default=None)

    def upsert(self, claim: ResourceClaim) -> bool:
        """Take in a claim unless we know a newer version; tell whether it was news."""
        known = self._by_key.get(claim.key)
        if claim.uid in self._deleted or (known is not None and _older(claim, known)):
            return False
        if known is not None:
            self._drop(known)
        self._by_key[claim.key] = claim
        if owner := _special_owner(claim):
            self._special.setdefault(owner, set()).add(claim.key)
            if claim.status.allocation is not None:
                # It was promised before it had a uid of its own; now it is written.
                self.withdraw(special_uid(owner))
        if claim.uid not in self._promised:
            self._hold(claim)
        return True

    def delete(self, claim: ResourceClaim) -> None:
        """Let a claim go; an answer to a write of ours that comes late does not bring it back."""
        known = self._by_key.get(claim.key)
        if claim.uid:
            self._deleted[claim.uid] = None
            if len(self._deleted) > _REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
        if known is not None and known.uid == claim.uid:
            self._drop(known)

    def promise(self, claim: ResourceClaim) -> None:
        """Hold what the claim's allocation says, instead of what is stored."""
        self.withdraw(claim.uid)
        if (stored := self._stored(claim)) is not None:
            self._release(stored)
        self._promised[claim.uid] = claim
        self._hold(claim)

    def promised(self, uid: str) -> ResourceClaim | None:
        """The claim as it is about to be written, or None."""
        return self._promised.get(uid)

    def withdraw(self, uid: str) -> bool:
        """Let a promise go and hold what is stored again; tell whether there was one."""
        claim = self._promised.pop(uid, None)
        if claim is None:
            return False
        self._release(claim)
        if (stored := self._stored(claim)) is not None:
            self._hold(stored)
        return True

    def fork(self, moved: Callable[[DeviceId], None]) -> Claims:
        """An independent copy."""
        copy = Claims(moved)
        copy._by_key, copy._promised = dict(self._by_key), dict(self._promised)
        copy._special = {uid: set(keys) for uid, keys in self._special.items()}
        copy._deleted = self._deleted.copy()
        copy.holdings = self.holdings.copy()
        return copy

    def _stored(self, claim: ResourceClaim) -> ResourceClaim | None:
        stored = self._by_key.get(claim.key)
        return stored if stored is not None and stored.uid == claim.uid else None

    def _drop(self, known: ResourceClaim) -> None:
        del self._by_key[known.key]
        if owner := _special_owner(known):
            self._special[owner].discard(known.key)
            if not self._special[owner]:
                del self._special[owner]
        if known.uid not in self._promised:
            self._release(known)

    def _hold(self, claim: ResourceClaim) -> None:
        for result in results_of(claim):
            self.holdings.take(result)
            self._moved((result.driver, result.pool, result.device))

    def _release(self, claim: ResourceClaim) -> None:
        for result in results_of(claim):
            self.holdings.give_back(result)
            self._moved((result.driver, result.pool, result.device))


def special_uid(pod_uid: str) -> str:
    """Under which uid a pod's special claim is promised, before it has one of its own."""
    return f"extended-resources-of/{pod_uid}"


def controller_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Tell whether the pod is the claim's controlling owner."""
    return any(o.controller and o.uid == pod.uid for o in claim.metadata.owner_references)


def _special_owner(claim: ResourceClaim) -> str:
    if claim.metadata.annotations.get(EXTENDED_CLAIM) != "true":
        return ""
    return next((o.uid for o in claim.metadata.owner_references if o.controller), "")


def _older(claim: ResourceClaim, known: ResourceClaim) -> bool:
    """Tell whether the claim is an older version of the one known; versions count up."""
    if claim.uid != known.uid:
        return False
    mine, theirs = claim.metadata.resource_version, known.metadata.resource_version
    return mine.isdigit() and theirs.isdigit() and int(mine) < int(theirs)


class ClaimUnmet(HoldfastError):
    """A claim of the pod is not there or not usable; the pod has to wait."""


def claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """Name the claim object of an entry, and tell whether the pod must own it.

    No name means that none was made on purpose: the entry can be ignored.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, False
    if entry.resource_claim_template_name is not None:
        for status in pod.status.resource_claim_statuses:
            if status.name == entry.name:
                return status.resource_claim_name, True
        raise ClaimUnmet(f'pod "{pod.key}": ResourceClaim not created yet')
    raise ClaimUnmet(
        f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
    )


def check_owner(claim: ResourceClaim, pod: Pod) -> None:
    """Refuse a claim that was made for another pod."""
    if claim.namespace != pod.namespace:
        raise ClaimUnmet(f"ResourceClaim {claim.key} is not in the same namespace as Pod {pod.key}")
    if not controller_of(claim, pod):
        raise ClaimUnmet(
            f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
        )


def reserved_for(claim: ResourceClaim, pod_uid: str) -> bool:
    """Tell whether the pod may use the claim already."""
    return any(consumer.uid == pod_uid for consumer in claim.status.reserved_for)


def claims_of(pod: Pod, claims: Claims) -> tuple[ResourceClaim, ...]:
    """The claims of a pod in the order of its spec; raises ClaimUnmet if one is not usable."""
    return tuple(_found(pod, claims))


def _found(pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
    for entry in pod.spec.resource_claims:
        name, must_own = claim_name(pod, entry)
        if name is None:
            continue
        claim = claims.get(pod.namespace, name)
        if claim is None:
            raise ClaimUnmet(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimUnmet(f'resourceclaim "{claim.name}" is being deleted')
        if must_own:
            check_owner(claim, pod)
        yield claim
