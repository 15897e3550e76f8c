"""Read and lock the claims of a pod that a driver must allocate, with class and parameters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from holdfast.api.classic_dra.claims import classic_entries, may_use
from holdfast.api.classic_dra.types import ClassicClaim, ClassicClass
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.node.driverkit.classic_dra.handlers import ClaimItem, ClassicHandlers, NotYet
from holdfast.node.driverkit.classic_dra.written_objects import WrittenObjects
from holdfast.runtime.errors import HoldfastError, Retryable

PendingClaim = tuple[ClassicClaim, ClassicClass, tuple[str, ...]]
"""A claim, its class, and its names in the pod's spec."""


class ClaimError(Retryable):
    """A claim cannot be allocated; an event is recorded for it."""

    def __init__(self, claim: ClassicClaim, cause: Exception) -> None:
        known = isinstance(cause, HoldfastError)
        text = str(cause) if known else f"{type(cause).__name__}: {cause}"
        after = cause.after if isinstance(cause, Retryable) else None
        super().__init__(f"claim {claim.name}: {text}", after=after)
        self.claim = claim
        self.__cause__ = cause


class ClaimItems:
    """Reads claims for one driver."""

    def __init__(
        self,
        driver: str,
        handlers: ClassicHandlers,
        classes: Mapping[str, ClassicClass],
        claims: WrittenObjects[ClassicClaim],
    ) -> None:
        self._driver = driver
        self._handlers = handlers
        self._classes = classes
        self._claims = claims

    def pending_of(self, pod: Pod) -> list[PendingClaim]:
        """Return the claims of a pod that the driver must allocate, in the order of their uids.

        Raises NotYet for a missing claim, ClaimError for a missing class.
        """
        by_uid: dict[str, PendingClaim] = {}
        try:
            entries = classic_entries(pod)
        except InvalidEntries as error:
            raise HoldfastError(f"pod {pod.name}: {error}") from error
        for entry in entries:
            claim = self._claims.get(f"{pod.namespace}/{entry.claim_name}")
            if claim is None:
                raise NotYet(f"there is no claim {entry.claim_name} of pod {pod.key} yet")
            if not may_use(pod, entry, claim):
                raise HoldfastError(f"claim {claim.name} was not created for pod {pod.name}")
            if claim.is_immediate or claim.is_allocated or claim.is_deleted:
                continue
            resource_class = self._classes.get(claim.spec.resource_class_name)
            if resource_class is None:
                name = claim.spec.resource_class_name
                raise ClaimError(claim, HoldfastError(f"there is no ResourceClass {name}"))
            if resource_class.driver_name == self._driver:
                names = by_uid.get(claim.uid, (claim, resource_class, ()))[2]
                by_uid[claim.uid] = (claim, resource_class, (*names, entry.name))
        return [by_uid[uid] for uid in sorted(by_uid)]

    async def read(
        self, claim: ClassicClaim, resource_class: ClassicClass, entries: tuple[str, ...]
    ) -> ClaimItem:
        """Add the parameters of a claim and of its class; raises ClaimError."""
        try:
            of_class = await self._handlers.class_parameters(resource_class)
            of_claim = await self._handlers.claim_parameters(claim, resource_class, of_class)
        except Exception as error:
            raise ClaimError(claim, error) from error
        return ClaimItem(claim, resource_class, of_class, of_claim, entries)


class ClaimLocks:
    """One lock for each claim in work, by uid."""

    def __init__(self, claims: WrittenObjects[ClassicClaim]) -> None:
        self._claims = claims
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, claims: Sequence[ClassicClaim]) -> AsyncIterator[list[ClassicClaim]]:
        """Lock claims, given in the order of their uids, and yield their newest versions.

        Raises NotYet if one was deleted, or created again, before it was locked.
        """
        taken: list[str] = []
        try:
            for claim in claims:
                await self._take(claim.uid)
                taken.append(claim.uid)
            yield [self._newest(claim) for claim in claims]
        finally:
            for uid in taken:
                self._locks[uid].release()
                self._leave(uid)

    def is_held(self, uid: str) -> bool:
        """Return whether a claim is in work."""
        return uid in self._users

    async def _take(self, uid: str) -> None:
        self._users[uid] = self._users.get(uid, 0) + 1
        try:
            await self._locks.setdefault(uid, asyncio.Lock()).acquire()
        except BaseException:
            self._leave(uid)
            raise

    def _leave(self, uid: str) -> None:
        self._users[uid] -= 1
        if not self._users[uid]:
            del self._users[uid], self._locks[uid]

    def _newest(self, known: ClassicClaim) -> ClassicClaim:
        now = self._claims.get(known.key)
        if now is None or now.uid != known.uid:
            raise NotYet(f"claim {known.key} is being replaced")
        return now
