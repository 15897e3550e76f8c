"""Prepare and unprepare claims: idempotent, one at a time, remembered over restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.api.devices import ResourceClaim
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.node.cdi.files import file_name, remove_spec, write_spec
from holdfast.node.driverkit.checkpoint import Checkpoint, PreparedClaim
from holdfast.node.driverkit.claims import Claim, DriverError, Prepared, cdi_spec_of, claim_of
from holdfast.node.driverkit.driver import Driver
from holdfast.runtime.errors import HoldfastError, NotFound

T = TypeVar("T")
log = logging.getLogger(__name__)


class ClaimPreparation:
    """Calls the handlers of a driver for claims, and keeps CDI files and checkpoint.

    The handlers run one at a time. If the caller gives up a call, the handler continues, and the
    next call for the same claim waits for it. A kubelet gives up a call at its deadline and calls
    again: two handlers for one claim would run together, and a cancelled one would leave its work
    half done.
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
        """Prepare a claim, or return its earlier preparation; raises HoldfastError."""
        return await self._uninterrupted(self._prepare(namespace, name, uid))

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
        return await self._prepare_allocated(
            resource_claim, claim_of(resource_claim, self._driver.name)
        )

    async def _prepare_allocated(
        self, resource_claim: ResourceClaim, claim: Claim
    ) -> PreparedClaim:
        """Prepare a claim as it is stored, of which this driver has ``claim``."""
        async with self._one_at_a_time:
            known = self._checkpoint.get(claim.uid)
            if known is not None and known.devices != claim.devices:
                # Deallocated and allocated again, without a call in between.
                await self._undo(known)
                known = None
            if known is not None and known.done and self._files_exist(known):
                return known
            entry = PreparedClaim(claim.namespace, claim.name, claim.uid, claim.devices)
            # Before the handler: if this process ends in it, unprepare must be called.
            self._checkpoint.put(entry)
            prepared = await self._handled(self._driver.call_prepare(claim), "prepare")
            return self._store(claim, prepared)

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
            if known is not None:
                await self._release(known)

    async def _release(self, known: PreparedClaim) -> None:
        """Undo a preparation that the node needs no longer."""
        await self._undo(known)

    async def _undo(self, known: PreparedClaim) -> None:
        if known.done:
            # If the handler fails, the next prepare must not rely on its effect.
            self._checkpoint.put(msgspec.structs.replace(known, done=False))
        await self._call_unprepare(known)
        remove_spec(self._file(known.uid))
        self._checkpoint.remove(known.uid)

    async def _call_unprepare(self, known: PreparedClaim) -> None:
        await self._handled(self._driver.call_unprepare(known.claim), "unprepare")

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
