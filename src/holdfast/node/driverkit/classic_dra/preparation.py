"""Prepare and unprepare claims of both generations.

A node calls a classic driver for a classic claim itself, or for structured claims that stand for
it, its *shadows*.
"""

from __future__ import annotations

import msgspec

from holdfast.api.classic_dra.shadows import classic_reference
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.devices import ResourceClaim
from holdfast.node.cdi.files import remove_spec, write_spec
from holdfast.node.driverkit.checkpoint import PreparedClaim
from holdfast.node.driverkit.claims import Claim, Prepared, cdi_spec_of
from holdfast.node.driverkit.classic_dra.node_claims import (
    add_granted,
    classic_claim,
    has_nothing,
    read_classic_claim,
)
from holdfast.node.driverkit.preparation import ClaimPreparation


class ClassicPreparation(ClaimPreparation):
    """A ``ClaimPreparation`` that also knows classic claims and their shadows."""

    async def prepare_classic(
        self, namespace: str, name: str, uid: str, handle: str
    ) -> PreparedClaim:
        """Prepare a claim of classic DRA; a new handle is prepared again; raises HoldfastError."""
        return await self._uninterrupted(self._prepare_classic(namespace, name, uid, handle))

    async def _prepare_allocated(self, found: ResourceClaim, claim: Claim) -> PreparedClaim:
        """Prepare a claim, or the classic one for which it stands."""
        reference = classic_reference(found, self._driver.name)
        if reference is None:
            return await super()._prepare_allocated(found, claim)
        classic = await read_classic_claim(self._client, found, reference, self._driver.name)
        return await self._prepare_shadow(claim, classic)

    async def _prepare_classic(
        self, namespace: str, name: str, uid: str, handle: str
    ) -> PreparedClaim:
        async with self._one_at_a_time:
            return await self._prepare_handle(namespace, name, uid, handle, called=True)

    async def _prepare_shadow(self, shadow: Claim, classic: ClassicClaim) -> PreparedClaim:
        """Prepare a classic claim for one of the claims that stand for it, each of another pod."""
        assert classic.status.allocation is not None, "read_classic_claim checks it"
        async with self._one_at_a_time:
            known = self._checkpoint.get(shadow.uid)
            if known is not None and known.stands_for != classic.uid:
                await self._undo(known)
            entry = PreparedClaim(
                shadow.namespace, shadow.name, shadow.uid, shadow.devices, stands_for=classic.uid
            )
            self._checkpoint.put(entry)
            handle = classic.status.allocation.resource_handle
            prepared = await self._prepare_handle(
                classic.namespace, classic.name, classic.uid, handle
            )
            done = msgspec.structs.replace(entry, cdi_ids=prepared.cdi_ids, done=True)
            self._checkpoint.put(done)
            return done

    async def _prepare_handle(
        self, namespace: str, name: str, uid: str, handle: str, *, called: bool = False
    ) -> PreparedClaim:
        known = self._checkpoint.get(uid)
        if known is not None and called and not known.called:
            known = msgspec.structs.replace(known, called=True)
            self._checkpoint.put(known)
        same = known is not None and known.done and known.handle == handle
        if known is not None and same and self._files_exist(known):
            return known
        called = called or (known is not None and known.called)
        claim = classic_claim(namespace, name, uid, handle, self._driver.classic.handle)
        entry = PreparedClaim(namespace, name, uid, claim.devices, handle=handle, called=called)
        self._checkpoint.put(entry)
        prepared: Prepared = None
        if not has_nothing(claim):
            prepared = await self._handled(self._driver.call_prepare(claim), "prepare")
        with_amount = add_granted(self._driver.name, claim, prepared)
        spec, _ = cdi_spec_of(self._driver.name, claim, with_amount)
        if spec.devices:
            write_spec(spec, self._file(uid))
        else:
            remove_spec(self._file(uid))
        ids = tuple(spec.qualified(device) for device in spec.devices)
        done = msgspec.structs.replace(entry, cdi_ids=(ids,), done=True)
        self._checkpoint.put(done)
        return done

    async def _release(self, known: PreparedClaim) -> None:
        """Undo a preparation, unless shadows of the claim still need it."""
        if self._checkpoint.users_of(known.uid):
            self._checkpoint.put(msgspec.structs.replace(known, called=False))
        else:
            await super()._release(known)

    async def _undo(self, known: PreparedClaim) -> None:
        if not known.stands_for:
            await super()._undo(known)
            return
        classic = self._checkpoint.get(known.stands_for)
        last = self._checkpoint.users_of(known.stands_for) == [known.uid]
        if classic is not None and last and not classic.called:
            await self._undo(classic)
        self._checkpoint.remove(known.uid)

    async def _call_unprepare(self, known: PreparedClaim) -> None:
        if known.handle is None:
            await super()._call_unprepare(known)
            return
        parts = (known.namespace, known.name, known.uid, known.handle)
        claim = classic_claim(*parts, self._driver.classic.handle)
        if not has_nothing(claim):
            await self._handled(self._driver.call_unprepare(claim), "unprepare")
