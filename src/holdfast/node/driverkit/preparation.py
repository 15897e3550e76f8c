"""Prepare and unprepare claims: idempotent, one at a time, remembered over restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.api.classic_dra.shadows import classic_reference
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.devices import ResourceClaim
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.node.cdi.files import file_name, remove_spec, write_spec
from holdfast.node.driverkit.checkpoint import Checkpoint, PreparedClaim
from holdfast.node.driverkit.claims import Claim, DriverError, Prepared, cdi_spec_of, claim_of
from holdfast.node.driverkit.classic_dra.node_claims import (
    add_granted,
    classic_claim,
    has_nothing,
    read_classic_claim,
)
from holdfast.node.driverkit.driver import Driver
from holdfast.runtime.errors import HoldfastError, NotFound

T = TypeVar("T")
log = logging.getLogger(__name__)


class ClaimPreparation:
    """Calls the handlers of a driver for claims, and keeps CDI files and checkpoint.

    The handlers run one at a time. A call that the caller has given up continues; the next call for
    the same claim waits for it. A kubelet gives a call up at its deadline and calls again: two
    handlers for one claim would run together, and a cancelled one would leave half of its work.
    """

    def __init__(
        self, driver: Driver, client: Client, checkpoint: Checkpoint, cdi_dir: Path
    ) -> None:
        self._driver = driver
        self._client = client
        self._checkpoint = checkpoint
        self._cdi_dir = cdi_dir
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[object]] = set()

    async def prepare(self, namespace: str, name: str, uid: str) -> PreparedClaim:
        """Prepare a claim, or return how it is prepared already; raises HoldfastError."""
        return await self._uninterrupted(self._prepare(namespace, name, uid))

    async def prepare_classic(
        self, namespace: str, name: str, uid: str, handle: str
    ) -> PreparedClaim:
        """Prepare a claim of classic DRA; a new handle is prepared again; raises HoldfastError."""
        return await self._uninterrupted(self._prepare_classic(namespace, name, uid, handle))

    async def unprepare(self, uid: str) -> None:
        """Undo the preparation of a claim, if there is one; raises HoldfastError."""
        await self._uninterrupted(self._unprepare(uid))

    async def stop(self) -> None:
        """Wait for handlers that still run."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _uninterrupted(self, work: Coroutine[object, object, T]) -> T:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except OSError as error:
            raise DriverError(f"cannot be recorded: {error}") from error

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # asyncio would report it if the caller has given up

    async def _prepare(self, namespace: str, name: str, uid: str) -> PreparedClaim:
        resource_claim = await self._read(namespace, name, uid)
        claim = claim_of(resource_claim, self._driver.name)
        if (reference := classic_reference(resource_claim, self._driver.name)) is not None:
            classic = await read_classic_claim(
                self._client, resource_claim, reference, self._driver.name
            )
            return await self._prepare_shadow(claim, classic)
        async with self._one_at_a_time:
            known = self._checkpoint.get(uid)
            if known is not None and known.devices != claim.devices:
                # Deallocated and allocated again, without a call in between.
                await self._undo(known)
                known = None
            if known is not None and known.done and self._files_exist(known):
                return known
            entry = PreparedClaim(namespace, name, uid, claim.devices)
            # Before the handler: if this process ends in it, unprepare must be called.
            self._checkpoint.put(entry)
            prepared = await self._handled(self._driver.call_prepare(claim), "prepare")
            return self._store(claim, prepared)

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

    def _store(self, claim: Claim, prepared: Prepared) -> PreparedClaim:
        spec, names = cdi_spec_of(self._driver.name, claim, prepared)
        if spec.devices:
            write_spec(spec, self._file(claim.uid))
        done = PreparedClaim(
            claim.namespace,
            claim.name,
            claim.uid,
            claim.devices,
            tuple(map(tuple, names)),
            done=True,
        )
        self._checkpoint.put(done)
        return done

    async def _unprepare(self, uid: str) -> None:
        async with self._one_at_a_time:
            known = self._checkpoint.get(uid)
            if known is not None and self._checkpoint.users_of(uid):
                self._checkpoint.put(msgspec.structs.replace(known, called=False))
            elif known is not None:
                await self._undo(known)

    async def _undo(self, known: PreparedClaim) -> None:
        if known.stands_for:
            classic = self._checkpoint.get(known.stands_for)
            last = self._checkpoint.users_of(known.stands_for) == [known.uid]
            if classic is not None and last and not classic.called:
                await self._undo(classic)
            self._checkpoint.remove(known.uid)
            return
        if known.done:
            # If the handler does not end well, the next prepare must not rely on its effect.
            self._checkpoint.put(msgspec.structs.replace(known, done=False))
        claim = known.claim
        if known.handle is not None:
            parts = (known.namespace, known.name, known.uid, known.handle)
            claim = classic_claim(*parts, self._driver.classic.handle)
        if not has_nothing(claim):
            await self._handled(self._driver.call_unprepare(claim), "unprepare")
        remove_spec(self._file(known.uid))
        self._checkpoint.remove(known.uid)

    async def _read(self, namespace: str, name: str, uid: str) -> ResourceClaim:
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, name, namespace)
        except NotFound as error:
            raise DriverError(f"ResourceClaim {namespace}/{name} does not exist") from error
        if claim.uid != uid:
            raise DriverError(f"ResourceClaim {claim.key} has uid {claim.uid}, not {uid}")
        return claim

    async def _handled(self, handler: Awaitable[T], name: str) -> T:
        """Await a handler; its errors become errors of the claim, and its defects are logged."""
        try:
            return await handler
        except HoldfastError:
            raise
        except Exception as error:
            log.exception("the %s handler of %s failed", name, self._driver.name)
            raise DriverError(f"{name} failed: {type(error).__name__}: {error}") from error

    def _files_exist(self, known: PreparedClaim) -> bool:
        """Tell whether the CDI file is still there; its directory may be lost at a reboot."""
        return not any(known.cdi_ids) or self._file(known.uid).exists()

    def _file(self, uid: str) -> Path:
        return self._cdi_dir / file_name(self._driver.name, uid)
